//! To the owners and, in an all-reduce, back: reduce-scatter `ll`, `ll_128`, `sentinel`, all-reduce `ll_two_shot`,
//! `sentinel_two_shot`. Each rank owns a part of the message. Every rank pushes each part to its owner as packets; the
//! owner reduces it. In an all-reduce it then pushes the result to every peer, as packets again.
//!
//! ```text
//!   rank s   in[r] ──► slots of owner r            for every other rank r
//!   owner r  poll   in[r] of all ranks ── fold, in order ──► out[r]
//!                                                   └──► slots of every peer    (all-reduce)
//!   rank s   poll   slots[r] ──► out[r]            for every other rank r       (all-reduce)
//! ```
//!
//! A reduce-scatter takes one hop and sends a part to each of n−1 peers, S·(n−1)/n bytes of data in all for an input of
//! S bytes; an all-reduce takes two hops and sends twice that. `ll` doubles the bytes, `ll_128` makes 4/3 of them.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. Both stages are of one epoch, in slots of
//! their own: the lower and the upper half. In place, each slot of a part is stored by the thread that loaded and sent
//! it before; the parts that a reduce-scatter does not store are only read.

use super::cut::{Part, Slots, Tile};
use super::exchange::{fold_parts, receive, send};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::{Element, Float, Pack, Reduction};
use crate::packets::{Ll, Ll128, Packets, Sentinel};
use crate::team::Team;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn reduce_scatter_ll<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Ll, T, O, 1, false>(args);
}

#[inline(always)]
pub(super) fn reduce_scatter_ll_128<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Ll128, T, O, 2, false>(args);
}

#[inline(always)]
pub(super) fn reduce_scatter_sentinel<T: Float, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Sentinel<T>, T, O, 2, false>(args);
}

#[inline(always)]
pub(super) fn all_reduce_ll_two_shot<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Ll, T, O, 1, true>(args);
}

#[inline(always)]
pub(super) fn all_reduce_sentinel_two_shot<T: Float, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    run::<Sentinel<T>, T, O, 2, true>(args);
}

/// `BACK`: the results go to all ranks.
#[inline(always)]
fn run<P: Packets, T: Element, O: Reduction<T::Acc>, const N: usize, const BACK: bool>(
    args: &CollectiveArgs,
) {
    let half = P::capacity(DevBaseLayout::new(args.comm.n_ranks)) / 2;
    let capacity = if BACK { half } else { 2 * half };
    let exchange = Exchange { args, team: Team::new(&args.comm), half };
    let mut tile = Tile::<N>::first(args, capacity);
    // Addresses are computed while the kernel before ends.
    let input = exchange.first_input::<P, N, BACK>(&tile).now();
    let mut watch = Watch::enter_with_next_ready(&args.comm);
    if tile.is_empty() {
        return;
    }
    let mut packets = P::begin(&args.comm);
    let mut first = exchange.load_first::<P, T, N, BACK>(&tile, &input);
    loop {
        let own = exchange.send_parts::<P, T, N, BACK>(&packets, &watch, &tile, first);
        let is_last = tile.is_last();
        packets.turn([tile.len(), if BACK { tile.len() } else { 0 }], is_last);
        let mine = exchange.part::<BACK>(P::BYTES, exchange.team.rank());
        let output = tile.output(&mine, exchange.team, exchange.team.rank()).now();
        let folded = fold_parts::<P, T, O, N>(&packets, &mut watch, &tile, exchange.team, own);
        tile.store_at::<T>(&mine, &output, exchange.team, exchange.team.rank(), folded);
        if BACK {
            exchange.send_back(&packets, &watch, &tile, folded);
            exchange.receive_back::<P, T, N>(&packets, &mut watch, &tile);
        }
        packets.retire();
        if is_last {
            break;
        }
        tile.next();
        let input = exchange.first_input::<P, N, BACK>(&tile);
        first = exchange.load_first::<P, T, N, BACK>(&tile, &input);
        if !packets.next_epoch(&watch) {
            break;
        }
    }
    watch.leave();
}

/// What stays the same from tile to tile.
struct Exchange<'a> {
    args: &'a CollectiveArgs,
    team: Team,
    /// The first slot of the second stage.
    half: u32,
}

impl Exchange<'_> {
    #[inline(always)]
    fn part<const BACK: bool>(&self, slot_bytes: u64, rank: u32) -> Part {
        if BACK {
            Part::divided(slot_bytes, self.args, rank)
        } else {
            Part::scattered(slot_bytes, self.args, rank)
        }
    }

    /// Where the part of the next rank lies.
    #[inline(always)]
    fn first_input<P: Packets, const N: usize, const BACK: bool>(&self, tile: &Tile<N>) -> Slots<N> {
        tile.input(&self.part::<BACK>(P::BYTES, self.team.neighbour(1)), self.team, self.team.rank())
    }

    #[inline(always)]
    fn load_first<P: Packets, T: Element, const N: usize, const BACK: bool>(
        &self,
        tile: &Tile<N>,
        input: &Slots<N>,
    ) -> [Pack; N] {
        let part = self.part::<BACK>(P::BYTES, self.team.neighbour(1));
        tile.load_from::<T>(&part, input, self.team, self.team.rank())
    }

    /// Sends each peer its part, the first of which is there; gives this rank's.
    #[inline(always)]
    fn send_parts<P: Packets, T: Element, const N: usize, const BACK: bool>(
        &self,
        packets: &P,
        watch: &Watch,
        tile: &Tile<N>,
        first: [Pack; N],
    ) -> [Pack; N] {
        let mut packs = first;
        let mut distance = 1;
        while distance < self.team.n_ranks() {
            send(packets, watch, tile, self.team.neighbour(distance), 0, packs);
            distance += 1;
            // This rank's own part comes last, at the full circle.
            let part = self.part::<BACK>(P::BYTES, self.team.neighbour(distance));
            packs = tile.load::<T>(&part, self.team, self.team.rank());
        }
        packs
    }

    #[inline(always)]
    fn send_back<P: Packets, const N: usize>(
        &self,
        packets: &P,
        watch: &Watch,
        tile: &Tile<N>,
        folded: [Pack; N],
    ) {
        let mut distance = 1;
        while distance < self.team.n_ranks() {
            send(packets, watch, tile, self.team.neighbour(distance), self.half, folded);
            distance += 1;
        }
    }

    #[inline(always)]
    fn receive_back<P: Packets, T: Element, const N: usize>(
        &self,
        packets: &P,
        watch: &mut Watch,
        tile: &Tile<N>,
    ) {
        let mut distance = 1;
        while distance < self.team.n_ranks() {
            let owner = self.team.neighbour(distance);
            let packs = receive(packets, watch, tile, owner, self.half);
            tile.store::<T>(&self.part::<true>(P::BYTES, owner), self.team, self.team.rank(), packs);
            distance += 1;
        }
    }
}
