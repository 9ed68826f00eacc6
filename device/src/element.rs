//! Element types and reductions on them.
//!
//! Kernels move and reduce words of 8 bytes. A word is lifted to its elements in the type that they accumulate in (f32
//! for the narrow floats), folded, and lowered with one rounding.

use crate::ptx;

/// An element type. Its values in memory are bits; arithmetic is done in [`Self::Wide`].
pub trait Element: Copy {
    /// Bytes of one element in memory.
    const BYTES: u64;
    /// What one element accumulates in.
    type Acc: Copy;
    /// The elements of one 8-byte word, each in its accumulator.
    type Wide: Copy;

    /// The elements of a word.
    fn lift(word: u64) -> Self::Wide;
    /// Rounds the elements back into a word.
    fn lower(wide: Self::Wide) -> u64;
    /// Combines two words element by element.
    fn zip(a: Self::Wide, b: Self::Wide, f: impl Fn(Self::Acc, Self::Acc) -> Self::Acc) -> Self::Wide;
    /// Changes a word element by element.
    fn map(a: Self::Wide, f: impl Fn(Self::Acc) -> Self::Acc) -> Self::Wide;
}

/// 32-bit float.
#[derive(Clone, Copy)]
pub struct F32;
/// 16-bit float (binary16).
#[derive(Clone, Copy)]
pub struct F16;
/// Brain float: the upper half of an f32.
#[derive(Clone, Copy)]
pub struct Bf16;

impl Element for F32 {
    const BYTES: u64 = 4;
    type Acc = f32;
    type Wide = [f32; 2];

    #[inline(always)]
    fn lift(word: u64) -> [f32; 2] {
        [f32::from_bits(word as u32), f32::from_bits((word >> 32) as u32)]
    }

    #[inline(always)]
    fn lower(wide: [f32; 2]) -> u64 {
        // A team of one folds nothing, so that a NaN of its input is made canonical only here.
        let lower = |value: f32| ptx::min_nan_f32(value, value).to_bits() as u64;
        lower(wide[0]) | lower(wide[1]) << 32
    }

    #[inline(always)]
    fn zip(a: [f32; 2], b: [f32; 2], f: impl Fn(f32, f32) -> f32) -> [f32; 2] {
        [f(a[0], b[0]), f(a[1], b[1])]
    }

    #[inline(always)]
    fn map(a: [f32; 2], f: impl Fn(f32) -> f32) -> [f32; 2] {
        [f(a[0]), f(a[1])]
    }
}

macro_rules! narrow_float {
    ($name:ident, $lift:expr, $lower:expr) => {
        impl Element for $name {
            const BYTES: u64 = 2;
            type Acc = f32;
            type Wide = [f32; 4];

            #[inline(always)]
            fn lift(word: u64) -> [f32; 4] {
                let lift = $lift;
                [
                    lift(word as u16),
                    lift((word >> 16) as u16),
                    lift((word >> 32) as u16),
                    lift((word >> 48) as u16),
                ]
            }

            #[inline(always)]
            fn lower(wide: [f32; 4]) -> u64 {
                let lower = |value| $lower(value) as u64;
                lower(wide[0]) | lower(wide[1]) << 16 | lower(wide[2]) << 32 | lower(wide[3]) << 48
            }

            #[inline(always)]
            fn zip(a: [f32; 4], b: [f32; 4], f: impl Fn(f32, f32) -> f32) -> [f32; 4] {
                [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
            }

            #[inline(always)]
            fn map(a: [f32; 4], f: impl Fn(f32) -> f32) -> [f32; 4] {
                [f(a[0]), f(a[1]), f(a[2]), f(a[3])]
            }
        }
    };
}

narrow_float!(F16, ptx::cvt_f32_f16, ptx::cvt_rn_f16_f32);
narrow_float!(Bf16, |bits: u16| f32::from_bits((bits as u32) << 16), ptx::cvt_rn_bf16_f32);

/// A reduction of accumulators.
pub trait Reduction<A>: Copy {
    /// Folds the next rank's value into those before it.
    fn fold(acc: A, next: A) -> A;
    /// The result for `n_ranks`.
    fn finish(acc: A, n_ranks: u32) -> A;
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident($a:ident, $b:ident) = $fold:expr $(, $n:ident => $finish:expr)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name;

        impl Reduction<f32> for $name {
            #[inline(always)]
            fn fold($a: f32, $b: f32) -> f32 {
                $fold
            }

            #[inline(always)]
            #[allow(unused_variables, reason = "only avg looks at the number of ranks")]
            fn finish(acc: f32, n_ranks: u32) -> f32 {
                reductions!(@finish acc, n_ranks $(, $n => $finish)?)
            }
        }
    )*};
    (@finish $acc:ident, $ranks:ident) => { $acc };
    (@finish $acc:ident, $ranks:ident, $n:ident => $finish:expr) => {{ let $n = ($acc, $ranks as f32); $finish }};
}

reductions! {
    /// Sum.
    Sum(a, b) = a + b;
    /// Product.
    Prod(a, b) = a * b;
    /// Minimum; NaN if any is NaN; −0 is less than +0.
    Min(a, b) = ptx::min_nan_f32(a, b);
    /// Maximum; NaN if any is NaN; −0 is less than +0.
    Max(a, b) = ptx::max_nan_f32(a, b);
    /// Sum, divided by the number of ranks before it is rounded.
    Avg(a, b) = a + b, n => n.0 / n.1;
}

/// Folds the words of all ranks in rank order, so that every rank gets the same bits.
#[inline(always)]
pub fn fold_word<T: Element, O: Reduction<T::Acc>>(acc: T::Wide, next: u64) -> T::Wide {
    T::zip(acc, T::lift(next), O::fold)
}

/// The result of a fold as a word.
#[inline(always)]
pub fn finish_word<T: Element, O: Reduction<T::Acc>>(acc: T::Wide, n_ranks: u32) -> u64 {
    T::lower(T::map(acc, |value| O::finish(value, n_ranks)))
}
