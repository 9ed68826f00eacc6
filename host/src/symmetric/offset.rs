//! Three kinds of offset that must not be taken for each other, with one conversion each.
//!
//! ```text
//!   WindowOffset ── + where the window starts in its allocation ──► AllocOffset
//!   AllocOffset  ── + where the allocation starts in the space  ──► FlatOffset
//!   FlatOffset   ── + base_uc + rank · stride                   ──► address (SymmetricSpace::address)
//! ```

use std::fmt;

macro_rules! offset {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// Bytes.
            pub bytes: u64,
        }

        impl $name {
            /// The offset of this many bytes.
            pub const fn new(bytes: u64) -> Self {
                Self { bytes }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.bytes)
            }
        }
    )*};
}

offset! {
    /// Bytes from the start of a window.
    WindowOffset;
    /// Bytes from the start of a physical allocation.
    AllocOffset;
    /// Bytes from the start of one rank's part of the symmetric space.
    FlatOffset;
}

impl WindowOffset {
    /// The same byte, counted from the start of the allocation that the window starts at `window` of.
    pub const fn in_allocation(self, window: AllocOffset) -> AllocOffset {
        AllocOffset::new(window.bytes + self.bytes)
    }
}

impl AllocOffset {
    /// The same byte, counted from the start of the rank's part, where the allocation starts at `allocation`.
    pub const fn in_space(self, allocation: FlatOffset) -> FlatOffset {
        FlatOffset::new(allocation.bytes + self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: u64 = 1 << 46;

    proptest! {
        /// A byte has one place in the space, whichever window of its allocation it is counted from.
        #[test]
        fn windows_of_one_allocation_agree(
            flat in 0..LIMIT, first in 0..LIMIT, apart in 0..LIMIT, beyond in 0..LIMIT,
        ) {
            let (allocation, near) = (FlatOffset::new(flat), AllocOffset::new(first));
            let far = AllocOffset::new(first + apart);
            let by_near = WindowOffset::new(apart + beyond).in_allocation(near).in_space(allocation);
            let by_far = WindowOffset::new(beyond).in_allocation(far).in_space(allocation);
            prop_assert_eq!(by_near, by_far);
            prop_assert_eq!(by_near.bytes, flat + first + apart + beyond);
        }

        /// Windows that do not overlap in their allocation do not overlap in the space.
        #[test]
        fn disjoint_windows_stay_disjoint(
            flat in 0..LIMIT, first in 0..LIMIT, len in 1..LIMIT, gap in 0..LIMIT,
        ) {
            let at = |window: u64, byte: u64| {
                WindowOffset::new(byte).in_allocation(AllocOffset::new(window)).in_space(FlatOffset::new(flat))
            };
            prop_assert!(at(first, len - 1) < at(first + len + gap, 0));
        }
    }
}
