//! Reductions, on each type that elements accumulate in.

use crate::ptx;

/// A reduction of accumulators.
pub trait Reduction<A>: Copy {
    /// Folds the next rank's value into those before it.
    fn fold(acc: A, next: A) -> A;
    /// The result for `n_ranks`.
    #[inline(always)]
    fn finish(acc: A, n_ranks: u32) -> A {
        let _ = n_ranks;
        acc
    }
}

/// Sum; of integers, wrapping in the type.
#[derive(Clone, Copy)]
pub struct Sum;
/// Product; of integers, wrapping in the type.
#[derive(Clone, Copy)]
pub struct Prod;
/// Minimum; NaN if any is NaN; −0 is less than +0.
#[derive(Clone, Copy)]
pub struct Min;
/// Maximum; NaN if any is NaN; −0 is less than +0.
#[derive(Clone, Copy)]
pub struct Max;
/// Sum, divided by the number of ranks before it is rounded; of integers, the wrapped sum divided toward zero.
#[derive(Clone, Copy)]
pub struct Avg;

macro_rules! folds {
    ($type:ident: $($op:ident($a:ident, $b:ident) = $fold:expr;)*) => {$(
        impl Reduction<$type> for $op {
            #[inline(always)]
            fn fold($a: $type, $b: $type) -> $type {
                $fold
            }
        }
    )*};
}

macro_rules! averages {
    ($($type:ident($acc:ident, $n:ident) = $finish:expr, $fold:expr;)*) => {$(
        impl Reduction<$type> for Avg {
            #[inline(always)]
            fn fold(acc: $type, next: $type) -> $type {
                $fold(acc, next)
            }

            #[inline(always)]
            fn finish($acc: $type, $n: u32) -> $type {
                $finish
            }
        }
    )*};
}

folds! { f32:
    Sum(a, b) = a + b;
    Prod(a, b) = a * b;
    Min(a, b) = ptx::min_nan_f32(a, b);
    Max(a, b) = ptx::max_nan_f32(a, b);
}

folds! { f64:
    Sum(a, b) = a + b;
    Prod(a, b) = a * b;
    Min(a, b) = f64_pick(a, b, |a, b| a < b);
    Max(a, b) = f64_pick(a, b, |a, b| a > b);
}

averages! {
    f32(acc, n) = acc / n as f32, |acc, next| acc + next;
    f64(acc, n) = acc / n as f64, |acc, next| acc + next;
}

macro_rules! integers {
    ($($type:ident by $divisor:ident;)*) => {$(
        folds! { $type:
            Sum(a, b) = a.wrapping_add(b);
            Prod(a, b) = a.wrapping_mul(b);
            Min(a, b) = if b < a { b } else { a };
            Max(a, b) = if b > a { b } else { a };
        }

        averages! {
            $type(acc, n) = {
                let n = n as $divisor;
                // SAFETY: a team has at least one rank, and far fewer than 2^31.
                unsafe { core::hint::assert_unchecked(n > 0) };
                (acc as $divisor / n) as $type
            }, $type::wrapping_add;
        }
    )*};
}

integers! {
    u8 by u32;
    i8 by i32;
    u32 by u32;
    i32 by i32;
    u64 by u64;
    i64 by i64;
}

/// One of two values by an order in which −0 is less than +0; NaN if either is NaN. PTX has no `min.NaN.f64`.
#[inline(always)]
fn f64_pick(a: f64, b: f64, is_before: impl Fn(i64, i64) -> bool) -> f64 {
    // As whole numbers, floats with the sign bit set are in the reverse order.
    let key = |value: f64| {
        let bits = value.to_bits() as i64;
        bits ^ ((bits >> 63) as u64 >> 1) as i64
    };
    let picked = if is_before(key(b), key(a)) { b } else { a };
    if a.is_nan() || b.is_nan() { f64::NAN } else { picked }
}
