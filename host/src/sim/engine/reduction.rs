//! What `multimem.ld_reduce` and `multimem.red` compute (PTX ISA 9.7.9.14).

use crate::sim::interface::{ElementKind, Reduction, ReductionOp};
use crate::sim::ptx::alu::exact;
use crate::sim::ptx::alu::float::{Clamp, FloatOp, Operation, evaluate};
use crate::sim::ptx::alu::format::{BF16, F16, F32, F64, Format, Rounding};
use crate::sim::ptx::types::Type;

/// Joins elements of `width_bytes` in the order in which they are given; there is at least one.
pub(super) fn fold(reduction: Reduction, width_bytes: u8, values: impl Iterator<Item = u64> + Clone) -> u64 {
    let bits = element_bits(reduction.element).min(8 * u32::from(width_bytes));
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let n_parts = 8 * u32::from(width_bytes) / bits;
    let part = |part: u32| {
        let values = values.clone().map(|value| value >> (part * bits) & mask);
        (fold_part(reduction, bits, values) & mask) << (part * bits)
    };
    (0..n_parts).map(part).fold(0, |whole, part| whole | part)
}

/// An integer has the width of its access.
fn element_bits(element: ElementKind) -> u32 {
    match element {
        ElementKind::F16 | ElementKind::Bf16 => 16,
        ElementKind::F32 => 32,
        ElementKind::Unsigned | ElementKind::Signed | ElementKind::F64 => 64,
    }
}

fn fold_part(reduction: Reduction, bits: u32, values: impl Iterator<Item = u64>) -> u64 {
    let format = match reduction.element {
        ElementKind::F16 => F16,
        ElementKind::Bf16 => BF16,
        ElementKind::F32 => F32,
        ElementKind::F64 => F64,
        ElementKind::Unsigned | ElementKind::Signed => {
            let join = |a, b| integer(reduction, bits, a, b);
            return values.reduce(join).expect("a team has members");
        }
    };
    if reduction.op == ReductionOp::Add {
        let sum_in = if reduction.is_wide { F32 } else { format };
        return sum(format, sum_in, values);
    }
    values.reduce(|a, b| extremum(reduction, a, b)).expect("a team has members")
}

/// Adds in one format and rounds to another at the end.
fn sum(format: Format, sum_in: Format, values: impl Iterator<Item = u64>) -> u64 {
    let mut values = values.map(|value| format.unpack(value));
    let first = values.next().expect("a team has members");
    let total = values.fold(first, |total, value| {
        let total = exact::add(total, value, Rounding::Nearest);
        sum_in.unpack(sum_in.round(total, Rounding::Nearest))
    });
    format.round(total, Rounding::Nearest)
}

fn extremum(reduction: Reduction, a: u64, b: u64) -> u64 {
    let operation = if reduction.op == ReductionOp::Min { Operation::Min } else { Operation::Max };
    let ty = if reduction.element == ElementKind::F16 { Type::F16 } else { Type::Bf16 };
    let op = FloatOp {
        operation,
        ty,
        rounding: Rounding::Nearest,
        flush: false,
        clamp: Clamp::None,
        propagate_nan: false,
        xorsign: false,
    };
    evaluate(op, a, b, 0)
}

fn integer(reduction: Reduction, bits: u32, a: u64, b: u64) -> u64 {
    let is_signed = reduction.element == ElementKind::Signed;
    // Signed values are compared at the top of the word, where their sign is the word's.
    let key = |value: u64| {
        let top = value << (64 - bits);
        if is_signed { top ^ 1 << 63 } else { top }
    };
    match reduction.op {
        ReductionOp::Add => a.wrapping_add(b),
        ReductionOp::Min => {
            if key(b) < key(a) {
                b
            } else {
                a
            }
        }
        ReductionOp::Max => {
            if key(b) > key(a) {
                b
            } else {
                a
            }
        }
        ReductionOp::And => a & b,
        ReductionOp::Or => a | b,
        ReductionOp::Xor => a ^ b,
    }
}

#[cfg(test)]
mod tests {
    use super::{ElementKind, Reduction, ReductionOp, fold};
    use ElementKind::*;
    use ReductionOp::*;

    fn check(op: ReductionOp, element: ElementKind, width_bytes: u8, values: &[u64], expected: u64) {
        let reduction = Reduction { op, element, is_wide: false };
        let found = fold(reduction, width_bytes, values.iter().copied());
        assert_eq!(found, expected, "{op:?} {element:?} {values:x?}: {found:#x}");
    }

    #[test]
    fn integers_of_both_widths() {
        let minus_one = u64::from(u32::MAX);
        check(Add, Unsigned, 4, &[minus_one, 2, 3], 4);
        check(Add, Signed, 4, &[minus_one, minus_one], minus_one - 1);
        check(Add, Unsigned, 8, &[minus_one, 2], minus_one + 2);
        check(Min, Unsigned, 4, &[minus_one, 7, 9], 7);
        check(Min, Signed, 4, &[7, minus_one, 9], minus_one);
        check(Max, Signed, 4, &[minus_one, 7, 9], 9);
        check(Max, Unsigned, 4, &[minus_one, 7], minus_one);
        check(Min, Signed, 8, &[3, u64::MAX], u64::MAX);
        check(Max, Unsigned, 8, &[3, u64::MAX], u64::MAX);
        check(And, Unsigned, 4, &[6, 3], 2);
        check(Or, Unsigned, 8, &[6, 1 << 40], 6 | 1 << 40);
        check(Xor, Unsigned, 4, &[6, 3, 1], 4);
    }

    #[test]
    fn floats_alone_and_in_pairs() {
        let f32s = [1.5_f32, -4.0, 0.25].map(|value| u64::from(value.to_bits()));
        check(Add, F32, 4, &f32s, u64::from((-2.25_f32).to_bits()));
        check(Add, F64, 8, &[1.5_f64.to_bits(), 2.0_f64.to_bits()], 3.5_f64.to_bits());
        // f16: 1 and 2 are 0x3c00 and 0x4000, 3 is 0x4200; bf16: 0x3f80, 0x4000, 0x4040.
        check(Add, F16, 2, &[0x3c00, 0x4000], 0x4200);
        check(Add, F16, 4, &[0x4000_3c00, 0x3c00_4000], 0x4200_4200);
        check(Add, Bf16, 4, &[0x4000_3f80, 0x3f80_4000], 0x4040_4040);
        check(Min, F16, 4, &[0x4000_3c00, 0x3c00_4000], 0x3c00_3c00);
        check(Max, Bf16, 4, &[0x4000_3f80, 0x3f80_4000], 0x4000_4000);
        // Minus zero is below zero; a number wins over NaN, which is canonical.
        check(Min, F16, 2, &[0x0000, 0x8000], 0x8000);
        check(Max, F16, 2, &[0x7e01, 0x3c00], 0x3c00);
        check(Max, F16, 2, &[0x7e01, 0xfe01], 0x7fff);
        check(Add, F32, 4, &[0x7f80_0000, 0xff80_0000], 0x7fff_ffff);
    }

    #[test]
    fn a_wide_sum_is_rounded_once() {
        // 2048 + 1 + 1: f16 holds no odd number above 2048.
        let values = [0x6800, 0x3c00, 0x3c00];
        check(Add, F16, 2, &values, 0x6800);
        let wide = Reduction { op: Add, element: F16, is_wide: true };
        assert_eq!(fold(wide, 2, values.into_iter()), 0x6801);
    }
}
