//! All-reduce `two_shot_ld_st`: each rank owns a part of the message, loads it from all ranks, reduces it and stores the
//! result to all ranks, between two barriers.
//!
//! ```text
//!   entry barrier                      every rank's input is there, its output may be written
//!   owner r   in[r] of rank 0 ──┐                     ┌──► out[r] of rank 0
//!             in[r] of rank 1 ──┼── fold, in order ───┼──► out[r] of rank 1
//!             in[r] of rank … ──┘                     └──► out[r] of rank …
//!   exit barrier                       every rank's output is complete
//! ```
//!
//! Five hops: a barrier, a load there and back, the stores, a barrier. Moves 2·S·(n−1)/n bytes per rank.
//!
//! Ordering: what earlier kernels of a rank did happens before its arrival at the entry barrier, hence before the loads
//! and stores of any owner. The stores of block b happen before its arrival at the exit barrier, hence before the end of
//! block b on every rank; a kernel ends when all its blocks have. Every element has one owner, which loads it from all
//! ranks before it stores it to any, so in and out may be the same memory.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's packs are registers, unrolled over `n`; iterators over them make more code"
)]

use super::share::Share;
use crate::abi::{CollectiveArgs, STEP_BARRIER_ENTRY, STEP_BARRIER_EXIT};
use crate::barrier::Barrier;
use crate::element::{Element, Reduction, finish_word, fold_word};
use crate::span::{Span, load_pack, store_pack};
use crate::team::{SymPtr, Team};
use crate::thread;
use crate::wait::Watch;

/// Packs that one thread has in flight.
const PACKS_PER_THREAD: usize = 8;

#[inline(always)]
pub(super) fn all_reduce_two_shot_ld_st<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    let mut watch = Watch::enter(&args.comm);
    let mut barrier = Barrier::begin(&args.comm);
    if !intact!("barrier_on_entry") || barrier.sync(&mut watch, STEP_BARRIER_ENTRY) {
        let owner = Owner::new::<T>(args);
        match owner.span.width_bytes {
            16 => owner.body::<T, O, 16>(),
            8 => owner.body::<T, O, 8>(),
            4 => owner.body::<T, O, 4>(),
            _ => owner.body::<T, O, 2>(),
        }
        owner.ends::<T, O>();
        if intact!("barrier_on_exit") {
            barrier.sync(&mut watch, STEP_BARRIER_EXIT);
        }
    }
    barrier.end();
    watch.leave();
}

/// A rank as the owner of its part.
struct Owner {
    team: Team,
    input: SymPtr<u8>,
    output: SymPtr<u8>,
    span: Span,
}

impl Owner {
    #[inline(always)]
    fn new<T: Element>(args: &CollectiveArgs) -> Self {
        let span = Span::new(args.input_offset, args.output_offset, args.count * T::BYTES, T::BYTES);
        Self {
            team: Team::new(&args.comm),
            input: SymPtr::new(args.input_offset),
            output: SymPtr::new(args.output_offset),
            span,
        }
    }

    /// Reduces this block's share of this rank's part of the body.
    #[inline(always)]
    fn body<T: Element, O: Reduction<T::Acc>, const W: u64>(&self) {
        if W < T::BYTES {
            return;
        }
        let part = Share::new(self.span.n_packs, self.team.rank(), self.team.n_ranks());
        let share = Share::new(part.end - part.start, thread::block_idx_x(), thread::grid_dim_x());
        let (first, end) = (part.start + share.start, part.start + share.end);
        let step = thread::block_dim_x() as u64;
        let mut pack = first + thread::thread_idx_x() as u64;
        while W == 16 && pack + (PACKS_PER_THREAD as u64 - 1) * step < end {
            self.tile::<T, O, W, PACKS_PER_THREAD>(self.span.head_bytes + pack * W, step * W);
            pack += PACKS_PER_THREAD as u64 * step;
        }
        while pack < end {
            self.tile::<T, O, W, 1>(self.span.head_bytes + pack * W, step * W);
            pack += step;
        }
    }

    /// Reduces the bytes before and behind the body, one element a thread, on rank 0.
    #[inline(always)]
    fn ends<T: Element, O: Reduction<T::Acc>>(&self) {
        let at = thread::thread_idx_x() as u64 * T::BYTES;
        let is_first = thread::block_idx_x() == 0 && self.team.rank() == 0;
        if !is_first || at >= self.span.head_bytes + self.span.tail_bytes {
            return;
        }
        let in_head = at < self.span.head_bytes;
        let at = if in_head { at } else { self.span.tail_start() + at - self.span.head_bytes };
        match T::BYTES {
            4 => self.tile::<T, O, 4, 1>(at, 0),
            _ => self.tile::<T, O, 2, 1>(at, 0),
        }
    }

    /// Reduces the packs at `at`, `at + step_bytes`, … `N` in number.
    #[inline(always)]
    fn tile<T: Element, O: Reduction<T::Acc>, const W: u64, const N: usize>(&self, at: u64, step_bytes: u64) {
        let place = |n: usize| at + n as u64 * step_bytes;
        let mut acc = [[T::lift(0); 2]; N];
        let mut rank = 0;
        while rank < self.team.n_ranks() {
            let mut next = [[0; 2]; N];
            for n in 0..N {
                // SAFETY: the host checked that the input lies inside a window; the span makes it a multiple of `W`.
                next[n] = unsafe { load_pack::<W>(self.input.add_bytes(place(n)).at(self.team, rank)) };
            }
            for n in 0..N {
                for w in 0..words(W) {
                    let folded = fold_word::<T, O>(acc[n][w], next[n][w]);
                    acc[n][w] = if rank == 0 { T::lift(next[n][w]) } else { folded };
                }
            }
            rank += 1;
        }
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            for w in 0..words(W) {
                packs[n][w] = finish_word::<T, O>(acc[n][w], self.team.n_ranks());
            }
        }
        let mut distance = 0;
        while distance < self.team.n_ranks() {
            let peer = self.team.neighbour(distance);
            for n in 0..N {
                // SAFETY: as above, for the output; behind the entry barrier the owner alone writes its part.
                unsafe { store_pack::<W>(self.output.add_bytes(place(n)).at(self.team, peer), packs[n]) };
            }
            distance += 1;
        }
    }
}

/// Words of a pack that hold elements.
const fn words(width_bytes: u64) -> usize {
    if width_bytes == 16 { 2 } else { 1 }
}
