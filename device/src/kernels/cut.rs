//! How a message is cut: into parts, one a rank; a part into slots of some bytes; a block's slots into stretches, each
//! of them what one epoch moves; a stretch into tiles, each of them what the block moves at once.
//!
//! Slots lie at multiples of their size of the input's address, if that is a power of two: then the first may be short,
//! as the last may, and all others are loaded by one access. All ranks cut alike, since offsets and lengths are equal on
//! all; where they are not, slots start with the message. The parts of a message have the same number of slots; the last
//! ones of a part may be empty.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

use crate::abi::{CollectiveArgs, DevBaseHeader};
use crate::element::{Pack, Unit};
use crate::ptx;
use crate::span::{load_unit, load_whole, store_unit, store_whole};
use crate::team::{SymPtr, Team};
use crate::thread;
use core::mem::offset_of;

/// Where `DevBase` holds words that nobody writes.
const BLANK_OFFSET: u64 = offset_of!(DevBaseHeader, blank) as u64;

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
        Tile { start: self.start, end, at: 0 }
    }
}

/// Slots that a block moves at once, up to `N` a thread; and those behind it that move later.
#[derive(Clone, Copy)]
pub(super) struct Tile<const N: usize> {
    start: u64,
    end: u64,
    /// Slots of the stretch, or round, before these.
    at: u32,
}

impl<const N: usize> Tile<N> {
    /// The first of up to `n_slots` slots of the block's share, from the `skip`-th on.
    #[inline(always)]
    pub(super) fn of_round(args: &CollectiveArgs, skip: u32, n_slots: u32) -> Self {
        let mut round = Stretch::first(args, n_slots);
        round.start += skip as u64;
        round.first_tile()
    }

    /// The tile behind it.
    #[inline(always)]
    pub(super) fn next(&self) -> Self {
        let capacity = Self::capacity();
        Self { start: self.start + capacity as u64, at: self.at + capacity, ..*self }
    }

    /// Whether there is nothing in it.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Slots that a block moves at once.
    #[inline(always)]
    pub(super) fn capacity() -> u32 {
        thread::block_dim_x() * N as u32
    }

    /// Number of its first slot in the stretch, or round.
    #[inline(always)]
    pub(super) fn at(&self) -> u32 {
        self.at
    }

    /// Slots of the tile.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        (self.end - self.start).min(Self::capacity() as u64) as u32
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

    /// Slots that this thread has: its first ones.
    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        let mut count = 0;
        for n in 0..N {
            count += self.has(n) as u32;
        }
        count
    }

    /// Number in the part of this thread's `n`-th slot.
    #[inline(always)]
    fn slot(&self, n: usize) -> u64 {
        self.start + self.index(n) as u64
    }

    /// Loads this thread's slots of a part from the input of `rank`. Those that it does not have hold whatever.
    ///
    /// The loads of whole slots stand in no branch: all are under way before the first is used, and before whatever is
    /// loaded next. In place of slots that are not whole a thread loads the blank words of `DevBase`.
    #[inline(always)]
    pub(super) fn load<T: Unit>(&self, part: &Part, team: Team, rank: u32) -> [Pack; N] {
        self.load_slots::<T, false>(part, &self.input(part, team, rank), team, rank)
    }

    /// As [`Self::load`], from where [`Self::input`] said.
    #[inline(always)]
    pub(super) fn load_from<T: Unit>(
        &self,
        part: &Part,
        slots: &Slots<N>,
        team: Team,
        rank: u32,
    ) -> [Pack; N] {
        self.load_slots::<T, true>(part, slots, team, rank)
    }

    /// `AHEAD`: where the bytes of an only slot lie was computed ahead.
    #[inline(always)]
    fn load_slots<T: Unit, const AHEAD: bool>(
        &self,
        part: &Part,
        slots: &Slots<N>,
        team: Team,
        rank: u32,
    ) -> [Pack; N] {
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            let address = if slots.is_whole[n] { slots.address[n] } else { team.own_address(BLANK_OFFSET) };
            // SAFETY: the host checked that the input lies inside a window, and the slot is whole and aligned; `DevBase`
            // is mapped.
            packs[n] = unsafe { load_whole(address, part.slot_bytes) };
        }
        if !self.is_ragged(slots) {
            packs
        } else if N == 1 && AHEAD {
            [Self::load_only::<T>(part, slots, team); N]
        } else {
            self.load_units::<T>(part, slots, team, rank, packs)
        }
    }

    /// Where this thread's slots of a part lie in the input of `rank`.
    #[inline(always)]
    pub(super) fn input(&self, part: &Part, team: Team, rank: u32) -> Slots<N> {
        self.place(part, part.input, team, rank)
    }

    /// Where this thread's slots of a part go in the output of `rank`.
    #[inline(always)]
    pub(super) fn output(&self, part: &Part, team: Team, rank: u32) -> Slots<N> {
        self.place(part, part.output, team, rank)
    }

    /// Stores this thread's slots of a part to the output of `rank`.
    #[inline(always)]
    pub(super) fn store<T: Unit>(&self, part: &Part, team: Team, rank: u32, packs: [Pack; N]) {
        self.store_at::<T>(part, &self.output(part, team, rank), team, rank, packs);
    }

    /// As [`Self::store`], to where [`Self::output`] said.
    #[inline(always)]
    pub(super) fn store_at<T: Unit>(
        &self,
        part: &Part,
        slots: &Slots<N>,
        team: Team,
        rank: u32,
        packs: [Pack; N],
    ) {
        for n in 0..N {
            if slots.is_whole[n] {
                // SAFETY: as in `load`, for the output; the algorithm says that no other thread writes the slots.
                unsafe { store_whole(slots.address[n], part.slot_bytes, packs[n]) }
            }
        }
        if !self.is_ragged(slots) {
            return;
        }
        if N == 1 {
            Self::store_only::<T>(slots, packs[0]);
        } else {
            self.store_units::<T>(part, slots, part.output.at(team, rank), packs);
        }
    }

    #[inline(always)]
    fn place(&self, part: &Part, memory: SymPtr<u8>, team: Team, rank: u32) -> Slots<N> {
        let view = part.view(memory, team, rank, self.start, self.len());
        let mut slots = Slots { address: [0; N], is_whole: [false; N], start: 0, len_bytes: 0 };
        for n in 0..N {
            let index = self.index(n);
            slots.address[n] = view.base.wrapping_add(index as u64 * part.slot_bytes);
            slots.is_whole[n] = index >= view.whole_from && index < view.whole_to;
        }
        if N == 1 {
            let (start, len_bytes) = part.piece(self.slot(0));
            (slots.start, slots.len_bytes) = (memory.at(team, rank) + start, len_bytes);
        }
        slots
    }

    /// Whether this thread has slots that are not whole.
    #[inline(always)]
    fn is_ragged(&self, slots: &Slots<N>) -> bool {
        let mut is_ragged = false;
        for n in 0..N {
            is_ragged |= self.has(n) & !slots.is_whole[n];
        }
        is_ragged
    }

    /// Loads a thread's only slot unit by unit. All units are under way before the first is used; in place of those that
    /// are not of the part, blank ones are loaded.
    #[inline(always)]
    fn load_only<T: Unit>(part: &Part, slots: &Slots<N>, team: Team) -> Pack {
        let mut pack = [0; 2];
        let mut inside = 0;
        while inside < part.slot_bytes {
            let is_there = inside < slots.len_bytes;
            let address = if is_there { slots.start + inside } else { team.own_address(BLANK_OFFSET) };
            // SAFETY: as in `load`, unit by unit.
            let unit = unsafe { load_unit::<T>(address) };
            pack[inside as usize / 8] |= unit << (8 * (inside & 7));
            inside += T::BYTES;
        }
        pack
    }

    /// Stores a thread's only slot unit by unit.
    #[inline(always)]
    fn store_only<T: Unit>(slots: &Slots<N>, pack: Pack) {
        let mut rest = pack[0] as u128 | (pack[1] as u128) << 64;
        let mut inside = 0;
        while inside < slots.len_bytes {
            // SAFETY: as in `store_at`, unit by unit.
            unsafe { store_unit::<T>(slots.start + inside, rest as u64) }
            rest >>= 8 * T::BYTES;
            inside += T::BYTES;
        }
    }

    /// As [`Self::load_only`], of several slots those that are not whole.
    #[inline(always)]
    fn load_units<T: Unit>(
        &self,
        part: &Part,
        slots: &Slots<N>,
        team: Team,
        rank: u32,
        mut packs: [Pack; N],
    ) -> [Pack; N] {
        let base = part.input.at(team, rank);
        let mut n = 0;
        while n < self.count() as usize {
            let (start, len_bytes) = part.piece(self.slot(n));
            let mut pack = [0; 2];
            let mut inside = 0;
            while inside < part.slot_bytes {
                let there = base + start + inside;
                let address = if inside < len_bytes { there } else { team.own_address(BLANK_OFFSET) };
                // SAFETY: as in `load`, unit by unit.
                let unit = unsafe { load_unit::<T>(address) };
                pack[inside as usize / 8] |= unit << (8 * (inside & 7));
                inside += T::BYTES;
            }
            for m in 0..N {
                packs[m] = if m == n && !slots.is_whole[m] { pack } else { packs[m] };
            }
            n += 1;
        }
        packs
    }

    /// As [`Self::store_only`], of several slots those that are not whole: in one short loop, so that the code of this rare
    /// case stays small.
    #[inline(always)]
    fn store_units<T: Unit>(&self, part: &Part, slots: &Slots<N>, base: u64, packs: [Pack; N]) {
        let end = self.count() as u64 * part.slot_bytes;
        let mut at = 0;
        while at < end {
            let n = at / part.slot_bytes;
            let inside = at - n * part.slot_bytes;
            let (start, len_bytes) = part.piece(self.slot(n as usize));
            let (mut word, mut is_whole) = (0, false);
            for m in 0..N {
                word |= if (m as u64, 0) == (n, inside / 8) { packs[m][0] } else { 0 };
                word |= if (m as u64, 1) == (n, inside / 8) { packs[m][1] } else { 0 };
                is_whole |= (m as u64 == n) & slots.is_whole[m];
            }
            if inside < len_bytes && !is_whole {
                // SAFETY: as in `store_at`, unit by unit.
                unsafe { store_unit::<T>(base + start + inside, word >> (8 * (inside & 7))) }
            }
            at += T::BYTES;
        }
    }
}

/// Where one thread's slots of a part lie in the memory of one rank.
pub(super) struct Slots<const N: usize> {
    address: [u64; N],
    /// Whether one access moves the slot; not so those that the thread does not have.
    is_whole: [bool; N],
    /// Where the bytes of a thread's only slot start, and how many they are. Of more slots that is found out where one is
    /// not whole, since registers would not do.
    start: u64,
    len_bytes: u64,
}

impl<const N: usize> Slots<N> {
    /// Has all of it computed here, not where it is used, which may be later than there is time.
    #[inline(always)]
    pub(super) fn now(mut self) -> Self {
        for n in 0..N {
            self.address[n] = ptx::mov_b64(self.address[n]);
        }
        if N == 1 {
            self.start = ptx::mov_b64(self.start);
            self.len_bytes = ptx::mov_b64(self.len_bytes);
        }
        self
    }
}
