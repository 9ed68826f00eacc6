//! Owners load: all-reduce `two_shot_ld_st`, reduce-scatter `ld`. Each rank owns a part of the message, loads it from all
//! ranks and reduces it between two barriers. In an all-reduce it stores the result to all ranks.
//!
//! ```text
//!   entry barrier                      every rank's input is there, its output may be written
//!   owner r   in[r] of rank 0 ──┐                     ┌──► out[r] of rank 0    (reduce-scatter: of rank r alone)
//!             in[r] of rank 1 ──┼── fold, in order ───┼──► out[r] of rank 1
//!             in[r] of rank … ──┘                     └──► out[r] of rank …
//!   exit barrier                       every rank's output is complete, its input may be written
//! ```
//!
//! Four hops and, in an all-reduce, a fifth: a barrier, a load there and back, the stores, a barrier. Over a rank's links
//! go S·(n−1)/n bytes of a message of S bytes each way, in an all-reduce twice that.
//!
//! Ordering: what earlier kernels of a rank did happens before its arrival at the entry barrier, hence before the loads
//! and stores of any owner. Loads and stores of block b happen before its arrival at the exit barrier, hence before the
//! end of block b on every rank; a kernel ends when all its blocks have. Every element has one owner, which loads it from
//! all ranks before it stores it to any, so in and out may be the same memory.

use super::cut::{Part, Tile};
use crate::abi::{CollectiveArgs, STEP_BARRIER_ENTRY, STEP_BARRIER_EXIT};
use crate::barrier::Barrier;
use crate::element::{Element, Folded, Reduction, finish_all};
use crate::team::Team;
use crate::wait::Watch;

/// Bytes of a pack.
const PACK_BYTES: u64 = 16;

#[inline(always)]
pub(super) fn all_reduce_two_shot_ld_st<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<T, O, true>(args)
}

#[inline(always)]
pub(super) fn reduce_scatter_ld<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<T, O, false>(args)
}

/// `TO_ALL`: the results go to all ranks.
#[inline(always)]
fn run<T: Element, O: Reduction<T::Acc>, const TO_ALL: bool>(args: &CollectiveArgs) -> bool {
    let mut watch = Watch::enter(&args.comm);
    let mut barrier = Barrier::begin(&args.comm);
    if !intact!("barrier_on_entry") || barrier.sync(&mut watch, STEP_BARRIER_ENTRY) {
        // Wide elements have more packs in flight, narrow ones more arithmetic for each.
        match T::BYTES {
            8 | 4 | 2 => body::<T, O, 2, TO_ALL>(args),
            _ => body::<T, O, 1, TO_ALL>(args),
        }
        if intact!("barrier_on_exit") {
            barrier.sync(&mut watch, STEP_BARRIER_EXIT);
        }
    }
    barrier.end();
    watch.leave()
}

#[inline(always)]
fn body<T: Element, O: Reduction<T::Acc>, const N: usize, const TO_ALL: bool>(args: &CollectiveArgs) {
    let team = Team::new(&args.comm);
    let part = if TO_ALL {
        Part::divided(PACK_BYTES, args, team.rank())
    } else {
        Part::scattered(PACK_BYTES, args, team.rank())
    };
    let mut tile = Tile::<N>::of_round(args, 0, u32::MAX);
    while !tile.is_empty() {
        let mut folded = [Folded::<T>::first([0; 2]); N];
        let mut rank = 0;
        while rank < team.n_ranks() {
            let next = tile.load::<T>(&part, team, rank);
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
