//! One hop, everything to everyone: all-reduce `ll`, `ll_128`, `sentinel`. Every rank pushes its whole message to every
//! peer as packets and reduces what it receives.
//!
//! ```text
//!   rank 0   in ──┬─ slots of 1, 2, … ──►            in, slots[1], slots[2] ── fold ──► out
//!   rank 1   in ──┼─ slots of 0, 2, … ──►   poll     slots[0], in, slots[2] ── fold ──► out
//!   rank 2   in ──┴─ slots of 0, 1, … ──►            slots[0], slots[1], in ── fold ──► out
//! ```
//!
//! One hop, no barrier. A rank sends, for a message of S bytes: 2·S·(n−1) by `ll`, 4/3·S·(n−1) by `ll_128`, S·(n−1) by
//! `sentinel`.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. Each slot of the output is stored by the
//! thread that loaded the same slot of the input, so in and out may be the same memory.

use super::cut::{Part, Tile};
use super::exchange::{fold_parts, send};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::{Element, Float, Reduction};
use crate::packets::{Ll, Ll128, Packets, Sentinel};
use crate::team::Team;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_reduce_ll<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Ll, T, O, 1>(args);
}

#[inline(always)]
pub(super) fn all_reduce_ll_128<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Ll128, T, O, 2>(args);
}

#[inline(always)]
pub(super) fn all_reduce_sentinel<T: Float, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Sentinel<T>, T, O, 2>(args);
}

#[inline(always)]
fn run<P: Packets, T: Element, O: Reduction<T::Acc>, const N: usize>(args: &CollectiveArgs) {
    let team = Team::new(&args.comm);
    let message = Part::whole(P::BYTES, args);
    let mut tile = Tile::<N>::first(args, P::capacity(DevBaseLayout::new(args.comm.n_ranks)));
    // Addresses are computed while the kernel before ends.
    let input = tile.input(&message, team, team.rank()).now();
    let mut watch = Watch::enter_with_next_ready(&args.comm);
    if tile.is_empty() {
        return;
    }
    let mut packets = P::begin(&args.comm);
    // All three loads are under way before anything waits for one.
    let mut own = tile.load_from::<T>(&message, &input, team, team.rank());
    loop {
        let mut distance = 1;
        while distance < team.n_ranks() {
            send(&packets, &watch, &tile, team.neighbour(distance), 0, own);
            distance += 1;
        }
        let is_last = tile.is_last();
        packets.turn([tile.len(), 0], is_last);
        let output = tile.output(&message, team, team.rank()).now();
        let folded = fold_parts::<P, T, O, N>(&packets, &mut watch, &tile, team, own);
        tile.store_at::<T>(&message, &output, team, team.rank(), folded);
        packets.retire();
        if is_last {
            break;
        }
        tile.next();
        own = tile.load::<T>(&message, team, team.rank());
        if !packets.next_epoch(&watch) {
            break;
        }
    }
    watch.leave();
}
