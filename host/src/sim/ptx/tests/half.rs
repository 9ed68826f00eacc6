//! f16 and bf16 against the `half` crate: exhaustive in one operand.
//!
//! f32 holds sums and products of two halves well enough that rounding twice equals rounding once (24 ≥ 2·11 + 2 bits).

use super::snippet::{Snippet, check};
use crate::sim::ptx::alu::convert::{self, Conversion};
use crate::sim::ptx::alu::float::{Clamp, FloatOp, Operation, evaluate};
use crate::sim::ptx::alu::format::Rounding;
use crate::sim::ptx::alu::quick;
use crate::sim::ptx::types::Type;
use half::{bf16, f16};

const NAN: u64 = 0x7fff;

fn op(operation: Operation, ty: Type) -> FloatOp {
    FloatOp {
        operation,
        ty,
        rounding: Rounding::Nearest,
        flush: false,
        clamp: Clamp::None,
        propagate_nan: false,
        xorsign: false,
    }
}

fn cvt(to: Type, from: Type) -> Conversion {
    Conversion {
        to,
        from,
        rounding: Rounding::Nearest,
        to_integral: false,
        flush: false,
        clamp: Clamp::None,
        finite: false,
        register_bits: to.bits() as u8,
    }
}

/// The result of a conversion, by its short form too if it has one.
fn convert(conversion: Conversion, a: u64) -> u64 {
    let result = convert::convert(conversion, a, a);
    if let Some(short) = quick::conversion(conversion) {
        assert_eq!(short(a), result, "{conversion:?} of {a:#x}");
    }
    result
}

/// A half-precision type of the reference.
trait Reference: Copy {
    const TYPE: Type;
    fn of(bits: u16) -> Self;
    fn single(self) -> f32;
    fn round(value: f32) -> u16;
}

impl Reference for f16 {
    const TYPE: Type = Type::F16;
    fn of(bits: u16) -> Self {
        Self::from_bits(bits)
    }
    fn single(self) -> f32 {
        self.to_f32()
    }
    fn round(value: f32) -> u16 {
        Self::from_f32(value).to_bits()
    }
}

impl Reference for bf16 {
    const TYPE: Type = Type::Bf16;
    fn of(bits: u16) -> Self {
        Self::from_bits(bits)
    }
    fn single(self) -> f32 {
        self.to_f32()
    }
    fn round(value: f32) -> u16 {
        Self::from_f32(value).to_bits()
    }
}

/// An f32 from which a half rounds as from `value` itself: of the two neighbours the one with an odd last bit.
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) == value || nearest.to_bits() & 1 == 1 {
        return nearest;
    }
    if f64::from(nearest) < value { nearest.next_up() } else { nearest.next_down() }
}

fn canonical<T: Reference>(value: f32) -> u64 {
    if value.is_nan() { NAN } else { T::round(value).into() }
}

/// Every value with partners that hit zeros, subnormals, ties, overflow, infinities and NaN.
fn all_against_partners<T: Reference>(partners: &[u16]) {
    for (a, &b) in (0..=u16::MAX).flat_map(|a| partners.iter().map(move |b| (a, b))) {
        let (x, y) = (T::of(a).single(), T::of(b).single());
        for (operation, exact) in [
            (Operation::Add, x + y),
            (Operation::Sub, x - y),
            (Operation::Mul, x * y),
            (Operation::Div, x / y),
        ] {
            let found = evaluate(op(operation, T::TYPE), a.into(), b.into(), 0);
            assert_eq!(found, canonical::<T>(exact), "{operation:?} {a:#x} {b:#x}");
        }
    }
}

#[test]
fn f16_arithmetic() {
    all_against_partners::<f16>(&[0, 0x8001, 0x03ff, 0x1400, 0x3c01, 0xbc00, 0x57f5, 0x7bff, 0xfc00, 0x7e00]);
}

#[test]
fn bf16_arithmetic() {
    all_against_partners::<bf16>(&[
        0, 0x8001, 0x007f, 0x3381, 0x3f81, 0xbf80, 0x4b7f, 0x7f7f, 0xff80, 0x7fc0,
    ]);
}

/// The product is exact in f64; where the sum is too, one rounding of it is the result.
fn fused<T: Reference>(step: usize) {
    let values = || (0..=u16::MAX).step_by(step);
    let mut checked = 0;
    for (a, b) in values().flat_map(|a| values().map(move |b| (a, b))) {
        let c = (a ^ b.rotate_left(3)).wrapping_mul(0x9e37);
        let [x, y, z] = [a, b, c].map(|bits| f64::from(T::of(bits).single()));
        let sum = x * y + z;
        if sum.is_nan() || sum - x * y != z || sum - z != x * y {
            continue;
        }
        checked += 1;
        let found = evaluate(op(Operation::Fma, T::TYPE), a.into(), b.into(), c.into());
        assert_eq!(found, u64::from(T::round(round_to_odd(sum))), "{a:#x} {b:#x} {c:#x}");
    }
    assert!(checked > 1000, "{checked}");
}

#[test]
fn fused_multiply_add() {
    fused::<f16>(331);
    fused::<bf16>(331);
}

/// Every value of a half type to f32 and f64 and back.
fn widen<T: Reference>() {
    for bits in 0..=u16::MAX {
        let value = T::of(bits).single();
        let found = convert(cvt(Type::F32, T::TYPE), bits.into());
        let expected = if value.is_nan() { 0x7fff_ffff } else { value.to_bits() };
        assert_eq!(found, u64::from(expected), "{bits:#x}");
        let double = convert(cvt(Type::F64, T::TYPE), bits.into());
        assert!(value.is_nan() || f64::from_bits(double) == f64::from(value), "{bits:#x}");
        let back = convert(cvt(T::TYPE, Type::F32), found);
        assert_eq!(back, if value.is_nan() { NAN } else { bits.into() }, "{bits:#x}");
    }
}

/// f32 values at, just below and just above each midpoint between neighbours.
fn narrow<T: Reference>() {
    for bits in (0..=u16::MAX).filter(|bits| T::of(*bits).single().is_finite()) {
        let next = T::of(bits.wrapping_add(1)).single();
        let middle = T::of(bits).single() / 2.0 + if next.is_finite() { next / 2.0 } else { 0.0 };
        for value in [middle.next_down(), middle, middle.next_up()] {
            let found = convert(cvt(T::TYPE, Type::F32), value.to_bits().into());
            assert_eq!(found, u64::from(T::round(value)), "{value:e} beside {bits:#x}");
            let double = f64::from(value).next_up();
            let found = convert(cvt(T::TYPE, Type::F64), double.to_bits());
            assert_eq!(found, u64::from(T::round(round_to_odd(double))), "{double:e} beside {bits:#x}");
        }
    }
}

#[test]
fn f16_conversions() {
    widen::<f16>();
    narrow::<f16>();
}

#[test]
fn bf16_conversions() {
    widen::<bf16>();
    narrow::<bf16>();
}

#[test]
fn packed_and_modified() {
    check(&[
        ("add.f16 %h0, %h1, %h2", &[0x3c00, 0x3c00], 0x4000),
        ("add.rn.f16x2 %r0, %r1, %r2", &[0x3c00_4000, 0x3c00_bc00], 0x4000_3c00),
        ("add.bf16 %h0, %h1, %h2", &[0x3f80, 0x3f80], 0x4000),
        ("sub.bf16x2 %r0, %r1, %r2", &[0x4000_3f80, 0x3f80_3f80], 0x3f80_0000),
        ("mul.f16x2 %r0, %r1, %r2", &[0x4000_7bff, 0x4200_4000], 0x4600_7c00),
        ("fma.rn.bf16x2 %r0, %r1, %r2, %r3", &[0x4000_4000, 0x4000_3f80, 0x3f80_bf80], 0x40a0_3f80),
        ("fma.rn.relu.f16 %h0, %h1, %h2, %h3", &[0xbc00, 0x3c00, 0], 0),
        ("fma.rn.relu.f16 %h0, %h1, %h2, %h3", &[0xfe00, 0x3c00, 0], NAN),
        ("add.sat.f16 %h0, %h1, %h2", &[0x3c00, 0x3c00], 0x3c00),
        ("add.ftz.f16 %h0, %h1, %h2", &[1, 1], 0),
        ("min.f16x2 %r0, %r1, %r2", &[0x3c00_7e00, 0x4000_3c00], 0x3c00_3c00),
        ("max.NaN.bf16x2 %r0, %r1, %r2", &[0x3f80_7fc1, 0x4000_3f80], 0x4000_7fff),
        ("max.bf16 %h0, %h1, %h2", &[0x8000, 0], 0),
        ("neg.f16 %h0, %h1", &[0x3c00], 0xbc00),
        ("abs.bf16x2 %r0, %r1", &[0xbf80_c000], 0x3f80_4000),
    ]);
    let packed = Snippet::new("neg.f16x2 %r0, %r1");
    assert_eq!(packed.run(&[0x3c00_0000]), 0xbc00_8000);
}
