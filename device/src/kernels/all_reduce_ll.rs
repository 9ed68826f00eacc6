//! All-reduce `ll`: every rank pushes its whole message to every peer as LL packets and reduces what it receives.
//!
//! ```text
//!   rank 0   in ──┬─ slots of 1, 2, … ──►            in, slots[1], slots[2] ── fold ──► out
//!   rank 1   in ──┼─ slots of 0, 2, … ──►   poll     slots[0], in, slots[2] ── fold ──► out
//!   rank 2   in ──┴─ slots of 0, 1, … ──►            slots[0], slots[1], in ── fold ──► out
//! ```
//!
//! One hop, no barrier. Moves 2·S·(n−1) bytes per rank for a message of S bytes: half of each packet is flag.
//!
//! Ordering: all that crosses the link is LL packets; see [`crate::ll`]. Each word of the output is stored by the thread
//! that loaded the same word of the input, so in and out may be the same memory.

use super::words::{WORDS_PER_THREAD, Words};
use crate::abi::{CollectiveArgs, LL_PATH_FULL, LL_PATH_ONE_TILE, LL_PATH_RAGGED};
use crate::element::{Element, Reduction, finish_word, fold_word};
use crate::ll::LlSession;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_reduce_ll<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    match args.ll_path {
        LL_PATH_ONE_TILE => run::<T, O, 1, LL_PATH_ONE_TILE>(args),
        LL_PATH_FULL => run::<T, O, WORDS_PER_THREAD, LL_PATH_FULL>(args),
        _ => run::<T, O, 1, LL_PATH_RAGGED>(args),
    }
}

#[inline(always)]
fn run<T: Element, O: Reduction<T::Acc>, const N: usize, const PATH: u32>(args: &CollectiveArgs) {
    let mut words = Words::<N, PATH>::new(args, args.count * T::BYTES);
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
        let folded = receive_and_fold::<T, O, N, PATH>(&words, &session, &mut watch, own);
        words.store(0, folded);
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

#[inline(always)]
fn receive_and_fold<T: Element, O: Reduction<T::Acc>, const N: usize, const PATH: u32>(
    words: &Words<N, PATH>,
    session: &LlSession,
    watch: &mut Watch,
    own: [u64; N],
) -> [u64; N] {
    let mut acc = [T::lift(0); N];
    let mut rank = 0;
    while rank < words.team.n_ranks() {
        let next = if rank == words.team.rank() { own } else { words.receive(session, watch, rank) };
        for n in 0..N {
            acc[n] = if rank == 0 { T::lift(next[n]) } else { fold_word::<T, O>(acc[n], next[n]) };
        }
        rank += 1;
    }
    let mut folded = [0; N];
    for n in 0..N {
        folded[n] = finish_word::<T, O>(acc[n], words.team.n_ranks());
    }
    folded
}
