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
