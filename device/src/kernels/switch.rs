//! The switch reduces and distributes: all-reduce `mc`, reduce-scatter `ld_mc`, all-gather `st_mc`, between two multicast
//! barriers.
//!
//! ```text
//!   entry barrier                    every rank's input is there, its output may be written
//!   all-reduce      owner r   in[r] of all ranks ── ld_reduce ──► owner ── multimem.st ──► out[r] of all ranks
//!   reduce-scatter  owner r   in[r] of all ranks ── ld_reduce ──► out of rank r
//!   all-gather      rank r    in ── multimem.st ──► out[r] of all ranks
//!   exit barrier                     every rank's output is complete, its input may be written
//! ```
//!
//! A rank's link carries, for a message of S bytes: in an all-reduce S/n requested and S/n sent, and S each way for the
//! switch's loads and stores at its memory; in a reduce-scatter and an all-gather one of the two. Four hops and in an
//! all-reduce five: a barrier, a load there and back, the stores, a barrier.
//!
//! Results: the order of a sum belongs to the switch, so sums of floats lie within an error bound of those of other
//! algorithms; each element has one owner, so all ranks get the same bits.
//!
//! What is no whole pack of 16 bytes at a multiple of 16 at both ends goes by unicast addresses, element by element.
//!
//! Ordering: as in `pull`, block by block, by the barriers, whose alias fences stand between what is done by the two kinds
//! of address. In place, a thread loads and then stores the same bytes by different kinds: a fence of its own stands
//! between, but in the all-reduce, which loads and stores by multicast addresses alone.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's packs are registers, unrolled over `n`; iterators over them make more code"
)]

use super::share::Share;
use super::store_all::Push;
use crate::abi::{CollectiveArgs, STEP_BARRIER_ENTRY, STEP_BARRIER_EXIT};
use crate::barrier_mc::BarrierMc;
use crate::element::{Byte, Element, Folded, Pack, Reduction, Switched, Unit};
use crate::ptx;
use crate::span::{Span, load_pack, load_unit, store_pack, store_unit};
use crate::team::{SymPtr, Team};
use crate::thread;
use crate::wait::Watch;

/// Bytes of a pack.
const PACK_BYTES: u64 = 16;
/// Packs that one thread has in flight.
const PACKS_PER_THREAD: usize = 4;

#[inline(always)]
pub(super) fn all_reduce_mc<T: Element + Switched<O>, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    between_barriers(args, |team| {
        let owned = Owned::new::<T>(args.input_offset, args.output_offset, args.len_bytes, Some(team));
        let (input, output) = (args.comm.base_mc + args.input_offset, args.comm.base_mc + args.output_offset);
        owned.packs(
            false,
            // SAFETY: the host checked that input and output lie in windows that have multicast.
            |at| unsafe { reduced::<T, O>(input + at, team) },
            // SAFETY: as above; behind the entry barrier this rank alone writes what it owns.
            |at, pack| unsafe { store_to_all(output + at, pack) },
        );
        owned.elements::<T, O>(team, team.n_ranks());
    })
}

#[inline(always)]
pub(super) fn reduce_scatter_ld_mc<T: Element + Switched<O>, O: Reduction<T::Acc>>(
    args: &CollectiveArgs,
) -> bool {
    between_barriers(args, |team| {
        let input_offset = args.input_offset + team.rank() as u64 * args.len_bytes;
        let owned = Owned::new::<T>(input_offset, args.output_offset, args.len_bytes, None);
        let (input, output) = (args.comm.base_mc + input_offset, team.own_address(args.output_offset));
        owned.packs(
            input_offset == args.output_offset,
            // SAFETY: the host checked that the input lies in a window that has multicast.
            |at| unsafe { reduced::<T, O>(input + at, team) },
            // SAFETY: the host checked that the output lies inside a window.
            |at, pack| unsafe { store_pack::<PACK_BYTES>(output + at, pack) },
        );
        owned.elements::<T, O>(team, 1);
    })
}

#[inline(always)]
pub(super) fn all_gather_st_mc(args: &CollectiveArgs) -> bool {
    between_barriers(args, |team| {
        let output_offset = args.output_offset + team.rank() as u64 * args.len_bytes;
        let owned = Owned::new::<Byte>(args.input_offset, output_offset, args.len_bytes, None);
        let push = Push::to_all(args, team, team.rank() as u64 * args.len_bytes);
        if !owned.has_packs() {
            return push.run();
        }
        let (input, output) = (team.own_address(args.input_offset), args.comm.base_mc + output_offset);
        owned.packs(
            args.input_offset == output_offset,
            // SAFETY: the host checked that the share lies inside a window.
            |at| unsafe { load_pack::<PACK_BYTES>(input + at) },
            // SAFETY: and the output inside one that has multicast.
            |at, pack| unsafe { store_to_all(output + at, pack) },
        );
        push.ends();
    })
}

#[inline(always)]
fn between_barriers(args: &CollectiveArgs, work: impl FnOnce(Team)) -> bool {
    let mut watch = Watch::enter(&args.comm);
    let mut barrier = BarrierMc::begin(&args.comm);
    if !intact!("barrier_on_entry") || barrier.sync(&mut watch, STEP_BARRIER_ENTRY) {
        work(Team::new(&args.comm));
        if intact!("barrier_on_exit") {
            barrier.sync(&mut watch, STEP_BARRIER_EXIT);
        }
    }
    barrier.end();
    watch.leave()
}

/// 16 bytes, reduced over all ranks.
///
/// # Safety
///
/// As for [`Switched::load_reduce`].
#[inline(always)]
unsafe fn reduced<T: Element + Switched<O>, O: Reduction<T::Acc>>(address: u64, team: Team) -> Pack {
    // SAFETY: as the caller says.
    let joined = unsafe { <T as Switched<O>>::load_reduce(address) };
    Folded::<T>::first(joined).finish::<O>(team.n_ranks())
}

/// Stores 16 bytes to all ranks.
///
/// # Safety
///
/// `address` is a multiple of 16 and a multicast address whose memory is bound at every rank.
#[inline(always)]
unsafe fn store_to_all(address: u64, [low, high]: Pack) {
    let words = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
    // SAFETY: as the caller says.
    unsafe { ptx::multimem_st_relaxed_sys_v4_f32(address, words) }
}

/// A range of which this rank owns a part, and its thread some of that.
struct Owned {
    input: SymPtr<u8>,
    output: SymPtr<u8>,
    span: Span,
    len_bytes: u64,
    /// Place among the owners, and their number.
    owner: (u32, u32),
}

impl Owned {
    /// A range that is divided among the ranks of `team`, or that is all this rank's.
    #[inline(always)]
    fn new<T: Unit>(input: u64, output: u64, len_bytes: u64, team: Option<Team>) -> Self {
        let span = Span::new(input, output, len_bytes, T::BYTES);
        let owner = match team {
            Some(team) => (team.rank(), team.n_ranks()),
            None => (0, 1),
        };
        Self { input: SymPtr::new(input), output: SymPtr::new(output), span, len_bytes, owner }
    }

    /// Whether packs at both ends lie at multiples of their size.
    #[inline(always)]
    fn has_packs(&self) -> bool {
        self.span.width_bytes == PACK_BYTES
    }

    /// This block's part of what this rank owns of `total`.
    #[inline(always)]
    fn share(&self, total: u64) -> Share {
        let owned = Share::new(total, self.owner.0, self.owner.1);
        let share = Share::new(owned.end - owned.start, thread::block_idx_x(), thread::grid_dim_x());
        Share { start: owned.start + share.start, end: owned.start + share.end }
    }

    /// Moves this thread's packs, of which both closures are told the places in bytes, with a fence between loads and
    /// stores if these reach the same memory by different addresses.
    #[inline(always)]
    fn packs(&self, fenced: bool, load: impl Fn(u64) -> Pack + Copy, store: impl Fn(u64, Pack) + Copy) {
        if !self.has_packs() {
            return;
        }
        let share = self.share(self.span.n_packs);
        let step = thread::block_dim_x() as u64;
        let mut pack = share.start + thread::thread_idx_x() as u64;
        while pack + (PACKS_PER_THREAD as u64 - 1) * step < share.end {
            self.tile::<PACKS_PER_THREAD>(pack, step, fenced, load, store);
            pack += PACKS_PER_THREAD as u64 * step;
        }
        while pack < share.end {
            self.tile::<1>(pack, step, fenced, load, store);
            pack += step;
        }
    }

    #[inline(always)]
    fn tile<const N: usize>(
        &self,
        pack: u64,
        step: u64,
        fenced: bool,
        load: impl Fn(u64) -> Pack + Copy,
        store: impl Fn(u64, Pack) + Copy,
    ) {
        let at = |n: usize| self.span.head_bytes + (pack + n as u64 * step) * PACK_BYTES;
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            packs[n] = load(at(n));
        }
        if fenced && intact!("mc_fence_in_place") {
            ptx::fence_proxy_alias();
        }
        for n in 0..N {
            store(at(n), packs[n]);
        }
    }

    /// Reduces what is in no pack, element by element, and stores it to `n_outputs` ranks from this one on.
    #[inline(always)]
    fn elements<T: Element, O: Reduction<T::Acc>>(&self, team: Team, n_outputs: u32) {
        let head_bytes = if self.has_packs() { self.span.head_bytes } else { self.len_bytes };
        let tail_bytes = if self.has_packs() { self.span.tail_bytes } else { 0 };
        let share = self.share((head_bytes + tail_bytes) / T::BYTES);
        let mut element = share.start + thread::thread_idx_x() as u64;
        while element < share.end {
            let before = element * T::BYTES;
            let at = if before < head_bytes { before } else { self.span.tail_start() + before - head_bytes };
            self.element::<T, O>(at, team, n_outputs);
            element += thread::block_dim_x() as u64;
        }
    }

    #[inline(always)]
    fn element<T: Element, O: Reduction<T::Acc>>(&self, at: u64, team: Team, n_outputs: u32) {
        let mut folded = Folded::<T>::first([0; 2]);
        let mut rank = 0;
        while rank < team.n_ranks() {
            // SAFETY: the host checked that the input lies inside a window, at a multiple of the element.
            let next = [unsafe { load_unit::<T>(self.input.add_bytes(at).at(team, rank)) }, 0];
            folded = if rank == 0 { Folded::first(next) } else { folded.fold::<O>(next) };
            rank += 1;
        }
        let result = folded.finish::<O>(team.n_ranks())[0];
        let mut distance = 0;
        while distance < n_outputs {
            let output = self.output.add_bytes(at).at(team, team.neighbour(distance));
            // SAFETY: as above, for the output.
            unsafe { store_unit::<T>(output, result) };
            distance += 1;
        }
    }
}
