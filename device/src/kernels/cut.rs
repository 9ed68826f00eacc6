//! How a message is cut: into parts, one a rank; a part into slots of some bytes; a block's slots into tiles, each of
//! them what one epoch moves.
//!
//! Slots lie at multiples of their size of the input's address, if that is a power of two: then the first may be short,
//! as the last may, and all others are loaded by one access. All ranks cut alike, since offsets and lengths are equal on
//! all; where they are not, slots start with the message. The parts of a message have the same number of slots; the last ones of a part may be empty.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

use crate::abi::CollectiveArgs;
use crate::element::{Pack, Unit};
use crate::span::{load_unit, load_whole, store_unit, store_whole};
use crate::team::{SymPtr, Team};
use crate::thread;

/// A range of the message, cut into slots of `slot_bytes` (8, 12 or 16).
#[derive(Clone, Copy)]
pub(super) struct Part {
    input: SymPtr<u8>,
    output: SymPtr<u8>,
    len_bytes: u64,
    slot_bytes: u64,
    /// Bytes of the first slot that lie before the part.
    lead_bytes: u64,
}

impl Part {
    /// The part of `len_bytes` that is loaded at one offset and stored at the other.
    #[inline(always)]
    pub(super) fn new(slot_bytes: u64, input_offset: u64, output_offset: u64, len_bytes: u64) -> Self {
        let lead_bytes = if slot_bytes.is_power_of_two() { input_offset & (slot_bytes - 1) } else { 0 };
        let (input, output) = (SymPtr::new(input_offset), SymPtr::new(output_offset));
        Self { input, output, len_bytes, slot_bytes, lead_bytes }
    }

    /// The whole message.
    #[inline(always)]
    pub(super) fn whole(slot_bytes: u64, args: &CollectiveArgs) -> Self {
        Self::new(slot_bytes, args.input_offset, args.output_offset, args.len_bytes)
    }

    /// Rank `rank`'s part of a message that is divided among the ranks, as an all-reduce divides it.
    #[inline(always)]
    pub(super) fn divided(slot_bytes: u64, args: &CollectiveArgs, rank: u32) -> Self {
        let whole = Self::whole(slot_bytes, args);
        let (start, _) = whole.piece(rank as u64 * args.slots_per_part);
        let (end, _) = whole.piece((rank as u64 + 1) * args.slots_per_part);
        Self::new(slot_bytes, args.input_offset + start, args.output_offset + start, end - start)
    }

    /// Rank `rank`'s part of a message whose parts the caller has laid behind each other, as for a reduce-scatter.
    #[inline(always)]
    pub(super) fn scattered(slot_bytes: u64, args: &CollectiveArgs, rank: u32) -> Self {
        let start = rank as u64 * args.len_bytes;
        Self::new(slot_bytes, args.input_offset + start, args.output_offset, args.len_bytes)
    }

    /// The share of an all-gather. In place it lies elsewhere on each rank, so that slots start with it.
    #[inline(always)]
    pub(super) fn share(slot_bytes: u64, args: &CollectiveArgs) -> Self {
        Self { lead_bytes: 0, ..Self::whole(slot_bytes, args) }
    }

    /// The same range, stored `skip_bytes` further on.
    #[inline(always)]
    pub(super) fn stored_behind(self, skip_bytes: u64) -> Self {
        Self { output: self.output.add_bytes(skip_bytes), ..self }
    }

    /// Where a slot's bytes start in the part, and how many they are.
    #[inline(always)]
    fn piece(&self, slot: u64) -> (u64, u64) {
        let start = (slot * self.slot_bytes).saturating_sub(self.lead_bytes).min(self.len_bytes);
        let end = ((slot + 1) * self.slot_bytes - self.lead_bytes).min(self.len_bytes);
        (start, end - start)
    }

    /// Whether the slots from `first` to `last` are whole, and their bytes at multiples of an access in `memory`.
    #[inline(always)]
    fn are_whole(&self, memory: SymPtr<u8>, first: u64, last: u64) -> bool {
        let start = (first * self.slot_bytes).wrapping_sub(self.lead_bytes);
        let is_aligned = (memory.offset() + start) & access_mask(self.slot_bytes) == 0;
        let is_first = first == 0 && self.lead_bytes > 0;
        is_aligned && !is_first && (last + 1) * self.slot_bytes - self.lead_bytes <= self.len_bytes
    }
}

/// Low bits of an address that are 0 where one access moves a slot; one of 12 bytes goes by three.
#[inline(always)]
fn access_mask(slot_bytes: u64) -> u64 {
    if slot_bytes == 12 { 3 } else { slot_bytes - 1 }
}

/// A block's slots of each part, up to `N` a thread at a time.
pub(super) struct Tile<const N: usize> {
    start: u64,
    end: u64,
    capacity: u32,
}

impl<const N: usize> Tile<N> {
    /// The block's first tile; an epoch has `capacity` slots.
    #[inline(always)]
    pub(super) fn first(args: &CollectiveArgs, capacity: u32) -> Self {
        let start = thread::block_idx_x() as u64 * args.slots_per_block as u64;
        let end = (start + args.slots_per_block as u64).min(args.slots_per_part);
        Self { start, end, capacity: capacity.min(thread::block_dim_x() * N as u32) }
    }

    /// As [`Self::first`], of up to `n_slots` slots of the block's share, from the `skip`-th on.
    #[inline(always)]
    pub(super) fn of_round(args: &CollectiveArgs, skip: u32, n_slots: u32) -> Self {
        let mut tile = Self::first(args, u32::MAX);
        tile.start += skip as u64;
        tile.end = tile.end.min(tile.start + n_slots as u64);
        tile
    }

    /// Whether the block has nothing to move, on every rank.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    #[inline(always)]
    pub(super) fn is_last(&self) -> bool {
        self.end - self.start <= self.capacity as u64
    }

    #[inline(always)]
    pub(super) fn next(&mut self) {
        self.start += self.capacity as u64;
    }

    /// Slots of the tile.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        (self.end - self.start).min(self.capacity as u64) as u32
    }

    /// Number in the tile of this thread's `n`-th slot.
    #[inline(always)]
    pub(super) fn index(&self, n: usize) -> u32 {
        thread::thread_idx_x() + n as u32 * thread::block_dim_x()
    }

    /// Whether this thread has an `n`-th slot.
    #[inline(always)]
    pub(super) fn has(&self, n: usize) -> bool {
        self.index(n) < self.len()
    }

    /// All of [`Self::has`].
    #[inline(always)]
    pub(super) fn wanted(&self) -> [bool; N] {
        let mut wanted = [false; N];
        for n in 0..N {
            wanted[n] = self.has(n);
        }
        wanted
    }

    /// Number in the part of this thread's `n`-th slot.
    #[inline(always)]
    fn slot(&self, n: usize) -> u64 {
        self.start + self.index(n) as u64
    }

    /// Slots that this thread has.
    #[inline(always)]
    fn count(&self) -> u64 {
        let mut count = 0;
        for n in 0..N {
            count += self.has(n) as u64;
        }
        count
    }

    /// Whether all of this thread's slots are there and whole.
    #[inline(always)]
    fn is_whole(&self, part: &Part, memory: SymPtr<u8>) -> bool {
        self.has(N - 1) && part.are_whole(memory, self.slot(0), self.slot(N - 1))
    }

    /// Loads this thread's slots of a part from the input of `rank`. Slots that it does not have are 0, and so is what
    /// slots lack.
    #[inline(always)]
    pub(super) fn load<T: Unit>(&self, part: &Part, team: Team, rank: u32) -> [Pack; N] {
        let base = part.input.at(team, rank);
        if !self.is_whole(part, part.input) {
            return self.load_units::<T>(part, base);
        }
        // No branch between the loads: all are under way before the first is used.
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            let start = self.slot(n) * part.slot_bytes - part.lead_bytes;
            // SAFETY: the host checked that the input lies inside a window, and the slots are whole and aligned.
            packs[n] = unsafe { load_whole(base + start, part.slot_bytes) };
        }
        packs
    }

    /// Stores this thread's slots of a part to the output of `rank`.
    #[inline(always)]
    pub(super) fn store<T: Unit>(&self, part: &Part, team: Team, rank: u32, packs: [Pack; N]) {
        let base = part.output.at(team, rank);
        if !self.is_whole(part, part.output) {
            return self.store_units::<T>(part, base, packs);
        }
        for n in 0..N {
            let start = self.slot(n) * part.slot_bytes - part.lead_bytes;
            // SAFETY: as in `load`, for the output; the algorithm says that no other thread writes the slots.
            unsafe { store_whole(base + start, part.slot_bytes, packs[n]) }
        }
    }

    /// Loads whatever of its slots this thread has, unit by unit: at ragged ends and odd offsets. One short loop for all
    /// slots, so that the code of this rare case stays small.
    #[inline(always)]
    fn load_units<T: Unit>(&self, part: &Part, base: u64) -> [Pack; N] {
        let mut packs = [[0; 2]; N];
        self.for_each_unit::<T>(part, |n, word, shift, start| {
            // SAFETY: as in `load`, unit by unit.
            let unit = unsafe { load_unit::<T>(base + start) } << shift;
            for m in 0..N {
                packs[m][0] |= if (m, 0) == (n, word) { unit } else { 0 };
                packs[m][1] |= if (m, 1) == (n, word) { unit } else { 0 };
            }
        });
        packs
    }

    /// Stores whatever of its slots this thread has, unit by unit; see [`Self::load_units`].
    #[inline(always)]
    fn store_units<T: Unit>(&self, part: &Part, base: u64, packs: [Pack; N]) {
        self.for_each_unit::<T>(part, |n, word, shift, start| {
            let mut found = 0;
            for m in 0..N {
                found |= if (m, 0) == (n, word) { packs[m][0] } else { 0 };
                found |= if (m, 1) == (n, word) { packs[m][1] } else { 0 };
            }
            // SAFETY: as in `store`, unit by unit.
            unsafe { store_unit::<T>(base + start, found >> shift) }
        });
    }

    /// Calls `f` with each unit of this thread's slots: slot, word in it, place in the word in bits, place in the part in
    /// bytes.
    #[inline(always)]
    fn for_each_unit<T: Unit>(&self, part: &Part, mut f: impl FnMut(usize, u64, u64, u64)) {
        let end = self.count() * part.slot_bytes;
        let mut at = 0;
        while at < end {
            let n = at / part.slot_bytes;
            let inside = at - n * part.slot_bytes;
            let (start, len_bytes) = part.piece(self.slot(n as usize));
            if inside < len_bytes {
                f(n as usize, inside / 8, 8 * (inside & 7), start + inside);
            }
            at += T::BYTES;
        }
    }
}
