//! What a block moves at once: a thread's slots, loaded and stored whole where one access does it, else unit by unit.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

use super::{Part, Stretch};
use crate::abi::{CollectiveArgs, DevBaseHeader};
use crate::element::{Pack, Unit};
use crate::ptx;
use crate::span::{load_unit, load_whole, store_unit, store_whole};
use crate::team::{SymPtr, Team};
use crate::thread;
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
    ///
    /// The loads of whole slots stand in no branch: all are under way before the first is used, and before whatever is
    /// loaded next. In place of slots that are not whole a thread loads the blank words of `DevBase`.
    #[inline(always)]
    pub(in super::super) fn load<T: Unit>(&self, part: &Part, team: Team, rank: u32) -> [Pack; N] {
        self.load_slots::<T, false>(part, &self.input(part, team, rank), team, rank)
    }

    /// As [`Self::load`], from where [`Self::input`] said.
    #[inline(always)]
    pub(in super::super) fn load_from<T: Unit>(
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
pub(in super::super) struct Slots<const N: usize> {
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
    pub(in super::super) fn now(mut self) -> Self {
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
