//! Integer arithmetic (PTX ISA 9.7.1, 9.7.2).

use super::by_type;
use crate::sim::ptx::instruction::{BinaryFn, CarryOp, TernaryFn, UnaryFn};
use crate::sim::ptx::types::Type;

/// An integer type of PTX.
pub(crate) trait Integer: Copy + Ord {
    /// The type of twice the width.
    const BITS: u32;
    /// The low bits of a slot as a value.
    fn of(bits: u64) -> Self;
    /// The value, zero-extended.
    fn bits(self) -> u64;
    /// The value, exactly.
    fn wide(self) -> i128;
    /// The low bits of an exact value.
    fn wrap(value: i128) -> Self;
    /// Sum.
    fn plus(self, other: Self) -> Self;
    /// Difference.
    fn minus(self, other: Self) -> Self;
    /// Low half of the product.
    fn times(self, other: Self) -> Self;
    /// Quotient toward zero.
    fn over(self, other: Self) -> Option<Self>;
    /// Remainder with the sign of the dividend.
    fn modulo(self, other: Self) -> Option<Self>;
    /// The largest value.
    const MAX: Self;
    /// The smallest value.
    const MIN: Self;
}

macro_rules! integers {
    ($($t:ty => $unsigned:ty),*) => { $(
        impl Integer for $t {
            const BITS: u32 = <$t>::BITS;
            const MAX: Self = <$t>::MAX;
            const MIN: Self = <$t>::MIN;
            fn of(bits: u64) -> Self { bits as Self }
            fn bits(self) -> u64 { u64::from(self as $unsigned) }
            fn wide(self) -> i128 { i128::from(self) }
            fn wrap(value: i128) -> Self { value as Self }
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn over(self, other: Self) -> Option<Self> { (other != 0).then(|| self.wrapping_div(other)) }
            fn modulo(self, other: Self) -> Option<Self> { (other != 0).then(|| self.wrapping_rem(other)) }
        }
    )* };
}
integers!(u8 => u8, u16 => u16, u32 => u32, u64 => u64, i8 => u8, i16 => u16, i32 => u32, i64 => u64);

fn add<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).plus(T::of(b)).bits()
}

fn sub<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).minus(T::of(b)).bits()
}

fn clamp<T: Integer>(exact: i128) -> u64 {
    T::wrap(exact.clamp(T::MIN.wide(), T::MAX.wide())).bits()
}

fn add_sat<T: Integer>(a: u64, b: u64) -> u64 {
    clamp::<T>(T::of(a).wide() + T::of(b).wide())
}

fn sub_sat<T: Integer>(a: u64, b: u64) -> u64 {
    clamp::<T>(T::of(a).wide() - T::of(b).wide())
}

fn mul_lo<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).times(T::of(b)).bits()
}

/// The product's bits, exactly; a product of two u64 does not fit in an i128's positive half, its bits do.
fn product<T: Integer>(a: u64, b: u64) -> i128 {
    T::of(a).wide().wrapping_mul(T::of(b).wide())
}

fn mul_hi<T: Integer>(a: u64, b: u64) -> u64 {
    T::wrap(((product::<T>(a, b) as u128) >> T::BITS) as i128).bits()
}

fn mul_wide<T: Integer>(a: u64, b: u64) -> u64 {
    product::<T>(a, b) as u64 & width_mask(2 * T::BITS)
}

fn mad_lo<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    add::<T>(mul_lo::<T>(a, b), c)
}

fn mad_hi<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    add::<T>(mul_hi::<T>(a, b), c)
}

fn mad_hi_sat<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    add_sat::<T>(mul_hi::<T>(a, b), c)
}

fn mad_wide<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    mul_wide::<T>(a, b).wrapping_add(c) & width_mask(2 * T::BITS)
}

/// Division by zero gives all ones, as GPUs do; PTX leaves it unspecified.
fn div<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).over(T::of(b)).map_or(width_mask(T::BITS), T::bits)
}

/// The remainder of a division by zero is the dividend, as on GPUs; PTX leaves it unspecified.
fn rem<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).modulo(T::of(b)).unwrap_or(T::of(a)).bits()
}

fn min<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).min(T::of(b)).bits()
}

fn max<T: Integer>(a: u64, b: u64) -> u64 {
    T::of(a).max(T::of(b)).bits()
}

fn neg<T: Integer>(a: u64) -> u64 {
    T::wrap(-T::of(a).wide()).bits()
}

fn abs<T: Integer>(a: u64) -> u64 {
    T::wrap(T::of(a).wide().abs()).bits()
}

fn sad<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    let distance = (T::of(a).wide() - T::of(b).wide()).abs();
    T::wrap(T::of(c).wide() + distance).bits()
}

fn mul24_lo<T: Integer>(a: u64, b: u64) -> u64 {
    (product24::<T>(a, b) as u64) & width_mask(32)
}

fn mul24_hi<T: Integer>(a: u64, b: u64) -> u64 {
    ((product24::<T>(a, b) >> 16) as u64) & width_mask(32)
}

fn product24<T: Integer>(a: u64, b: u64) -> i128 {
    low24::<T>(a) * low24::<T>(b)
}

fn low24<T: Integer>(a: u64) -> i128 {
    let low = (a & 0xff_ffff) as i128;
    let is_negative = T::MIN.wide() < 0 && low >= 1 << 23;
    if is_negative { low - (1 << 24) } else { low }
}

fn width_mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Which part of a product an instruction keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `.lo`.
    Low,
    /// `.hi`.
    High,
    /// `.wide`.
    Wide,
}

macro_rules! any_integer {
    ($ty:expr, $function:ident) => {
        by_type!($ty, $function, [U16 => u16, U32 => u32, U64 => u64, S16 => i16, S32 => i32, S64 => i64])
    };
}

/// The function of a two-operand instruction; `saturate` is `.sat`.
pub(crate) fn binary(opcode: &str, ty: Type, saturate: bool) -> Option<BinaryFn> {
    let plain: Option<BinaryFn> = match (opcode, saturate) {
        ("add", false) => any_integer!(ty, add),
        ("sub", false) => any_integer!(ty, sub),
        ("add", true) => by_type!(ty, add_sat, [S32 => i32]),
        ("sub", true) => by_type!(ty, sub_sat, [S32 => i32]),
        ("div", false) => any_integer!(ty, div),
        ("rem", false) => any_integer!(ty, rem),
        ("min", false) => any_integer!(ty, min),
        ("max", false) => any_integer!(ty, max),
        _ => None,
    };
    plain
}

/// The function of `neg` or `abs`.
pub(crate) fn unary(opcode: &str, ty: Type) -> Option<UnaryFn> {
    match opcode {
        "neg" => by_type!(ty, neg, [S16 => i16, S32 => i32, S64 => i64]),
        "abs" => by_type!(ty, abs, [S16 => i16, S32 => i32, S64 => i64]),
        _ => None,
    }
}

/// The function of `mul`.
pub(crate) fn mul(part: Part, ty: Type) -> Option<BinaryFn> {
    match part {
        Part::Low => any_integer!(ty, mul_lo),
        Part::High => any_integer!(ty, mul_hi),
        Part::Wide => by_type!(ty, mul_wide, [U16 => u16, U32 => u32, S16 => i16, S32 => i32]),
    }
}

/// The function of `mul24`.
pub(crate) fn mul24(part: Part, ty: Type) -> Option<BinaryFn> {
    match part {
        Part::Low => by_type!(ty, mul24_lo, [U32 => u32, S32 => i32]),
        Part::High => by_type!(ty, mul24_hi, [U32 => u32, S32 => i32]),
        Part::Wide => None,
    }
}

/// The function of `mad`; `.sat` exists for `.hi.s32` only.
pub(crate) fn mad(part: Part, ty: Type, saturate: bool) -> Option<TernaryFn> {
    match (part, saturate) {
        (Part::Low, false) => any_integer!(ty, mad_lo),
        (Part::High, false) => any_integer!(ty, mad_hi),
        (Part::High, true) => by_type!(ty, mad_hi_sat, [S32 => i32]),
        (Part::Wide, false) => by_type!(ty, mad_wide, [U16 => u16, U32 => u32, S16 => i16, S32 => i32]),
        _ => None,
    }
}

/// The function of `sad`.
pub(crate) fn sad_of(ty: Type) -> Option<TernaryFn> {
    any_integer!(ty, sad)
}

/// `add.cc`, `addc`, `sub.cc`, `subc`: the result, and the flag for those that write it (PTX ISA 9.7.2).
pub(crate) fn carry(op: CarryOp, a: u64, b: u64, flag: u64) -> (u64, u64) {
    let bits = if op.is_64 { 64 } else { 32 };
    let flag_in = if op.carry_in { i128::from(flag & 1) } else { 0 };
    let (a, b) = (i128::from(a & width_mask(bits)), i128::from(b & width_mask(bits)));
    let exact = if op.subtract { a - b - flag_in } else { a + b + flag_in };
    let flag_out = u64::from(exact < 0 || exact >> bits != 0);
    (exact as u64 & width_mask(bits), flag_out)
}
