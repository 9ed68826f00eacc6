//! Element types and reductions on them.
//!
//! Kernels move and reduce packs of two 8-byte words. A word is lifted to its elements in the type that they accumulate
//! in (f32 for the narrow floats), folded, and lowered with one rounding. The fold starts with rank 0's value and goes
//! on with 1…n−1, so that every rank and every algorithm gets the same bits.
//!
//! | module | what |
//! |---|---|
//! | `float` | f64, f32, f16, bf16 |
//! | `fp8` | e4m3, e5m2 |
//! | `integer` | whole numbers of 1, 4 and 8 bytes |
//! | `reduction` | sum, product, minimum, maximum, average |
//! | `switched` | which of them the switch does |

mod float;
mod fp8;
mod integer;
mod reduction;
mod switched;

pub use float::{Bf16, F16, F32, F64};
pub use fp8::{E4m3, E5m2};
pub use integer::{I8, I32, I64, U8, U32, U64};
pub use reduction::{Avg, Max, Min, Prod, Reduction, Sum};
pub use switched::Switched;

/// Two words: what one thread moves at once. Shorter payloads fill the low end.
pub type Pack = [u64; 2];

/// What a message is made of: the unit that divides its offsets and its length.
pub trait Unit: Copy {
    /// Bytes of one element in memory.
    const BYTES: u64;
}

/// Bytes that nobody calculates with.
#[derive(Clone, Copy)]
pub struct Byte;

impl Unit for Byte {
    const BYTES: u64 = 1;
}

/// Four of them at a time.
#[derive(Clone, Copy)]
pub struct FourBytes;

impl Unit for FourBytes {
    const BYTES: u64 = 4;
}

/// An element type. Its values in memory are bits; arithmetic is done in [`Self::Wide`].
pub trait Element: Unit {
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

/// An element type in which a word of all ones is a word of NaN.
pub trait Float: Element {
    /// A word of canonical NaN.
    const NAN_WORD: u64;
}

/// The packs of the ranks so far, folded.
#[derive(Clone, Copy)]
pub struct Folded<T: Element>([T::Wide; 2]);

impl<T: Element> Folded<T> {
    /// The first rank's pack.
    #[inline(always)]
    pub fn first(pack: Pack) -> Self {
        Self([T::lift(pack[0]), T::lift(pack[1])])
    }

    /// With the next rank's pack.
    #[inline(always)]
    pub fn fold<O: Reduction<T::Acc>>(self, next: Pack) -> Self {
        let [low, high] = self.0;
        Self([T::zip(low, T::lift(next[0]), O::fold), T::zip(high, T::lift(next[1]), O::fold)])
    }

    /// The result for `n_ranks`.
    #[inline(always)]
    pub fn finish<O: Reduction<T::Acc>>(self, n_ranks: u32) -> Pack {
        let finish = |word| T::lower(T::map(word, |value| O::finish(value, n_ranks)));
        [finish(self.0[0]), finish(self.0[1])]
    }
}

/// The results of `N` folds. Written as a loop, since `core`'s map over arrays is no code that stays in registers.
#[inline(always)]
pub fn finish_all<T: Element, O: Reduction<T::Acc>, const N: usize>(
    folded: [Folded<T>; N],
    n_ranks: u32,
) -> [Pack; N] {
    let mut packs = [[0; 2]; N];
    for n in 0..N {
        packs[n] = folded[n].finish::<O>(n_ranks);
    }
    packs
}
