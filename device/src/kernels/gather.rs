//! All-gather `ll`, `ll_128`: every rank pushes its share to every peer as packets; each unpacks what it receives.
//!
//! ```text
//!   rank r   in ──┬─ slots of every peer ──►  poll   slots[s] ──► out[s]  for every other rank s
//!                 └────────────────────────────────────────────► out[r]
//! ```
//!
//! One hop, no barrier. A rank sends, for a share of S bytes: 2·S·(n−1) by `ll`, 4/3·S·(n−1) by `ll_128`.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. In place, `in` is `out[r]`, which is loaded
//! and stored by the same thread with the same bytes.

use super::cut::{Part, Tile};
use super::exchange::{receive, send};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::{Byte, FourBytes, Unit};
use crate::packets::{Ll, Ll128, Packets};
use crate::team::Team;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_gather_ll(args: &CollectiveArgs) {
    run::<Ll, 1>(args);
}

#[inline(always)]
pub(super) fn all_gather_ll_128(args: &CollectiveArgs) {
    run::<Ll128, 2>(args);
}

#[inline(always)]
fn run<P: Packets, const N: usize>(args: &CollectiveArgs) {
    // Ragged ends go faster by wider units, which is nearly always possible.
    if (args.input_offset | args.output_offset | args.len_bytes) & 3 == 0 {
        by_units::<P, FourBytes, N>(args);
    } else {
        by_units::<P, Byte, N>(args);
    }
}

#[inline(always)]
fn by_units<P: Packets, U: Unit, const N: usize>(args: &CollectiveArgs) {
    let team = Team::new(&args.comm);
    let share = Part::share(P::BYTES, args);
    let mut tile = Tile::<N>::first(args, P::capacity(DevBaseLayout::new(args.comm.n_ranks)));
    let store = |tile: &Tile<N>, sender: u32, packs| {
        let place = share.stored_behind(sender as u64 * args.len_bytes);
        tile.store::<U>(&place, team, team.rank(), packs);
    };
    // Addresses are computed while the kernel before ends.
    let input = tile.input(&share, team, team.rank()).now();
    let mut watch = Watch::enter_with_next_ready(&args.comm);
    if tile.is_empty() {
        return;
    }
    let mut packets = P::begin(&args.comm);
    // All three loads are under way before anything waits for one.
    let mut own = tile.load_from::<U>(&share, &input, team, team.rank());
    loop {
        let mut distance = 1;
        while distance < team.n_ranks() {
            send(&packets, &watch, &tile, team.neighbour(distance), 0, own);
            distance += 1;
        }
        let is_last = tile.is_last();
        packets.turn([tile.len(), 0], is_last);
        store(&tile, team.rank(), own);
        let mut distance = 1;
        while distance < team.n_ranks() {
            let sender = team.neighbour(distance);
            store(&tile, sender, receive(&packets, &mut watch, &tile, sender, 0));
            distance += 1;
        }
        packets.retire();
        if is_last {
            break;
        }
        tile.next();
        own = tile.load::<U>(&share, team, team.rank());
        if !packets.next_epoch(&watch) {
            break;
        }
    }
    watch.leave();
}
