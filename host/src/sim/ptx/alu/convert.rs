//! `cvt` (PTX ISA 9.7.9.21).

use super::float::{Clamp, clamped, format_of};
use super::format::{E4M3, E5M2, F32, Format, Rounding, TF32, Value, round_shifted};
use crate::sim::ptx::types::Type;

/// A conversion with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Destination type.
    pub to: Type,
    /// Source type.
    pub from: Type,
    /// Rounding mode, to the destination's format or, if `to_integral`, to an integer.
    pub rounding: Rounding,
    /// `.rni` and its kin: the result is integral.
    pub to_integral: bool,
    /// `.ftz`: f32 subnormals become zero.
    pub flush: bool,
    /// `.sat` or `.relu`; for an integer destination `.sat` clamps to its range.
    pub clamp: Clamp,
    /// `.satfinite`: what is too large becomes the largest finite value.
    pub finite: bool,
    /// Bits of the destination register, to which a narrower result is extended.
    pub register_bits: u8,
}

/// The result of a conversion; `b` is the low half's source of a packed one from two sources.
pub(crate) fn convert(conversion: Conversion, a: u64, b: u64) -> u64 {
    match (conversion.to, conversion.from) {
        (Type::F16x2 | Type::Bf16x2 | Type::E4m3x2 | Type::E5m2x2, _) => packed(conversion, a, b),
        (to, from) if format_to(to).is_none() && format_of(from).is_none() => {
            integer_to_integer(conversion, a)
        }
        (to, _) if format_to(to).is_none() => float_to_integer(conversion, a),
        (_, from) if format_of(from).is_none() => integer_to_float(conversion, a),
        _ => float_to_float(conversion, a),
    }
}

fn format_to(ty: Type) -> Option<Format> {
    match ty {
        Type::Tf32 => Some(TF32),
        Type::E4m3x2 => Some(E4M3),
        Type::E5m2x2 => Some(E5M2),
        _ => format_of(ty),
    }
}

/// The value of the low bits of an integer type.
fn integer_of(ty: Type, bits: u64) -> i128 {
    let low = bits & ty.mask();
    let is_negative = ty.is_signed() && low >> (ty.bits() - 1) == 1;
    i128::from(low) - if is_negative { 1 << ty.bits() } else { 0 }
}

/// Smallest and largest value of an integer type.
fn range(ty: Type) -> (i128, i128) {
    if ty.is_signed() {
        (-1 << (ty.bits() - 1), (1 << (ty.bits() - 1)) - 1)
    } else {
        (0, (1 << ty.bits()) - 1)
    }
}

/// An integer of type `to` in a register that may be wider.
fn extended(conversion: Conversion, value: i128) -> u64 {
    let value = integer_of(conversion.to, value as u64);
    let register_mask =
        if conversion.register_bits >= 64 { u64::MAX } else { (1 << conversion.register_bits) - 1 };
    value as u64 & register_mask
}

fn integer_to_integer(conversion: Conversion, a: u64) -> u64 {
    let value = integer_of(conversion.from, a);
    let (low, high) = range(conversion.to);
    extended(conversion, if conversion.clamp == Clamp::Unit { value.clamp(low, high) } else { value })
}

fn source(conversion: Conversion, a: u64) -> Value {
    let Some(format) = format_of(conversion.from) else {
        return Value::of_integer(integer_of(conversion.from, a));
    };
    let bits = a & conversion.from.mask();
    format.unpack(if conversion.flush && conversion.from == Type::F32 { format.flush(bits) } else { bits })
}

/// NaN gives 0, or the top bit where a 64-bit type takes part; the range clamps (PTX ISA 9.7.9.21, notes).
fn float_to_integer(conversion: Conversion, a: u64) -> u64 {
    let (low, high) = range(conversion.to);
    let value = match source(conversion, a) {
        Value::Nan if conversion.from == Type::F64 || conversion.to.bits() == 64 => {
            1 << (conversion.to.bits() - 1)
        }
        Value::Nan => 0,
        Value::Infinite { negative } => {
            if negative {
                low
            } else {
                high
            }
        }
        Value::Finite { significand: 0, .. } => 0,
        Value::Finite { negative, significand, exponent } => {
            // 2^66 is outside every range, and the shift stays inside 128 bits.
            let is_huge = exponent + 127 - significand.leading_zeros() as i32 > 66;
            let magnitude = if is_huge {
                1 << 66
            } else {
                round_shifted(significand, -exponent, negative, conversion.rounding) as i128
            };
            (if negative { -magnitude } else { magnitude }).clamp(low, high)
        }
    };
    extended(conversion, value)
}

fn integer_to_float(conversion: Conversion, a: u64) -> u64 {
    finish(conversion, source(conversion, a))
}

fn float_to_float(conversion: Conversion, a: u64) -> u64 {
    let value = source(conversion, a);
    finish(conversion, if conversion.to_integral { integral(value, conversion.rounding) } else { value })
}

/// The value rounded to an integer, as a value.
fn integral(value: Value, rounding: Rounding) -> Value {
    match value {
        Value::Finite { negative, significand, exponent } if exponent < 0 => {
            let significand = round_shifted(significand, -exponent, negative, rounding);
            Value::Finite { negative, significand, exponent: 0 }
        }
        other => other,
    }
}

/// Rounds to the destination's format and applies the modifiers.
fn finish(conversion: Conversion, value: Value) -> u64 {
    let format = format_to(conversion.to).unwrap_or(F32);
    let mut bits = format.round(value, conversion.rounding);
    if conversion.finite && bits & (format.sign() - 1) == format.max_finite + 1 && value != Value::Nan {
        bits = bits & format.sign() | format.max_finite;
    }
    if conversion.flush && conversion.to == Type::F32 {
        bits = format.flush(bits);
    }
    let bits = clamped(conversion.clamp, &format, bits);
    if conversion.to == Type::Tf32 { bits << 13 } else { bits }
}

/// Packed conversions. `a` is the source of the high half where there are two sources.
fn packed(conversion: Conversion, a: u64, b: u64) -> u64 {
    let half_bits = conversion.to.bits() / 2;
    let (high, low) = match conversion.from {
        Type::F32 => (source(conversion, a), source(conversion, b)),
        Type::E4m3x2 => (E4M3.unpack(a >> 8 & 0xff), E4M3.unpack(a & 0xff)),
        Type::E5m2x2 => (E5M2.unpack(a >> 8 & 0xff), E5M2.unpack(a & 0xff)),
        from => {
            let format = format_of(from).unwrap_or(F32);
            (format.unpack(a >> 16 & 0xffff), format.unpack(a & 0xffff))
        }
    };
    finish(conversion, high) << half_bits | finish(conversion, low)
}
