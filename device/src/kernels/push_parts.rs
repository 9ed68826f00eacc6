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

use super::cut::{Part, Places, Slots, Tile};
use super::exchange::{self, Exchange, fold_parts, receive, send_parts, send_to_all};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::{Element, Float, Pack, Reduction};
use crate::packets::{Ll, Ll128, Packets, Sentinel};
use crate::team::Team;
use crate::wait::Watch;
use core::marker::PhantomData;

#[inline(always)]
pub(super) fn reduce_scatter_ll<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<Ll, T, O, 1, false>(args)
}

#[inline(always)]
pub(super) fn reduce_scatter_ll_128<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<Ll128, T, O, 2, false>(args)
}

#[inline(always)]
pub(super) fn reduce_scatter_sentinel<T: Float, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    match T::BYTES {
        // The others' accumulators would be spilled.
        8 | 4 => run::<Sentinel<T>, T, O, 2, false>(args),
        _ => run::<Sentinel<T>, T, O, 1, false>(args),
    }
}

#[inline(always)]
pub(super) fn all_reduce_ll_two_shot<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<Ll, T, O, 1, true>(args)
}

#[inline(always)]
pub(super) fn all_reduce_sentinel_two_shot<T: Float, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<Sentinel<T>, T, O, 1, true>(args)
}

/// `BACK`: the results go to all ranks.
#[inline(always)]
fn run<P: Packets, T: Element, O: Reduction<T::Acc>, const N: usize, const BACK: bool>(
    args: &CollectiveArgs,
) -> bool {
    let half = P::capacity(DevBaseLayout::new(args.comm.n_ranks)) / 2;
    let parts = PushParts::<T, O, BACK> { args, team: Team::new(&args.comm), half, types: PhantomData };
    exchange::run::<P, _, N>(args, &parts)
}

struct PushParts<'a, T, O, const BACK: bool> {
    args: &'a CollectiveArgs,
    team: Team,
    /// The first slot of the second stage.
    half: u32,
    types: PhantomData<(T, O)>,
}

impl<T: Element, O, const BACK: bool> PushParts<'_, T, O, BACK> {
    #[inline(always)]
    fn part(&self, slot_bytes: u64, rank: u32) -> Part {
        if BACK {
            Part::divided(slot_bytes, self.args, rank)
        } else {
            Part::scattered(slot_bytes, self.args, rank)
        }
    }
}

impl<P: Packets, T: Element, O: Reduction<T::Acc>, const N: usize, const BACK: bool> Exchange<P, N>
    for PushParts<'_, T, O, BACK>
{
    const HAS_TWO_STAGES: bool = BACK;

    /// For the next rank's part and, where it is loaded with that, this rank's.
    type Input = [Slots<N>; 2];
    /// The next rank's part and, where registers suffice, this rank's.
    type Loaded = [[Pack; N]; 2];

    #[inline(always)]
    fn input(&self, tile: &Tile<N>) -> [Slots<N>; 2] {
        let (team, rank) = (self.team, self.team.rank());
        let first = tile.input(&self.part(P::BYTES, team.neighbour(1)), team, rank);
        [first, if P::HAS_TILES { first } else { tile.input(&self.part(P::BYTES, rank), team, rank) }]
    }

    #[inline(always)]
    fn load(&self, tile: &Tile<N>, [first, own]: [Slots<N>; 2]) -> Self::Loaded {
        let (team, rank) = (self.team, self.team.rank());
        let next = self.part(P::BYTES, team.neighbour(1));
        if P::HAS_TILES {
            return [tile.load_from::<T>(&next, first, team, rank); 2];
        }
        let mine = self.part(P::BYTES, rank);
        // Both are under way before one is waited for.
        let first = tile.begin_load::<T>(&next, first, team);
        let own = tile.begin_load::<T>(&mine, own, team);
        [tile.end_load::<T>(&next, first, team, rank), tile.end_load::<T>(&mine, own, team, rank)]
    }

    #[inline(always)]
    fn send(&self, packets: &P, watch: &Watch, tile: &Tile<N>, [first, _]: Self::Loaded) {
        let part = |rank| self.part(P::BYTES, rank);
        send_parts::<P, T, N>(packets, watch, tile, self.team, part, first);
    }

    #[inline(always)]
    fn receive(&self, packets: &P, watch: &mut Watch, tile: &Tile<N>, [_, own]: Self::Loaded) {
        let mine = self.part(P::BYTES, self.team.rank());
        let own = if P::HAS_TILES { tile.load::<T>(&mine, self.team, self.team.rank()) } else { own };
        if !BACK {
            // Computed before the wait.
            let output = tile.output(&mine, self.team, self.team.rank()).now();
            let folded = fold_parts::<P, T, O, N>(packets, watch, tile, self.team, own);
            tile.store_at::<T>(&mine, &output, self.team, self.team.rank(), folded);
            return;
        }
        let folded = fold_parts::<P, T, O, N>(packets, watch, tile, self.team, own);
        send_to_all(packets, watch, tile, self.half, folded);
        tile.store::<T>(&mine, self.team, self.team.rank(), folded);
        let mut distance = 1;
        while distance < self.team.n_ranks() {
            let owner = self.team.neighbour(distance);
            let packs = receive(packets, watch, tile, owner, self.half);
            tile.store::<T>(&self.part(P::BYTES, owner), self.team, self.team.rank(), packs);
            distance += 1;
        }
    }
}
