//! Stores alone cross the link: all-reduce `two_shot_push`, reduce-scatter `push`. Each rank owns a part of the message.
//! Every rank stores each part into its owner's scratch; behind a barrier the owner reduces it. In an all-reduce it
//! stores the result to all ranks.
//!
//! ```text
//!   rank s   in[r] ──► scratch[s] of owner r       for every other rank r
//!   barrier                                         all parts are there; every rank's output may be written
//!   owner r  scratch[0], …, in[r], … ── fold, in order ──► out[r] of every rank   (reduce-scatter: of rank r alone)
//!   exit barrier (all-reduce)                       every rank's output is complete
//! ```
//!
//! Two hops and, in an all-reduce, two more: stores, a barrier, stores, a barrier. A rank sends S·(n−1)/n bytes of a
//! message of S bytes, in an all-reduce twice that. Stores run faster over NVLink than loads.
//!
//! A message goes in rounds, each with a barrier: four of them, more if it is larger than the scratch. The stores of a
//! round are under way before the block waits for the one before, so that the link does not idle at barriers:
//!
//! ```text
//!   push 0, arrive 0 │ push 1, wait 0, reduce 0, arrive 1 │ push 2, wait 1, reduce 1, arrive 2 │ … │ wait, reduce
//! ```
//!
//! Ordering: stores into scratch happen before the arrival at the barrier of their round, hence before the owner's loads.
//! Scratch has three regions, used by turns, and the turn is kept from kernel to kernel. A rank that pushes round m has
//! waited for the barrier m − 2, at which every owner arrived after it had reduced round m − 3, the last of the same
//! region; so there is no barrier on entry, and none on exit for the scratch's sake. What earlier kernels of a rank did
//! with its output happens before its arrival at the first barrier, hence before any owner stores to it; those stores
//! happen before the exit barrier. In place, a rank has loaded a slot of its input before it arrives at the round's
//! barrier, behind which its owner stores there.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's packs are registers, unrolled over `n`; iterators over them make more code"
)]

use super::cut::{Part, Tile};
use crate::abi::{CollectiveArgs, DevBaseLayout, PUSH_TURNS, STEP_BARRIER_EXIT, STEP_BARRIER_PUSHED};
use crate::barrier::Barrier;
use crate::element::{Element, Folded, Pack, Reduction, finish_all};
use crate::ptx;
use crate::team::Team;
use crate::thread;
use crate::wait::Watch;

/// Bytes of a pack.
const PACK_BYTES: u64 = 16;
/// Regions that are used by turns.
const TURNS: u32 = if intact!("push_regions") { PUSH_TURNS } else { PUSH_TURNS - 1 };

#[inline(always)]
pub(super) fn all_reduce_two_shot_push<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<T, O, true>(args)
}

#[inline(always)]
pub(super) fn reduce_scatter_push<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<T, O, false>(args)
}

/// `TO_ALL`: the results go to all ranks.
#[inline(always)]
fn run<T: Element, O: Reduction<T::Acc>, const TO_ALL: bool>(args: &CollectiveArgs) -> bool {
    match T::BYTES {
        // On sm_80 four would be spilled.
        8 | 4 if cfg!(target_feature = "sm_90") => rounds::<T, O, 4, TO_ALL>(args),
        8 | 4 => rounds::<T, O, 2, TO_ALL>(args),
        2 => rounds::<T, O, 2, TO_ALL>(args),
        _ => rounds::<T, O, 1, TO_ALL>(args),
    }
}

#[inline(always)]
fn rounds<T: Element, O: Reduction<T::Acc>, const N: usize, const TO_ALL: bool>(
    args: &CollectiveArgs,
) -> bool {
    let mut watch = Watch::enter(&args.comm);
    let mut barrier = Barrier::begin(&args.comm);
    let mut scratch = Scratch::begin(args);
    let round_packs = scratch.round_packs::<N>(args);
    let (mut pushed, mut reduced) = (0, 0);
    let mut goes_on = true;
    while goes_on && reduced < args.slots_per_block {
        let ahead = Round::<TO_ALL> { args, scratch, first: pushed, n_packs: round_packs };
        let has_ahead = pushed < args.slots_per_block;
        if has_ahead && watch.is_well() {
            ahead.push::<T, N>();
        }
        if pushed > 0 {
            let behind = Round { scratch: scratch.last(), first: reduced, ..ahead };
            goes_on = barrier.wait(&mut watch, STEP_BARRIER_PUSHED);
            if has_ahead && !intact!("push_reduce_before_arrival") {
                goes_on = goes_on && barrier.arrive(&watch);
            }
            if goes_on {
                behind.reduce::<T, O, N>();
            }
            reduced += round_packs;
        }
        if has_ahead && (pushed == 0 || intact!("push_reduce_before_arrival")) {
            goes_on = goes_on && barrier.arrive(&watch);
        }
        if has_ahead {
            scratch = scratch.next();
            pushed += round_packs;
        }
    }
    if TO_ALL && goes_on && intact!("barrier_on_exit") {
        barrier.sync(&mut watch, STEP_BARRIER_EXIT);
    }
    scratch.end();
    barrier.end();
    watch.leave()
}

/// The scratch of one block, in the memory of every rank.
#[derive(Clone, Copy)]
struct Scratch {
    team: Team,
    layout: DevBaseLayout,
    block: u32,
    /// The region to use.
    turn: u32,
    /// Packs of a region.
    capacity: u32,
}

impl Scratch {
    #[inline(always)]
    fn begin(args: &CollectiveArgs) -> Self {
        let (team, layout, block) =
            (Team::new(&args.comm), DevBaseLayout::new(args.comm.n_ranks), thread::block_idx_x());
        // SAFETY: `DevBase` is mapped; the word was last written by this block's previous kernel.
        let turn = unsafe { ptx::ld_weak_b32(team.own_address(layout.push_turn_offset(block))) };
        Self { team, layout, block, turn, capacity: args.scratch_packs.into() }
    }

    /// Packs of one round: what makes four rounds, but no less than the block's threads move at once.
    #[inline(always)]
    fn round_packs<const N: usize>(&self, args: &CollectiveArgs) -> u32 {
        let at_once = thread::block_dim_x() * N as u32;
        args.slots_per_block.div_ceil(4).max(at_once).min(self.capacity)
    }

    /// For the round to come.
    #[inline(always)]
    fn next(self) -> Self {
        Self { turn: if self.turn == TURNS - 1 { 0 } else { self.turn + 1 }, ..self }
    }

    /// For the round before.
    #[inline(always)]
    fn last(self) -> Self {
        Self { turn: if self.turn == 0 { TURNS - 1 } else { self.turn - 1 }, ..self }
    }

    /// Address of a pack of `sender` in the scratch of `owner`.
    #[inline(always)]
    fn address(&self, owner: u32, sender: u32, pack: u32) -> u64 {
        let region = self.layout.scratch_offset(self.capacity, self.block, self.turn, (owner, sender));
        self.team.address(owner, region + pack as u64 * PACK_BYTES)
    }

    /// Leaves the turn for the block's next kernel, behind a barrier of the block.
    #[inline(always)]
    fn end(self) {
        if thread::thread_idx_x() == 0 && intact!("push_turn_save") {
            let word = self.team.own_address(self.layout.push_turn_offset(self.block));
            // SAFETY: `DevBase` is mapped; the block's other threads read the word before the last block barrier.
            unsafe { ptx::st_weak_b32(word, self.turn) }
        }
    }
}

/// What of a block's share goes through its scratch at once: from slot `first` of the share on.
struct Round<'a, const TO_ALL: bool> {
    args: &'a CollectiveArgs,
    scratch: Scratch,
    first: u32,
    n_packs: u32,
}

impl<const TO_ALL: bool> Round<'_, TO_ALL> {
    #[inline(always)]
    fn part(&self, rank: u32) -> Part {
        if TO_ALL {
            Part::divided(PACK_BYTES, self.args, rank)
        } else {
            Part::scattered(PACK_BYTES, self.args, rank)
        }
    }

    #[inline(always)]
    fn tile<const N: usize>(&self) -> Tile<N> {
        Tile::of_round(self.args, self.first, self.n_packs)
    }

    /// Stores each peer's part into its scratch.
    #[inline(always)]
    fn push<T: Element, const N: usize>(&self) {
        let team = self.scratch.team;
        let mut distance = 1;
        while distance < team.n_ranks() {
            let owner = team.neighbour(distance);
            let part = self.part(owner);
            let mut tile = self.tile::<N>();
            while !tile.is_empty() {
                let packs = tile.load::<T>(&part, team, team.rank());
                for n in 0..N {
                    if tile.has(n) {
                        let address = self.scratch.address(owner, team.rank(), tile.at() + tile.index(n));
                        // SAFETY: `DevBase` of every rank is mapped and the pack is inside the sender's region.
                        unsafe { ptx::st_weak_v2_b64(address, packs[n]) }
                    }
                }
                tile = tile.next();
            }
            distance += 1;
        }
    }

    /// Reduces this rank's part and stores the result.
    #[inline(always)]
    fn reduce<T: Element, O: Reduction<T::Acc>, const N: usize>(&self) {
        let team = self.scratch.team;
        let part = self.part(team.rank());
        let mut tile = self.tile::<N>();
        while !tile.is_empty() {
            let mut folded = [Folded::<T>::first([0; 2]); N];
            let mut rank = 0;
            while rank < team.n_ranks() {
                let next = if rank == team.rank() {
                    tile.load::<T>(&part, team, rank)
                } else {
                    self.pushed(&tile, rank)
                };
                for n in 0..N {
                    folded[n] = if rank == 0 { Folded::first(next[n]) } else { folded[n].fold::<O>(next[n]) };
                }
                rank += 1;
            }
            let packs = finish_all::<T, O, N>(folded, team.n_ranks());
            let mut distance = 0;
            while distance < if TO_ALL { team.n_ranks() } else { 1 } {
                tile.store::<T>(&part, team, team.neighbour(distance), packs);
                distance += 1;
            }
            tile = tile.next();
        }
    }

    /// What `sender` has stored here for a tile.
    #[inline(always)]
    fn pushed<const N: usize>(&self, tile: &Tile<N>, sender: u32) -> [Pack; N] {
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            // No branch between the loads: instead of packs that the thread does not have it loads one that is there.
            let pack = tile.at() + if tile.has(n) { tile.index(n) } else { 0 };
            // SAFETY: `DevBase` is mapped; behind the barrier the sender's stores are there.
            packs[n] =
                unsafe { ptx::ld_weak_v2_b64(self.scratch.address(self.scratch.team.rank(), sender, pack)) };
        }
        packs
    }
}
