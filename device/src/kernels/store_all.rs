//! Owners store: all-gather `st`, broadcast `st`, all-to-all `st`. Whoever has data that others get stores them there,
//! between two barriers.
//!
//! ```text
//!   entry barrier                every rank's output may be written
//!   all-gather   rank r   in ────┬──► out[r] of rank 0
//!                                ├──► out[r] of rank 1
//!                                └──► out[r] of rank …
//!   broadcast    root     in ────┬──► out of rank 0
//!                                └──► out of rank …
//!   all-to-all   rank r   in[0] ────► out[r] of rank 0
//!                         in[1] ────► out[r] of rank 1
//!                         in[…] ────► out[r] of rank …
//!   exit barrier                 every rank's output is complete
//! ```
//!
//! Three hops: a barrier, the stores, a barrier. A rank sends, for parts of S bytes, S·(n−1) bytes. So does the root of a
//! broadcast, and its links alone: a tree or a ring would share them, at more hops.
//!
//! Ordering: what a rank did with its output in earlier kernels happens before its arrival at the entry barrier, hence
//! before any peer's store. The stores of block b happen before its arrival at the exit barrier, hence before the end of
//! block b on every rank; a kernel ends when all its blocks have. In place, data are not stored onto themselves.

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
pub(super) fn all_gather_st(args: &CollectiveArgs) -> bool {
    let (team, mut barriers) = (Team::new(&args.comm), Barriers::begin(args));
    if barriers.enter() {
        Push::to_all(args, team, team.rank() as u64 * args.len_bytes).run();
        barriers.exit();
    }
    barriers.end()
}

#[inline(always)]
pub(super) fn broadcast_st(args: &CollectiveArgs) -> bool {
    let (team, mut barriers) = (Team::new(&args.comm), Barriers::begin(args));
    if barriers.enter() {
        if team.rank() == args.root as u32 {
            Push::to_all(args, team, 0).run();
        }
        barriers.exit();
    }
    barriers.end()
}

#[inline(always)]
pub(super) fn all_to_all_st(args: &CollectiveArgs) -> bool {
    let (team, mut barriers) = (Team::new(&args.comm), Barriers::begin(args));
    if barriers.enter() {
        let mut distance = 0;
        while distance < team.n_ranks() {
            Push::part(args, team, distance).run();
            distance += 1;
        }
        barriers.exit();
    }
    barriers.end()
}

/// The barriers before and behind the stores.
struct Barriers {
    watch: Watch,
    barrier: Barrier,
}

impl Barriers {
    #[inline(always)]
    fn begin(args: &CollectiveArgs) -> Self {
        let watch = Watch::enter(&args.comm);
        Self { watch, barrier: Barrier::begin(&args.comm) }
    }

    /// Whether all came.
    #[inline(always)]
    fn enter(&mut self) -> bool {
        !intact!("barrier_on_entry") || self.barrier.sync(&mut self.watch, STEP_BARRIER_ENTRY)
    }

    #[inline(always)]
    fn exit(&mut self) {
        if intact!("barrier_on_exit") {
            self.barrier.sync(&mut self.watch, STEP_BARRIER_EXIT);
        }
    }

    #[inline(always)]
    fn end(self) -> bool {
        self.barrier.end();
        self.watch.leave()
    }
}

/// A range of this rank's input on its way to the outputs of some ranks, moved by the whole grid.
pub(super) struct Push {
    team: Team,
    input: SymPtr<u8>,
    output: SymPtr<u8>,
    span: Span,
    /// The ranks, by their distances from this one.
    distances: (u32, u32),
}

impl Push {
    /// All of the input, to all ranks, `skip_bytes` into their outputs; in place to all others.
    #[inline(always)]
    pub(super) fn to_all(args: &CollectiveArgs, team: Team, skip_bytes: u64) -> Self {
        let (input, output) = (args.input_offset, args.output_offset + skip_bytes);
        Self::new(team, input, output, args.len_bytes, ((input == output) as u32, team.n_ranks()))
    }

    /// The part of the rank at some distance, to that rank.
    #[inline(always)]
    fn part(args: &CollectiveArgs, team: Team, distance: u32) -> Self {
        let at = |offset, rank: u32| offset + rank as u64 * args.len_bytes;
        let input = at(args.input_offset, team.neighbour(distance));
        let output = at(args.output_offset, team.rank());
        Self::new(team, input, output, args.len_bytes, (distance, distance + 1))
    }

    #[inline(always)]
    fn new(team: Team, input: u64, output: u64, len_bytes: u64, distances: (u32, u32)) -> Self {
        let span = Span::new(input, output, len_bytes, 1);
        Self { team, input: SymPtr::new(input), output: SymPtr::new(output), span, distances }
    }

    #[inline(always)]
    pub(super) fn run(&self) {
        match self.span.width_bytes {
            16 => self.body::<16>(),
            8 => self.body::<8>(),
            4 => self.body::<4>(),
            2 => self.body::<2>(),
            _ => self.body::<1>(),
        }
        self.ends();
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

    /// Moves the packs `pack`, `pack + step`, … `N` in number: all loads first, then the stores rank by rank.
    #[inline(always)]
    fn tile<const W: u64, const N: usize>(&self, pack: u64, step: u64) {
        let at = |n: usize| self.span.head_bytes + (pack + n as u64 * step) * W;
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            // SAFETY: the host checked that the range lies inside a window; the span makes it a multiple of `W`.
            packs[n] = unsafe { load_pack::<W>(self.input.add_bytes(at(n)).own(self.team)) };
        }
        let mut distance = self.distances.0;
        while distance < self.distances.1 {
            let peer = self.team.neighbour(distance);
            for n in 0..N {
                // SAFETY: as above, for the output; behind the entry barrier this rank alone writes there.
                unsafe { store_pack::<W>(self.output.add_bytes(at(n)).at(self.team, peer), packs[n]) };
            }
            distance += 1;
        }
    }

    /// Moves the bytes before and behind the body, one a thread.
    #[inline(always)]
    pub(super) fn ends(&self) {
        let tid = thread::thread_idx_x() as u64;
        if thread::block_idx_x() != 0 || tid >= self.span.head_bytes + self.span.tail_bytes {
            return;
        }
        let in_head = tid < self.span.head_bytes;
        let at = if in_head { tid } else { self.span.tail_start() + tid - self.span.head_bytes };
        // SAFETY: `at` is inside the range.
        let byte = unsafe { load_pack::<1>(self.input.add_bytes(at).own(self.team)) };
        let mut distance = self.distances.0;
        while distance < self.distances.1 {
            let peer = self.team.neighbour(distance);
            // SAFETY: as in `tile`.
            unsafe { store_pack::<1>(self.output.add_bytes(at).at(self.team, peer), byte) };
            distance += 1;
        }
    }
}
