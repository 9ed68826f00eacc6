//! Floats of 1 byte, accumulated in f32. Results saturate: what is too large, infinity included, becomes the largest
//! finite value. Their conversions need sm_89.

use super::{Element, Float, Unit};
use crate::ptx;

/// 4 bits of exponent, 3 of mantissa; no infinity.
#[derive(Clone, Copy)]
pub struct E4m3;
/// 5 bits of exponent, 2 of mantissa.
#[derive(Clone, Copy)]
pub struct E5m2;

macro_rules! one_byte {
    ($name:ident, $widen:path, $lower:path) => {
        impl Unit for $name {
            const BYTES: u64 = 1;
        }

        impl Float for $name {
            const NAN_WORD: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        }

        impl Element for $name {
            type Acc = f32;
            type Wide = [f32; 8];

            #[inline(always)]
            fn lift(word: u64) -> [f32; 8] {
                let pair = |shift: u32| $widen((word >> shift) as u16);
                let [a, b, c, d] = [pair(0), pair(16), pair(32), pair(48)];
                let low = |pair: u32| ptx::cvt_f32_f16(pair as u16);
                let high = |pair: u32| ptx::cvt_f32_f16((pair >> 16) as u16);
                [low(a), high(a), low(b), high(b), low(c), high(c), low(d), high(d)]
            }

            #[inline(always)]
            fn lower(wide: [f32; 8]) -> u64 {
                let pair = |n: usize| ($lower(wide[2 * n + 1], wide[2 * n]) as u64) << (16 * n);
                pair(0) | pair(1) | pair(2) | pair(3)
            }

            #[inline(always)]
            fn zip(a: [f32; 8], b: [f32; 8], f: impl Fn(f32, f32) -> f32) -> [f32; 8] {
                let f = |n: usize| f(a[n], b[n]);
                [f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)]
            }

            #[inline(always)]
            fn map(a: [f32; 8], f: impl Fn(f32) -> f32) -> [f32; 8] {
                [f(a[0]), f(a[1]), f(a[2]), f(a[3]), f(a[4]), f(a[5]), f(a[6]), f(a[7])]
            }
        }
    };
}

one_byte!(E4m3, ptx::cvt_rn_f16x2_e4m3x2, ptx::cvt_rn_satfinite_e4m3x2_f32);
one_byte!(E5m2, ptx::cvt_rn_f16x2_e5m2x2, ptx::cvt_rn_satfinite_e5m2x2_f32);
