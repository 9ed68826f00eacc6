//! How a message is cut: into parts, one a rank; a part into slots of some bytes; a block's slots into stretches, each
//! of them what one epoch moves; a stretch into tiles, each of them what the block moves at once.
//!
//! Slots lie at multiples of their size of the input's address, if that is a power of two: then the first may be short,
//! as the last may, and all others are loaded by one access. All ranks cut alike, since offsets and lengths are equal on
//! all; where they are not, slots start with the message. The parts of a message have the same number of slots; the last
//! ones of a part may be empty.

mod slots;
mod tile;

pub(super) use slots::{Places, Slots};
pub(super) use tile::Tile;

use crate::abi::CollectiveArgs;
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

    /// Where `n_slots` slots from `first` on lie in `memory` of `rank`.
    #[inline(always)]
    fn view(&self, memory: SymPtr<u8>, team: Team, rank: u32, first: u64, n_slots: u32) -> View {
        let before = first * self.slot_bytes;
        let base = memory.at(team, rank).wrapping_add(before).wrapping_sub(self.lead_bytes);
        let there_bytes = (self.len_bytes + self.lead_bytes).saturating_sub(before);
        let there_bytes = there_bytes.min(n_slots as u64 * self.slot_bytes) as u32;
        let is_aligned = base & access_mask(self.slot_bytes) == 0;
        View {
            base,
            whole_from: (first == 0 && self.lead_bytes > 0) as u32,
            whole_to: if is_aligned { there_bytes / self.slot_bytes as u32 } else { 0 },
        }
    }
}

/// Slots of a part in the memory of one rank. The same for all threads of a block.
#[derive(Clone, Copy)]
struct View {
    /// Address of the first slot, which may start before the part does.
    base: u64,
    /// The first slot that one access moves: it is whole, and aligned.
    whole_from: u32,
    /// The slot behind the last such.
    whole_to: u32,
}

/// Low bits of an address that are 0 where one access moves a slot; one of 12 bytes goes by three.
#[inline(always)]
fn access_mask(slot_bytes: u64) -> u64 {
    if slot_bytes == 12 { 3 } else { slot_bytes - 1 }
}

/// A block's slots of each part, as many as one epoch moves.
pub(super) struct Stretch {
    start: u64,
    end: u64,
    capacity: u32,
}

impl Stretch {
    /// The block's first one; an epoch has `capacity` slots.
    #[inline(always)]
    pub(super) fn first(args: &CollectiveArgs, capacity: u32) -> Self {
        let start = thread::block_idx_x() as u64 * args.slots_per_block as u64;
        let end = (start + args.slots_per_block as u64).min(args.slots_per_part);
        Self { start, end, capacity }
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

    /// Its first tile.
    #[inline(always)]
    pub(super) fn first_tile<const N: usize>(&self) -> Tile<N> {
        let end = self.end.min(self.start + self.capacity as u64);
        Tile::between(self.start, end)
    }
}
