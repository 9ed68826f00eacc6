//! What `atom` and `red` write (PTX ISA 9.7.13.5).

use crate::sim::interface::{AtomicOp, Fault};

/// The NaN that PTX arithmetic gives (PTX ISA 9.7.3).
const CANONICAL_NAN: u32 = 0x7fff_ffff;

/// The function from what is there to what is written, for elements of `width_bytes`.
///
/// # Errors
///
/// A fault for a width that the operation does not have.
pub(crate) fn update(
    op: AtomicOp,
    width_bytes: u8,
    operand: u64,
    second: u64,
) -> Result<impl Fn(u64) -> u64, Fault> {
    let plain = matches!(op, AtomicOp::Exchange | AtomicOp::CompareSwap);
    let fits = match width_bytes {
        4 => true,
        8 => op != AtomicOp::AddF32,
        2 => plain,
        _ => false,
    };
    if !fits {
        return Err(Fault::Other(format!("no atomic {op:?} of {width_bytes} bytes")));
    }
    Ok(move |old: u64| apply(op, width_bytes, old, operand, second))
}

fn apply(op: AtomicOp, width_bytes: u8, old: u64, operand: u64, second: u64) -> u64 {
    let signed = |value: u64| if width_bytes == 4 { i64::from(value as i32) } else { value as i64 };
    match op {
        AtomicOp::Add => old.wrapping_add(operand),
        AtomicOp::AddF32 => {
            let sum = f32::from_bits(old as u32) + f32::from_bits(operand as u32);
            u64::from(if sum.is_nan() { CANONICAL_NAN } else { sum.to_bits() })
        }
        AtomicOp::Exchange => operand,
        AtomicOp::CompareSwap if old == operand => second,
        AtomicOp::CompareSwap => old,
        AtomicOp::And => old & operand,
        AtomicOp::Or => old | operand,
        AtomicOp::Xor => old ^ operand,
        AtomicOp::MinUnsigned => old.min(operand),
        AtomicOp::MaxUnsigned => old.max(operand),
        AtomicOp::MinSigned => signed(old).min(signed(operand)) as u64,
        AtomicOp::MaxSigned => signed(old).max(signed(operand)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation() {
        let minus_one = u64::from(u32::MAX);
        let check = |op, width, (old, operand, second), expect: u64| {
            let mask = if width == 8 { u64::MAX } else { (1_u64 << (8 * width)) - 1 };
            assert_eq!(update(op, width, operand, second).unwrap()(old) & mask, expect, "{op:?}");
        };
        check(AtomicOp::Add, 4, (minus_one, 2, 0), 1);
        check(AtomicOp::Add, 8, (minus_one, 2, 0), minus_one + 2);
        check(
            AtomicOp::AddF32,
            4,
            (1.5_f32.to_bits().into(), 2.0_f32.to_bits().into(), 0),
            3.5_f32.to_bits().into(),
        );
        check(
            AtomicOp::AddF32,
            4,
            (f32::INFINITY.to_bits().into(), f32::NEG_INFINITY.to_bits().into(), 0),
            0x7fff_ffff,
        );
        check(AtomicOp::Exchange, 2, (1, 9, 0), 9);
        check(AtomicOp::CompareSwap, 4, (1, 1, 7), 7);
        check(AtomicOp::CompareSwap, 4, (2, 1, 7), 2);
        check(AtomicOp::And, 4, (6, 3, 0), 2);
        check(AtomicOp::Or, 4, (6, 3, 0), 7);
        check(AtomicOp::Xor, 4, (6, 3, 0), 5);
        check(AtomicOp::MinUnsigned, 4, (minus_one, 3, 0), 3);
        check(AtomicOp::MaxUnsigned, 4, (minus_one, 3, 0), minus_one);
        check(AtomicOp::MinSigned, 4, (minus_one, 3, 0), minus_one);
        check(AtomicOp::MaxSigned, 4, (minus_one, 3, 0), 3);
    }

    #[test]
    fn refuses_widths_that_do_not_exist() {
        assert!(update(AtomicOp::Add, 2, 0, 0).is_err());
        assert!(update(AtomicOp::AddF32, 8, 0, 0).is_err());
        assert!(update(AtomicOp::Exchange, 16, 0, 0).is_err());
    }
}
