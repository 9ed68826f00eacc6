//! What a block moves at once: a thread's slots, loaded and stored whole where one access does it, else unit by unit.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

use super::slots::{Loading, Slots, UNITS_MAX, put};
use super::{Part, Stretch};
use crate::abi::{CollectiveArgs, DevBaseHeader};
use crate::element::{Pack, Unit};
use crate::span::{load_unit, load_whole, store_unit, store_whole};
use crate::team::{SymPtr, Team};
use crate::thread;
use core::hint::cold_path;
use core::mem::offset_of;

/// Where `DevBase` holds words that nobody writes.
const BLANK_OFFSET: u64 = offset_of!(DevBaseHeader, blank) as u64;

/// Slots that a block moves at once, up to `N` a thread; and those behind it that move later.
#[derive(Clone, Copy)]
pub(in super::super) struct Tile<const N: usize> {
    start: u64,
    end: u64,
    /// Slots of the stretch, or round, before these.
    at: u32,
}

impl<const N: usize> Tile<N> {
    /// The slots from `start` on, those that lie before `end`.
    #[inline(always)]
    pub(super) fn between(start: u64, end: u64) -> Self {
        Self { start, end, at: 0 }
    }

    /// The first of up to `n_slots` slots of the block's share, from the `skip`-th on.
    #[inline(always)]
    pub(in super::super) fn of_round(args: &CollectiveArgs, skip: u32, n_slots: u32) -> Self {
        let mut round = Stretch::first(args, n_slots);
        round.start += skip as u64;
        round.first_tile()
    }

    /// The tile behind it.
    #[inline(always)]
    pub(in super::super) fn next(&self) -> Self {
        let capacity = Self::capacity();
        Self { start: self.start + capacity as u64, at: self.at + capacity, ..*self }
    }

    /// Whether there is nothing in it.
    #[inline(always)]
    pub(in super::super) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Slots that a block moves at once.
    #[inline(always)]
    pub(in super::super) fn capacity() -> u32 {
        thread::block_dim_x() * N as u32
    }

    /// Number of its first slot in the stretch, or round.
    #[inline(always)]
    pub(in super::super) fn at(&self) -> u32 {
        self.at
    }

    /// Slots of the tile.
    #[inline(always)]
    pub(in super::super) fn len(&self) -> u32 {
        (self.end - self.start).min(Self::capacity() as u64) as u32
    }

    /// Number in the tile of this thread's `n`-th slot.
    #[inline(always)]
    pub(in super::super) fn index(&self, n: usize) -> u32 {
        thread::thread_idx_x() + n as u32 * thread::block_dim_x()
    }

    /// Whether this thread has an `n`-th slot.
    #[inline(always)]
    pub(in super::super) fn has(&self, n: usize) -> bool {
        self.index(n) < self.len()
    }

    /// Slots that this thread has: its first ones.
    #[inline(always)]
    pub(in super::super) fn count(&self) -> u32 {
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
    #[inline(always)]
    pub(in super::super) fn load<T: Unit>(&self, part: &Part, team: Team, rank: u32) -> [Pack; N] {
        let slots = self.input(part, team, rank);
        let packs = self.load_whole_slots(part, &slots, team);
        if self.is_ragged(&slots) { self.load_units::<T>(part, &slots, team, rank, packs) } else { packs }
    }

    /// As [`Self::load`], from where [`Self::input`] said.
    #[inline(always)]
    pub(in super::super) fn load_from<T: Unit>(
        &self,
        part: &Part,
        slots: Slots<N>,
        team: Team,
        rank: u32,
    ) -> [Pack; N] {
        let packs = self.load_whole_slots(part, &slots, team);
        if !self.is_ragged(&slots) {
            packs
        } else if N == 1 {
            // In place of the whole slot's words: with both, as `end_load` has them, more registers are live.
            let mut pack = [0; 2];
            Self::load_only::<T>(part, &slots, team, |n, unit| put::<T>(&mut pack, n, unit));
            [pack; N]
        } else {
            cold_path();
            self.load_units::<T>(part, &slots, team, rank, packs)
        }
    }

    /// Begins to load the slots that lie where [`Self::input`] said. All loads are under way when it returns, but those of
    /// ragged slots where a thread has several.
    #[inline(always)]
    pub(in super::super) fn begin_load<T: Unit>(
        &self,
        part: &Part,
        slots: Slots<N>,
        team: Team,
    ) -> Loading<N> {
        let packs = self.load_whole_slots(part, &slots, team);
        let mut units = [0; UNITS_MAX];
        if N == 1 && self.is_ragged(&slots) {
            Self::load_only::<T>(part, &slots, team, |n, unit| units[n as usize] = unit);
        }
        Loading { slots, packs, units }
    }

    /// The slots that [`Self::begin_load`] began to load.
    #[inline(always)]
    pub(in super::super) fn end_load<T: Unit>(
        &self,
        part: &Part,
        loading: Loading<N>,
        team: Team,
        rank: u32,
    ) -> [Pack; N] {
        let Loading { slots, packs, units } = loading;
        if !self.is_ragged(&slots) {
            packs
        } else if N == 1 {
            // What was loaded in place of the whole slot is 0, in other registers: the units need not wait for it.
            let mut pack = packs[0];
            let mut n = 0;
            while n < part.slot_bytes / T::BYTES {
                put::<T>(&mut pack, n, units[n as usize]);
                n += 1;
            }
            [pack; N]
        } else {
            cold_path();
            self.load_units::<T>(part, &slots, team, rank, packs)
        }
    }

    /// Loads the slots that one access moves. The loads stand in no branch: all are under way before the first is used,
    /// and before whatever is loaded next. In place of slots that are not whole a thread loads the blank words of
    /// `DevBase`.
    #[inline(always)]
    fn load_whole_slots(&self, part: &Part, slots: &Slots<N>, team: Team) -> [Pack; N] {
        let mut packs = [[0; 2]; N];
        for n in 0..N {
            let address = if slots.is_whole[n] { slots.address[n] } else { team.own_address(BLANK_OFFSET) };
            // SAFETY: the host checked that the input lies inside a window, and the slot is whole and aligned; `DevBase`
            // is mapped.
            packs[n] = unsafe { load_whole(address, part.slot_bytes) };
        }
        packs
    }

    /// Where this thread's slots of a part lie in the input of `rank`.
    #[inline(always)]
    pub(in super::super) fn input(&self, part: &Part, team: Team, rank: u32) -> Slots<N> {
        self.place(part, part.input, team, rank)
    }

    /// Where this thread's slots of a part go in the output of `rank`.
    #[inline(always)]
    pub(in super::super) fn output(&self, part: &Part, team: Team, rank: u32) -> Slots<N> {
        self.place(part, part.output, team, rank)
    }

    /// Stores this thread's slots of a part to the output of `rank`.
    #[inline(always)]
    pub(in super::super) fn store<T: Unit>(&self, part: &Part, team: Team, rank: u32, packs: [Pack; N]) {
        self.store_at::<T>(part, &self.output(part, team, rank), team, rank, packs);
    }

    /// As [`Self::store`], to where [`Self::output`] said.
    #[inline(always)]
    pub(in super::super) fn store_at<T: Unit>(
        &self,
        part: &Part,
        slots: &Slots<N>,
        team: Team,
        rank: u32,
        packs: [Pack; N],
    ) {
        for n in 0..N {
            if slots.is_whole[n] {
                // SAFETY: as in `load_whole_slots`, for the output; the algorithm says that no other thread writes the slots.
                unsafe { store_whole(slots.address[n], part.slot_bytes, packs[n]) }
            }
        }
        if !self.is_ragged(slots) {
            return;
        }
        cold_path();
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

    /// Loads a thread's only slot unit by unit and gives each, by its number, to `take`. In place of those that are not of
    /// the part, blank ones are loaded.
    #[inline(always)]
    fn load_only<T: Unit>(part: &Part, slots: &Slots<N>, team: Team, mut take: impl FnMut(u64, u64)) {
        let mut n = 0;
        while n < part.slot_bytes / T::BYTES {
            let inside = n * T::BYTES;
            let is_there = inside < slots.len_bytes;
            let address = if is_there { slots.start + inside } else { team.own_address(BLANK_OFFSET) };
            // SAFETY: as in `load_whole_slots`, unit by unit.
            take(n, unsafe { load_unit::<T>(address) });
            n += 1;
        }
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
                // SAFETY: as in `load_whole_slots`, unit by unit.
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
