//! All-gather `ll`: every rank pushes its share to every peer as LL packets; each unpacks what it receives.
//!
//! ```text
//!   rank r   in ──┬─ slots of every peer ──►  poll   slots[s] ──► out[s]  for every other rank s
//!                 └────────────────────────────────────────────► out[r]
//! ```
//!
//! One hop, no barrier. Moves 2·S·(n−1) bytes per rank for a share of S bytes: half of each packet is flag.
//!
//! Ordering: all that crosses the link is LL packets; see [`crate::ll`]. In place, `in` is `out[r]`, which is loaded and
//! stored by the same thread with the same bytes.

use super::words::{WORDS_PER_THREAD, Words};
use crate::abi::{CollectiveArgs, LL_PATH_FULL, LL_PATH_ONE_TILE, LL_PATH_RAGGED};
use crate::ll::LlSession;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_gather_ll(args: &CollectiveArgs) {
    match args.ll_path {
        LL_PATH_ONE_TILE => run::<1, LL_PATH_ONE_TILE>(args),
        LL_PATH_FULL => run::<WORDS_PER_THREAD, LL_PATH_FULL>(args),
        _ => run::<1, LL_PATH_RAGGED>(args),
    }
}

#[inline(always)]
fn run<const N: usize, const PATH: u32>(args: &CollectiveArgs) {
    let mut words = Words::<N, PATH>::new(args, args.count);
    if words.is_empty() {
        return;
    }
    // The first load is under way before anything waits for the epoch.
    let mut own = words.load();
    let mut watch = Watch::enter(&args.comm);
    let mut session = LlSession::begin(&args.comm);
    loop {
        words.send(&session, &watch, own);
        let is_last = words.is_last_tile();
        if is_last {
            session.save_epoch();
        }
        words.store(words.team.rank() as u64 * args.count, own);
        let mut distance = 1;
        while distance < words.team.n_ranks() {
            let sender = words.team.neighbour(distance);
            words.store(sender as u64 * args.count, words.receive(&session, &mut watch, sender));
            distance += 1;
        }
        session.retire_bank();
        if is_last {
            break;
        }
        words.next_tile();
        own = words.load();
        if !session.next_epoch(&watch) {
            break;
        }
    }
    watch.leave();
}
