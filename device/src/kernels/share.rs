//! How a message is cut into shares.

use core::num::NonZeroU64;

/// Half-open range of packs or slots.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Share {
    /// The `index`-th of `n` shares of `total`, all as large as the first but the last ones, which may be empty.
    #[inline(always)]
    pub(super) fn new(total: u64, index: u32, n: u32) -> Self {
        Self::of_size(total, index, div_ceil(total, n))
    }

    /// The `index`-th share of `each` of a total.
    #[inline(always)]
    pub(super) fn of_size(total: u64, index: u32, each: u64) -> Self {
        let start = min(index as u64 * each, total);
        Self { start, end: min(start + each, total) }
    }
}

#[inline(always)]
pub(super) fn min(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// `a / n` rounded up; 0 for an `n` of 0, which no launch has, since the check would be a trap.
#[inline(always)]
fn div_ceil(a: u64, n: u32) -> u64 {
    match NonZeroU64::new(n as u64) {
        Some(n) => (a + (n.get() - 1)) / n,
        None => 0,
    }
}
