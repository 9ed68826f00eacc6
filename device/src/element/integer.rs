//! Whole numbers. They accumulate in their own type and wrap in it.
//!
//! Sums and products of signed numbers have the same bits as those of unsigned ones: the table has kernels for the
//! unsigned types alone.

use super::{Element, Unit};

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident = $type:ident as $unsigned:ident, $lanes:literal [$($lane:literal)*];)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl Unit for $name {
            const BYTES: u64 = 8 / $lanes;
        }

        impl Element for $name {
            type Acc = $type;
            type Wide = [$type; $lanes];

            #[inline(always)]
            fn lift(word: u64) -> [$type; $lanes] {
                [$((word >> ($lane * (64 / $lanes))) as $type,)*]
            }

            #[inline(always)]
            fn lower(wide: [$type; $lanes]) -> u64 {
                $(((wide[$lane] as $unsigned as u64) << ($lane * (64 / $lanes))))|*
            }

            #[inline(always)]
            fn zip(
                a: [$type; $lanes],
                b: [$type; $lanes],
                f: impl Fn($type, $type) -> $type,
            ) -> [$type; $lanes] {
                [$(f(a[$lane], b[$lane]),)*]
            }

            #[inline(always)]
            fn map(a: [$type; $lanes], f: impl Fn($type) -> $type) -> [$type; $lanes] {
                [$(f(a[$lane]),)*]
            }
        }
    )*};
}

integers! {
    /// Unsigned, 1 byte.
    U8 = u8 as u8, 8 [0 1 2 3 4 5 6 7];
    /// Signed, 1 byte.
    I8 = i8 as u8, 8 [0 1 2 3 4 5 6 7];
    /// Unsigned, 4 bytes.
    U32 = u32 as u32, 2 [0 1];
    /// Signed, 4 bytes.
    I32 = i32 as u32, 2 [0 1];
    /// Unsigned, 8 bytes.
    U64 = u64 as u64, 1 [0];
    /// Signed, 8 bytes.
    I64 = i64 as u64, 1 [0];
}
