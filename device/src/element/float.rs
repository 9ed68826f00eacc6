//! Floats of 2, 4 and 8 bytes. Every result that is NaN is the canonical one.

use super::{Element, Float, Unit};
use crate::ptx;

/// 64-bit float.
#[derive(Clone, Copy)]
pub struct F64;
/// 32-bit float.
#[derive(Clone, Copy)]
pub struct F32;
/// 16-bit float (binary16), accumulated in f32.
#[derive(Clone, Copy)]
pub struct F16;
/// Brain float, the upper half of an f32; accumulated in f32.
#[derive(Clone, Copy)]
pub struct Bf16;

impl Unit for F64 {
    const BYTES: u64 = 8;
}

impl Float for F64 {
    const NAN_WORD: u64 = 0x7fff_ffff_ffff_ffff;
}

impl Element for F64 {
    type Acc = f64;
    type Wide = f64;

    #[inline(always)]
    fn lift(word: u64) -> f64 {
        f64::from_bits(word)
    }

    #[inline(always)]
    fn lower(wide: f64) -> u64 {
        // Unlike those of f32, instructions on f64 keep the payloads of NaN.
        if wide.is_nan() { Self::NAN_WORD } else { wide.to_bits() }
    }

    #[inline(always)]
    fn zip(a: f64, b: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
        f(a, b)
    }

    #[inline(always)]
    fn map(a: f64, f: impl Fn(f64) -> f64) -> f64 {
        f(a)
    }
}

impl Unit for F32 {
    const BYTES: u64 = 4;
}

impl Float for F32 {
    const NAN_WORD: u64 = 0x7fff_ffff_7fff_ffff;
}

impl Element for F32 {
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

macro_rules! two_bytes {
    ($name:ident, $lift:expr, $lower:path) => {
        impl Unit for $name {
            const BYTES: u64 = 2;
        }

        impl Float for $name {
            const NAN_WORD: u64 = 0x7fff_7fff_7fff_7fff;
        }

        impl Element for $name {
            type Acc = f32;
            type Wide = [f32; 4];

            #[inline(always)]
            fn lift(word: u64) -> [f32; 4] {
                let lift = |shift: u32| $lift((word >> shift) as u16);
                [lift(0), lift(16), lift(32), lift(48)]
            }

            #[inline(always)]
            fn lower(wide: [f32; 4]) -> u64 {
                $lower(wide[1], wide[0]) as u64 | ($lower(wide[3], wide[2]) as u64) << 32
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

two_bytes!(F16, ptx::cvt_f32_f16, ptx::cvt_rn_f16x2_f32);
two_bytes!(Bf16, |bits: u16| f32::from_bits((bits as u32) << 16), ptx::cvt_rn_bf16x2_f32);
