//! Where a thread's slots lie, and what is under way from there.

use crate::element::{Pack, Unit};
use crate::ptx;

/// Units of a slot, at most.
pub(super) const UNITS_MAX: usize = 16;

/// Where what a thread loads lies.
pub(in super::super) trait Places: Copy {
    /// Has all of it computed here, not where it is used, which may be later than there is time.
    fn now(self) -> Self;

    /// All of it, put together; other than 0, since addresses are part of it.
    fn any_bits(self) -> u64;
}

/// Where one thread's slots of a part lie in the memory of one rank.
#[derive(Clone, Copy)]
pub(in super::super) struct Slots<const N: usize> {
    pub(super) address: [u64; N],
    /// Whether one access moves the slot; not so those that the thread does not have.
    pub(super) is_whole: [bool; N],
    /// Where the bytes of a thread's only slot start, and how many they are. Of more slots that is found out where one is
    /// not whole, since registers would not do.
    pub(super) start: u64,
    pub(super) len_bytes: u64,
}

impl<const N: usize> Places for Slots<N> {
    #[inline(always)]
    fn now(mut self) -> Self {
        for n in 0..N {
            self.address[n] = ptx::mov_b64(self.address[n]);
        }
        if N == 1 {
            self.start = ptx::mov_b64(self.start);
            self.len_bytes = ptx::mov_b64(self.len_bytes);
        }
        self
    }

    #[inline(always)]
    fn any_bits(self) -> u64 {
        let mut bits = self.start | self.len_bytes;
        for n in 0..N {
            bits |= self.address[n] | self.is_whole[n] as u64;
        }
        bits
    }
}

impl<const N: usize> Places for [Slots<N>; 2] {
    #[inline(always)]
    fn now(self) -> Self {
        [self[0].now(), self[1].now()]
    }

    #[inline(always)]
    fn any_bits(self) -> u64 {
        self[0].any_bits() | self[1].any_bits()
    }
}

/// A thread's slots of a part on their way from memory.
pub(in super::super) struct Loading<const N: usize> {
    pub(super) slots: Slots<N>,
    pub(super) packs: [Pack; N],
    /// Those of a thread's only slot, if it is ragged.
    pub(super) units: [u64; UNITS_MAX],
}

/// Puts the `n`-th unit at its place in a slot, which is 0 there.
#[inline(always)]
pub(super) fn put<T: Unit>(pack: &mut Pack, n: u64, unit: u64) {
    let inside = n * T::BYTES;
    pack[inside as usize / 8] |= unit << (8 * (inside & 7));
}
