//! All-gather `st`: every rank stores its share into the output of every rank, between two barriers.
//!
//! ```text
//!   entry barrier          every rank's output may be written
//!   rank r   in ──┬──────► out[r] of rank 0
//!                 ├──────► out[r] of rank 1
//!                 └──────► out[r] of rank …
//!   exit barrier           every rank's output is complete
//! ```
//!
//! Three hops: a barrier, the stores, a barrier. Moves S·(n−1) bytes per rank for a share of S bytes.
//!
//! Ordering: what a rank did with its output in earlier kernels happens before its arrival at the entry barrier, hence
//! before any peer's store. The stores of block b happen before its arrival at the exit barrier, hence before the end of
//! block b on every rank; a kernel ends when all its blocks have. In place, the share is not stored onto itself.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's packs are registers, unrolled over `n`; iterators over them make more code"
)]

use super::share::Share;
use crate::abi::{CollectiveArgs, STEP_BARRIER_ENTRY, STEP_BARRIER_EXIT};
use crate::barrier::Barrier;
use crate::span::{Span, load_pack, store_pack};
use crate::team::{SymPtr, Team};
use crate::thread;
use crate::wait::Watch;

/// Packs that one thread has in flight.
const PACKS_PER_THREAD: usize = 8;

#[inline(always)]
pub(super) fn all_gather_st(args: &CollectiveArgs) {
    let mut watch = Watch::enter(&args.comm);
    let mut barrier = Barrier::begin(&args.comm);
    if !intact!("barrier_on_entry") || barrier.sync(&mut watch, STEP_BARRIER_ENTRY) {
        let push = Push::new(args);
        match push.span.width_bytes {
            16 => push.body::<16>(),
            8 => push.body::<8>(),
            4 => push.body::<4>(),
            2 => push.body::<2>(),
            _ => push.body::<1>(),
        }
        push.ends();
        if intact!("barrier_on_exit") {
            barrier.sync(&mut watch, STEP_BARRIER_EXIT);
        }
    }
    barrier.end();
    watch.leave();
}

/// One rank's share on its way to all outputs.
struct Push {
    team: Team,
    input: SymPtr<u8>,
    output: SymPtr<u8>,
    span: Span,
    /// 1 where the share already stands in this rank's own output, else 0.
    first_distance: u32,
}

impl Push {
    #[inline(always)]
    fn new(args: &CollectiveArgs) -> Self {
        let len_bytes = args.len_bytes;
        let output_offset = args.output_offset + args.comm.rank as u64 * len_bytes;
        Self {
            team: Team::new(&args.comm),
            input: SymPtr::new(args.input_offset),
            output: SymPtr::new(output_offset),
            span: Span::new(args.input_offset, output_offset, len_bytes, 1),
            first_distance: (args.input_offset == output_offset) as u32,
        }
    }

    #[inline(always)]
    fn body<const W: u64>(&self) {
        let share = Share::new(self.span.n_packs, thread::block_idx_x(), thread::grid_dim_x());
        let step = thread::block_dim_x() as u64;
        let mut pack = share.start + thread::thread_idx_x() as u64;
        while pack + (PACKS_PER_THREAD as u64 - 1) * step < share.end {
            self.tile::<W, PACKS_PER_THREAD>(pack, step);
            pack += PACKS_PER_THREAD as u64 * step;
        }
        while pack < share.end {
            self.tile::<W, 1>(pack, step);
            pack += step;
        }
    }

    /// Moves the packs `pack`, `pack + step`, … `N` in number: all loads first, then the stores peer by peer.
    #[inline(always)]
    fn tile<const W: u64, const N: usize>(&self, pack: u64, step: u64) {
        let at = |n: usize| self.span.head_bytes + (pack + n as u64 * step) * W;
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            // SAFETY: the host checked that the share lies inside a window; the span makes it a multiple of `W`.
            packs[n] = unsafe { load_pack::<W>(self.input.add_bytes(at(n)).own(self.team)) };
        }
        let mut distance = self.first_distance;
        while distance < self.team.n_ranks() {
            let peer = self.team.neighbour(distance);
            for n in 0..N {
                // SAFETY: as above, for the output; behind the entry barrier this rank alone writes its share.
                unsafe { store_pack::<W>(self.output.add_bytes(at(n)).at(self.team, peer), packs[n]) };
            }
            distance += 1;
        }
    }

    /// Moves the bytes before and behind the body, one a thread.
    #[inline(always)]
    fn ends(&self) {
        let tid = thread::thread_idx_x() as u64;
        if thread::block_idx_x() != 0 || tid >= self.span.head_bytes + self.span.tail_bytes {
            return;
        }
        let in_head = tid < self.span.head_bytes;
        let at = if in_head { tid } else { self.span.tail_start() + tid - self.span.head_bytes };
        // SAFETY: `at` is inside the share.
        let byte = unsafe { load_pack::<1>(self.input.add_bytes(at).own(self.team)) };
        let mut distance = self.first_distance;
        while distance < self.team.n_ranks() {
            let peer = self.team.neighbour(distance);
            // SAFETY: as in `tile`.
            unsafe { store_pack::<1>(self.output.add_bytes(at).at(self.team, peer), byte) };
            distance += 1;
        }
    }
}
