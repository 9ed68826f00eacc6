//! Collectives on the CPU, on elements as they lie in memory.
//!
//! The rules that every algorithm of the library keeps: the fold starts with rank 0's value, then 1…n−1; floats narrower
//! than f32 accumulate in f32 and round once, those of 8 bits saturating; avg divides the sum and then rounds; a NaN
//! result is the canonical NaN; min and max give NaN if any is NaN and order −0 before +0; integers wrap in their type,
//! and their average is the wrapped sum divided toward zero.

use half::{bf16, f16};
use symmem::{Collective, Dtype, E4m3, E5m2, Op};

/// Each rank's output of a collective on one input per rank; `root` is that of a broadcast.
pub fn outputs(
    collective: Collective,
    dtype: Dtype,
    op: Op,
    root: usize,
    inputs: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let n_ranks = inputs.len();
    let part = |whole: &[u8], rank: usize| {
        let len = whole.len() / n_ranks;
        whole[rank * len..][..len].to_vec()
    };
    match collective {
        Collective::AllReduce => vec![all_reduce(dtype, op, inputs); n_ranks],
        Collective::AllGather => vec![inputs.concat(); n_ranks],
        Collective::Broadcast => vec![inputs[root].clone(); n_ranks],
        Collective::ReduceScatter => {
            let reduced = all_reduce(dtype, op, inputs);
            (0..n_ranks).map(|rank| part(&reduced, rank)).collect()
        }
        Collective::AllToAll => {
            let parts_for = |rank| inputs.iter().flat_map(|input| part(input, rank)).collect();
            (0..n_ranks).map(parts_for).collect()
        }
    }
}

/// The result of an all-reduce of one input per rank, all equally long.
pub fn all_reduce(dtype: Dtype, op: Op, inputs: &[Vec<u8>]) -> Vec<u8> {
    let bytes = dtype.bytes() as usize;
    let n_elements = inputs[0].len() / bytes;
    let element = |at: usize| {
        let mut values = inputs.iter().map(|input| lift(dtype, &input[at * bytes..][..bytes]));
        let first = values.next().expect("a communicator has a rank");
        finish(op, values.fold(first, |acc, next| fold(dtype, op, acc, next)), inputs.len())
    };
    (0..n_elements).flat_map(|at| lower(dtype, element(at))).collect()
}

/// An element in what it accumulates in.
#[derive(Clone, Copy)]
enum Value {
    Single(f32),
    Double(f64),
    Integer(i128),
}

fn lift(dtype: Dtype, bytes: &[u8]) -> Value {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(word);
    match dtype {
        Dtype::F64 => Value::Double(f64::from_bits(bits)),
        Dtype::F32 => Value::Single(f32::from_bits(bits as u32)),
        Dtype::F16 => Value::Single(f16::from_bits(bits as u16).to_f32()),
        Dtype::Bf16 => Value::Single(bf16::from_bits(bits as u16).to_f32()),
        Dtype::E4m3 => Value::Single(E4m3(bits as u8).to_f32()),
        Dtype::E5m2 => Value::Single(E5m2(bits as u8).to_f32()),
        integer => Value::Integer(wrapped(integer, bits.into())),
    }
}

/// The number that the low bits of another are in an integer type.
fn wrapped(dtype: Dtype, number: i128) -> i128 {
    let unused = 128 - 8 * dtype.bytes() as u32;
    let is_signed = matches!(dtype, Dtype::I8 | Dtype::I32 | Dtype::I64);
    let shifted = number << unused;
    if is_signed { shifted >> unused } else { (shifted as u128 >> unused) as i128 }
}

fn fold(dtype: Dtype, op: Op, acc: Value, next: Value) -> Value {
    match (acc, next) {
        (Value::Single(acc), Value::Single(next)) => Value::Single(match op {
            Op::Sum | Op::Avg => acc + next,
            Op::Prod => acc * next,
            Op::Min | Op::Max if acc.is_nan() || next.is_nan() => f32::NAN,
            Op::Min => [acc, next].into_iter().min_by(f32::total_cmp).expect("two values"),
            Op::Max => [acc, next].into_iter().max_by(f32::total_cmp).expect("two values"),
        }),
        (Value::Double(acc), Value::Double(next)) => Value::Double(match op {
            Op::Sum | Op::Avg => acc + next,
            Op::Prod => acc * next,
            Op::Min | Op::Max if acc.is_nan() || next.is_nan() => f64::NAN,
            Op::Min => [acc, next].into_iter().min_by(f64::total_cmp).expect("two values"),
            Op::Max => [acc, next].into_iter().max_by(f64::total_cmp).expect("two values"),
        }),
        (Value::Integer(acc), Value::Integer(next)) => Value::Integer(match op {
            Op::Sum | Op::Avg => wrapped(dtype, acc + next),
            Op::Prod => wrapped(dtype, acc.wrapping_mul(next)),
            Op::Min => acc.min(next),
            Op::Max => acc.max(next),
        }),
        _ => unreachable!("all elements have one type"),
    }
}

fn finish(op: Op, acc: Value, n_ranks: usize) -> Value {
    match acc {
        _ if op != Op::Avg => acc,
        Value::Single(acc) => Value::Single(acc / n_ranks as f32),
        Value::Double(acc) => Value::Double(acc / n_ranks as f64),
        Value::Integer(acc) => Value::Integer(acc / n_ranks as i128),
    }
}

fn lower(dtype: Dtype, value: Value) -> Vec<u8> {
    match value {
        Value::Single(value) => lower_f32(dtype, value),
        Value::Double(value) if value.is_nan() => 0x7fff_ffff_ffff_ffffu64.to_le_bytes().into(),
        Value::Double(value) => value.to_le_bytes().into(),
        Value::Integer(value) => value.to_le_bytes()[..dtype.bytes() as usize].into(),
    }
}

fn lower_f32(dtype: Dtype, value: f32) -> Vec<u8> {
    match (dtype, value.is_nan()) {
        (Dtype::F32, true) => 0x7fff_ffffu32.to_le_bytes().into(),
        (Dtype::F32, false) => value.to_le_bytes().into(),
        (Dtype::E4m3, _) => vec![E4m3::from_f32(value).0],
        (Dtype::E5m2, _) => vec![E5m2::from_f32(value).0],
        (_, true) => 0x7fffu16.to_le_bytes().into(),
        (Dtype::F16, false) => f16::from_f32(value).to_le_bytes().into(),
        (_, false) => bf16::from_f32(value).to_le_bytes().into(),
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
    fn parts_go_where_they_belong() {
        let inputs = [vec![1, 2], vec![3, 4]];
        for (collective, expected) in [
            (Collective::AllReduce, [vec![4, 6], vec![4, 6]]),
            (Collective::ReduceScatter, [vec![4], vec![6]]),
            (Collective::AllGather, [vec![1, 2, 3, 4], vec![1, 2, 3, 4]]),
            (Collective::Broadcast, [vec![3, 4], vec![3, 4]]),
            (Collective::AllToAll, [vec![1, 3], vec![2, 4]]),
        ] {
            assert_eq!(outputs(collective, Dtype::U8, Op::Sum, 1, &inputs), expected, "{collective}");
        }
    }

    #[test]
    fn integers_wrap_and_divide_toward_zero() {
        for (dtype, op, inputs, expected) in [
            (Dtype::U8, Op::Sum, [200, 100], 44),
            (Dtype::I8, Op::Sum, [100, 100], 200),
            (Dtype::I8, Op::Avg, [100, 100], 228),
            (Dtype::I8, Op::Avg, [0xfd, 0], 0xff),
            (Dtype::U8, Op::Avg, [200, 100], 22),
            (Dtype::U8, Op::Prod, [16, 17], 16),
            (Dtype::I8, Op::Min, [0x80, 1], 0x80),
            (Dtype::U8, Op::Min, [0x80, 1], 1),
            (Dtype::E4m3, Op::Sum, [0x7e, 0x7e], 0x7e),
            (Dtype::E5m2, Op::Sum, [0x7c, 0], 0x7b),
            (Dtype::E5m2, Op::Max, [0xff, 0], 0x7f),
        ] {
            let inputs = inputs.map(|byte: u8| vec![byte]);
            assert_eq!(all_reduce(dtype, op, &inputs), [expected], "{dtype} {op} {inputs:?}");
        }
    }
}
