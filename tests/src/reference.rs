//! Collectives on the CPU, on elements as they lie in memory.
//!
//! The rules that every algorithm of the library keeps: the fold starts with rank 0's value, then 1…n−1; narrow floats
//! accumulate in f32 and round once; avg divides the f32 sum and then rounds; a NaN result is the canonical NaN; min and
//! max give NaN if any is NaN and order −0 before +0.

use half::{bf16, f16};
use symmem::{Dtype, Op};

/// The result of an all-reduce of one input per rank, all equally long.
pub fn all_reduce(dtype: Dtype, op: Op, inputs: &[Vec<u8>]) -> Vec<u8> {
    let bytes = dtype.bytes() as usize;
    let n_elements = inputs[0].len() / bytes;
    let element = |at: usize| {
        let mut values = inputs.iter().map(|input| lift(dtype, &input[at * bytes..][..bytes]));
        let first = values.next().expect("a communicator has a rank");
        finish(op, values.fold(first, |acc, next| fold(op, acc, next)), inputs.len())
    };
    (0..n_elements).flat_map(|at| lower(dtype, element(at))).collect()
}

/// The result of an all-gather of one share per rank.
pub fn all_gather(inputs: &[Vec<u8>]) -> Vec<u8> {
    inputs.concat()
}

fn lift(dtype: Dtype, bytes: &[u8]) -> f32 {
    match dtype {
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().expect("4 bytes")),
        Dtype::F16 => f16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32(),
        Dtype::Bf16 => bf16::from_le_bytes(bytes.try_into().expect("2 bytes")).to_f32(),
    }
}

fn fold(op: Op, acc: f32, next: f32) -> f32 {
    match op {
        Op::Sum | Op::Avg => acc + next,
        Op::Prod => acc * next,
        Op::Min | Op::Max if acc.is_nan() || next.is_nan() => f32::NAN,
        Op::Min => [acc, next].into_iter().min_by(f32::total_cmp).expect("two values"),
        Op::Max => [acc, next].into_iter().max_by(f32::total_cmp).expect("two values"),
    }
}

fn finish(op: Op, acc: f32, n_ranks: usize) -> f32 {
    if op == Op::Avg { acc / n_ranks as f32 } else { acc }
}

fn lower(dtype: Dtype, value: f32) -> Vec<u8> {
    match (dtype, value.is_nan()) {
        (Dtype::F32, true) => 0x7fff_ffffu32.to_le_bytes().into(),
        (Dtype::F16 | Dtype::Bf16, true) => 0x7fffu16.to_le_bytes().into(),
        (Dtype::F32, false) => value.to_le_bytes().into(),
        (Dtype::F16, false) => f16::from_f32(value).to_le_bytes().into(),
        (Dtype::Bf16, false) => bf16::from_f32(value).to_le_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(op: Op, values: &[u32]) -> u32 {
        let inputs: Vec<Vec<u8>> = values.iter().map(|bits| bits.to_le_bytes().into()).collect();
        u32::from_le_bytes(all_reduce(Dtype::F32, op, &inputs).try_into().expect("one element"))
    }

    fn narrow(dtype: Dtype, op: Op, values: &[u16]) -> u16 {
        let inputs: Vec<Vec<u8>> = values.iter().map(|bits| bits.to_le_bytes().into()).collect();
        u16::from_le_bytes(all_reduce(dtype, op, &inputs).try_into().expect("one element"))
    }

    #[test]
    fn follows_ieee_and_the_rules_for_nan_and_zero() {
        const PLUS_0: u32 = 0;
        const MINUS_0: u32 = 1 << 31;
        for op in [Op::Min, Op::Max] {
            assert_eq!(f32s(op, &[1f32.to_bits(), 0x7f80_0001]), 0x7fff_ffff, "a NaN stays");
        }
        assert_eq!((f32s(Op::Min, &[PLUS_0, MINUS_0]), f32s(Op::Max, &[MINUS_0, PLUS_0])), (MINUS_0, PLUS_0));
        assert_eq!(f32s(Op::Sum, &[MINUS_0, PLUS_0]), PLUS_0);
        assert_eq!(f32s(Op::Sum, &[MINUS_0, MINUS_0]), MINUS_0);
        assert_eq!(f32s(Op::Sum, &[f32::INFINITY.to_bits(), f32::NEG_INFINITY.to_bits()]), 0x7fff_ffff);
        assert_eq!(f32s(Op::Avg, &[3f32.to_bits(), 4f32.to_bits()]), 3.5f32.to_bits());
        assert_eq!(f32s(Op::Prod, &[3f32.to_bits(), 4f32.to_bits()]), 12f32.to_bits());
    }

    #[test]
    fn folds_in_rank_order_from_rank_0() {
        let (big, one) = (1e8f32.to_bits(), 1f32.to_bits());
        assert_eq!(f32s(Op::Sum, &[big, one, (-1e8f32).to_bits()]), 0f32.to_bits());
        assert_eq!(f32s(Op::Sum, &[big, (-1e8f32).to_bits(), one]), one);
    }

    #[test]
    fn narrow_floats_round_once() {
        // 2048 + 1 + 1 rounds to 2048 twice if every step is rounded to f16.
        assert_eq!(narrow(Dtype::F16, Op::Sum, &[0x6800, 0x3c00, 0x3c00]), 0x6801);
        assert_eq!(narrow(Dtype::Bf16, Op::Sum, &[0x4380, 0x3f80, 0x3f80]), 0x4381);
        assert_eq!(narrow(Dtype::F16, Op::Sum, &[0x7bff, 0x7bff]), 0x7c00, "overflow is infinity");
        assert_eq!(
            narrow(Dtype::F16, Op::Avg, &[0x7bff, 0x7bff]),
            0x7bff,
            "the sum does not overflow in f32"
        );
        assert_eq!(narrow(Dtype::Bf16, Op::Max, &[0xff81, 0]), 0x7fff);
    }

    #[test]
    fn gathers_in_rank_order() {
        assert_eq!(all_gather(&[vec![1, 2], vec![3, 4]]), [1, 2, 3, 4]);
    }
}
