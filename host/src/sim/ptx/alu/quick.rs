//! Short forms of the most frequent conversions and comparisons of floats.
//!
//! Each computes what [`super::convert`] or [`super::float`] computes for the same instruction, and the tests hold one
//! against the other.

use super::convert::Conversion;
use super::float::Clamp;
use super::format::{BF16, F16, F32, F64, Rounding};
use crate::sim::ptx::instruction::UnaryFn;
use crate::sim::ptx::types::Type;

fn f32_from_f16(a: u64) -> u64 {
    let magnitude = a as u32 & 0x7fff;
    let sign = (a as u32 & 0x8000) << 16;
    let bits = match magnitude {
        0x7c00 => 0x7f80_0000,
        0x7c01.. => return F32.nan,
        // The exponent's bias differs by 112; the product is exact, of subnormals too.
        _ => (f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23)).to_bits(),
    };
    u64::from(bits | sign)
}

fn f32_from_bf16(a: u64) -> u64 {
    let bits = (a as u32) << 16;
    if f32::from_bits(bits).is_nan() { F32.nan } else { bits.into() }
}

fn f16_from_f32(a: u64) -> u64 {
    let magnitude = a as u32 & 0x7fff_ffff;
    let sign = a >> 16 & 0x8000;
    let bits = match magnitude {
        0x7f80_0001.. => return F16.nan,
        // From 2^16 on.
        0x4780_0000.. => 0x7c00,
        // Below 2^-14: one unit of a sum with 0.5 is one unit of a subnormal.
        ..0x3880_0000 => (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits(),
        // Half a unit less one, and one more where the last bit that stays is odd; a carry goes into the exponent.
        _ => (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13,
    };
    u64::from(bits) | sign
}

fn bf16_from_f32(a: u64) -> u64 {
    let bits = a as u32;
    if f32::from_bits(bits).is_nan() { BF16.nan } else { u64::from((bits + 0x7fff + (bits >> 16 & 1)) >> 16) }
}

fn f64_from_f32(a: u64) -> u64 {
    let value = f64::from(f32::from_bits(a as u32));
    if value.is_nan() { F64.nan } else { value.to_bits() }
}

fn f32_from_f64(a: u64) -> u64 {
    let value = f64::from_bits(a) as f32;
    if value.is_nan() { F32.nan } else { value.to_bits().into() }
}

fn low<const BITS: u32>(a: u64) -> u64 {
    a & (u64::MAX >> (64 - BITS))
}

fn sign_extend<const FROM: u32, const TO: u32>(a: u64) -> u64 {
    low::<TO>(((a << (64 - FROM)) as i64 >> (64 - FROM)) as u64)
}

/// The short form of `conversion`, if it has one.
pub(crate) fn conversion(conversion: Conversion) -> Option<UnaryFn> {
    if conversion.flush || conversion.finite || conversion.to_integral || conversion.clamp != Clamp::None {
        return None;
    }
    let Conversion { to, from, .. } = conversion;
    if to.is_integer() && from.is_integer() {
        let fills_register = u32::from(conversion.register_bits) == to.bits();
        return if fills_register { integer(to, from) } else { None };
    }
    match (to, from) {
        (Type::F32, Type::F16) => Some(f32_from_f16),
        (Type::F32, Type::Bf16) => Some(f32_from_bf16),
        (Type::F64, Type::F32) => Some(f64_from_f32),
        _ if conversion.rounding != Rounding::Nearest => None,
        (Type::F16, Type::F32) => Some(f16_from_f32),
        (Type::Bf16, Type::F32) => Some(bf16_from_f32),
        (Type::F32, Type::F64) => Some(f32_from_f64),
        _ => None,
    }
}

fn integer(to: Type, from: Type) -> Option<UnaryFn> {
    if from.is_signed() && to.bits() > from.bits() {
        return match (from.bits(), to.bits()) {
            (8, 16) => Some(sign_extend::<8, 16>),
            (8, 32) => Some(sign_extend::<8, 32>),
            (8, 64) => Some(sign_extend::<8, 64>),
            (16, 32) => Some(sign_extend::<16, 32>),
            (16, 64) => Some(sign_extend::<16, 64>),
            (32, 64) => Some(sign_extend::<32, 64>),
            _ => None,
        };
    }
    match to.bits().min(from.bits()) {
        8 => Some(low::<8>),
        16 => Some(low::<16>),
        32 => Some(low::<32>),
        _ => Some(low::<64>),
    }
}

/// `min` or `max` of f32; `NAN`: a NaN operand gives NaN.
pub(crate) fn extremum_f32<const MAX: bool, const NAN: bool>(a: u64, b: u64) -> u64 {
    let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => F32.nan,
        (true, false) => {
            if NAN {
                F32.nan
            } else {
                low::<32>(b)
            }
        }
        (false, true) => {
            if NAN {
                F32.nan
            } else {
                low::<32>(a)
            }
        }
        // The total order puts −0 below +0.
        _ => low::<32>(if (x.total_cmp(&y).is_gt()) == MAX { a } else { b }),
    }
}
