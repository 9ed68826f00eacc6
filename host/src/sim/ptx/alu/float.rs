//! Floating-point arithmetic (PTX ISA 9.7.3–9.7.5).
//!
//! The common case, f32 and f64 rounded to nearest, uses the host's arithmetic, which is IEEE 754 too. Everything else
//! goes through [`super::exact`]. NaN results are canonical. Approximate instructions give correctly rounded results
//! (division, roots) or results of the host's f64 library, rounded: within the bounds that PTX states.

use super::exact;
use super::format::{BF16, F16, F32, F64, Format, Rounding, Value};
use super::quick::extremum_f32;
use crate::sim::ptx::instruction::{BinaryFn, TernaryFn, UnaryFn};
use crate::sim::ptx::types::Type;

/// A floating-point instruction with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatOp {
    /// What it computes.
    pub operation: Operation,
    /// `F16`, `F16x2`, `Bf16`, `Bf16x2`, `F32` or `F64`.
    pub ty: Type,
    /// Rounding mode.
    pub rounding: Rounding,
    /// Subnormal operands and results become zero.
    pub flush: bool,
    /// What happens to the result.
    pub clamp: Clamp,
    /// `min` and `max`: a NaN operand gives NaN.
    pub propagate_nan: bool,
    /// `min` and `max`: of the magnitudes, with the exclusive or of the signs.
    pub xorsign: bool,
}

/// What becomes of a result at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clamp {
    /// Nothing.
    None,
    /// `.sat`: into [0, 1], NaN to 0.
    Unit,
    /// `.relu`: negative results to 0.
    Relu,
}

/// Operation of a [`FloatOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Rcp,
    Sqrt,
    Rsqrt,
    Neg,
    Abs,
    Min,
    Max,
    Ex2,
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// The format of one element.
pub(crate) fn format_of(ty: Type) -> Option<Format> {
    match ty {
        Type::F16 | Type::F16x2 => Some(F16),
        Type::Bf16 | Type::Bf16x2 => Some(BF16),
        Type::F32 => Some(F32),
        Type::F64 => Some(F64),
        _ => None,
    }
}

/// The result of `op`; a packed type works on both halves.
pub(crate) fn evaluate(op: FloatOp, a: u64, b: u64, c: u64) -> u64 {
    let format = match op.ty {
        Type::F16 | Type::F16x2 => F16,
        Type::Bf16 | Type::Bf16x2 => BF16,
        Type::F64 => F64,
        _ => F32,
    };
    if !matches!(op.ty, Type::F16x2 | Type::Bf16x2) {
        return element(op, &format, a, b, c);
    }
    let low = element(op, &format, a & 0xffff, b & 0xffff, c & 0xffff);
    let high = element(op, &format, a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff);
    high << 16 | low
}

fn element(op: FloatOp, format: &Format, a: u64, b: u64, c: u64) -> u64 {
    let input = |bits| if op.flush { format.flush(bits) } else { bits };
    let (a, b, c) = (input(a), input(b), input(c));
    let bits = match op.operation {
        Operation::Min => extremum(op, format, a, b, true),
        Operation::Max => extremum(op, format, a, b, false),
        _ => format.round(compute(op, format, a, b, c), op.rounding),
    };
    clamp(op.clamp, format, if op.flush { format.flush(bits) } else { bits })
}

fn compute(op: FloatOp, format: &Format, a: u64, b: u64, c: u64) -> Value {
    let (x, y, z) = (format.unpack(a), format.unpack(b), format.unpack(c));
    let one = Value::of_integer(1);
    match op.operation {
        Operation::Add => exact::add(x, y, op.rounding),
        Operation::Sub => exact::add(x, y.negated(), op.rounding),
        Operation::Mul => exact::mul(x, y),
        Operation::Fma => exact::fma(x, y, z, op.rounding),
        Operation::Div => exact::div(x, y),
        Operation::Rcp => exact::div(one, x),
        Operation::Sqrt => exact::sqrt(x),
        Operation::Rsqrt => reciprocal_root(x),
        Operation::Neg => x.negated(),
        Operation::Abs if x.is_negative() => x.negated(),
        Operation::Abs | Operation::Min | Operation::Max => x,
        Operation::Ex2 => through_f64(x, f64::exp2),
        Operation::Lg2 => through_f64(x, f64::log2),
        Operation::Sin => through_f64(x, f64::sin),
        Operation::Cos => through_f64(x, f64::cos),
        Operation::Tanh => through_f64(x, f64::tanh),
    }
}

/// 1/√x; of −0 it is −∞.
fn reciprocal_root(x: Value) -> Value {
    exact::div(Value::of_integer(1), round_to_f64(exact::sqrt(x)))
}

fn round_to_f64(x: Value) -> Value {
    F64.unpack(F64.round(x, Rounding::Nearest))
}

fn through_f64(x: Value, function: fn(f64) -> f64) -> Value {
    let x = f64::from_bits(F64.round(x, Rounding::Nearest));
    F64.unpack(function(x).to_bits())
}

/// `min` and `max`: −0 is below +0.
fn extremum(op: FloatOp, format: &Format, a: u64, b: u64, smallest: bool) -> u64 {
    let sign = format.sign();
    let (x, y) = if op.xorsign { (a & !sign, b & !sign) } else { (a, b) };
    let bits = match (format.unpack(x), format.unpack(y)) {
        (Value::Nan, Value::Nan) => return format.nan,
        (Value::Nan, _) | (_, Value::Nan) if op.propagate_nan => return format.nan,
        (Value::Nan, _) => y,
        (_, Value::Nan) => x,
        _ => {
            let x_is_less = order_key(format, x) < order_key(format, y);
            if x_is_less == smallest { x } else { y }
        }
    };
    if op.xorsign { (bits & !sign) | ((a ^ b) & sign) } else { bits }
}

/// Orders the bit patterns of numbers as the numbers are ordered.
fn order_key(format: &Format, bits: u64) -> i128 {
    let magnitude = i128::from(bits & (format.sign() - 1));
    if bits & format.sign() == 0 { magnitude } else { -1 - magnitude }
}

fn clamp(clamp: Clamp, format: &Format, bits: u64) -> u64 {
    let is_nan = format.unpack(bits) == Value::Nan;
    let is_negative = bits & format.sign() != 0;
    let one = format.round(Value::of_integer(1), Rounding::Nearest);
    match clamp {
        Clamp::Unit if is_nan || is_negative => 0,
        Clamp::Unit => bits.min(one),
        Clamp::Relu if !is_nan && is_negative => 0,
        _ => bits,
    }
}

/// Applies [`Clamp`] to a result of `format`.
pub(crate) fn clamped(how: Clamp, format: &Format, bits: u64) -> u64 {
    clamp(how, format, bits)
}

fn f32_bits(value: f32) -> u64 {
    if value.is_nan() { F32.nan } else { value.to_bits().into() }
}

fn f64_bits(value: f64) -> u64 {
    if value.is_nan() { F64.nan } else { value.to_bits() }
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn add_f32(a: u64, b: u64) -> u64 {
    f32_bits(f32_of(a) + f32_of(b))
}

fn sub_f32(a: u64, b: u64) -> u64 {
    f32_bits(f32_of(a) - f32_of(b))
}

fn mul_f32(a: u64, b: u64) -> u64 {
    f32_bits(f32_of(a) * f32_of(b))
}

fn div_f32(a: u64, b: u64) -> u64 {
    f32_bits(f32_of(a) / f32_of(b))
}

fn fma_f32(a: u64, b: u64, c: u64) -> u64 {
    f32_bits(f32_of(a).mul_add(f32_of(b), f32_of(c)))
}

fn sqrt_f32(a: u64) -> u64 {
    f32_bits(f32_of(a).sqrt())
}

fn add_f64(a: u64, b: u64) -> u64 {
    f64_bits(f64::from_bits(a) + f64::from_bits(b))
}

fn sub_f64(a: u64, b: u64) -> u64 {
    f64_bits(f64::from_bits(a) - f64::from_bits(b))
}

fn mul_f64(a: u64, b: u64) -> u64 {
    f64_bits(f64::from_bits(a) * f64::from_bits(b))
}

fn div_f64(a: u64, b: u64) -> u64 {
    f64_bits(f64::from_bits(a) / f64::from_bits(b))
}

fn fma_f64(a: u64, b: u64, c: u64) -> u64 {
    f64_bits(f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)))
}

fn sqrt_f64(a: u64) -> u64 {
    f64_bits(f64::from_bits(a).sqrt())
}

/// The fast form of a [`FloatOp`], where there is one.
pub(crate) enum Fast {
    Unary(UnaryFn),
    Binary(BinaryFn),
    Ternary(TernaryFn),
}

/// The host's own arithmetic for `op`, if it computes the same.
pub(crate) fn fast(op: FloatOp) -> Option<Fast> {
    if op.rounding != Rounding::Nearest || op.flush || op.clamp != Clamp::None {
        return None;
    }
    if op.ty == Type::F32 && !op.xorsign {
        match (op.operation, op.propagate_nan) {
            (Operation::Min, false) => return Some(Fast::Binary(extremum_f32::<false, false>)),
            (Operation::Min, true) => return Some(Fast::Binary(extremum_f32::<false, true>)),
            (Operation::Max, false) => return Some(Fast::Binary(extremum_f32::<true, false>)),
            (Operation::Max, true) => return Some(Fast::Binary(extremum_f32::<true, true>)),
            _ => {}
        }
    }
    Some(match (op.operation, op.ty) {
        (Operation::Add, Type::F32) => Fast::Binary(add_f32),
        (Operation::Sub, Type::F32) => Fast::Binary(sub_f32),
        (Operation::Mul, Type::F32) => Fast::Binary(mul_f32),
        (Operation::Div, Type::F32) => Fast::Binary(div_f32),
        (Operation::Fma, Type::F32) => Fast::Ternary(fma_f32),
        (Operation::Sqrt, Type::F32) => Fast::Unary(sqrt_f32),
        (Operation::Add, Type::F64) => Fast::Binary(add_f64),
        (Operation::Sub, Type::F64) => Fast::Binary(sub_f64),
        (Operation::Mul, Type::F64) => Fast::Binary(mul_f64),
        (Operation::Div, Type::F64) => Fast::Binary(div_f64),
        (Operation::Fma, Type::F64) => Fast::Ternary(fma_f64),
        (Operation::Sqrt, Type::F64) => Fast::Unary(sqrt_f64),
        _ => return None,
    })
}
