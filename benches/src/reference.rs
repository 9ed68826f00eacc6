//! What a reduction must give, bit for bit, computed on the host by the rules that `symmem` states: the fold starts with
//! rank 0's value, then 1…n−1, for narrow floats in f32, with one rounding at the end, to nearest even; avg divides before
//! it; every NaN is the canonical one; min and max propagate NaN and order −0 < +0; 8-bit floats saturate; integers wrap.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use std::cmp::Ordering;
use symmem::{Dtype, E4m3, E5m2, Op};

/// A reduction of a type over a number of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pub(crate) dtype: Dtype,
    pub(crate) op: Op,
    pub(crate) n_ranks: u32,
}

/// Exact values of elements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    /// Of f32 and narrower floats.
    Single(Vec<f32>),
    /// Of f64.
    Double(Vec<f64>),
    /// Of integers, as numbers.
    Integer(Vec<i128>),
}

/// The only NaN that a result has, as the f32 that stands for it in every type up to f32.
const CANONICAL_NAN: f32 = f32::from_bits(0x7fff_ffff);
/// The same of f64.
const CANONICAL_NAN_F64: f64 = f64::from_bits(0x7fff_ffff_ffff_ffff);

impl Reference {
    /// The result for one input per rank, each as exact values of the type.
    pub(crate) fn reduce<'a>(&self, mut inputs: impl Iterator<Item = &'a Values>) -> Values {
        let mut acc = inputs.next().expect("a communicator has a rank").clone();
        inputs.for_each(|next| self.fold(&mut acc, next));
        self.finish(&mut acc);
        acc
    }

    /// The result where every rank's input is `value`, put in its place.
    pub(crate) fn reduce_equal(&self, value: &mut Values) {
        let next = value.clone();
        (1..self.n_ranks).for_each(|_| self.fold(value, &next));
        self.finish(value);
    }

    fn fold(&self, acc: &mut Values, next: &Values) {
        match (acc, next) {
            (Values::Single(acc), Values::Single(next)) => fold_single(self.op, acc, next),
            (Values::Double(acc), Values::Double(next)) => fold_double(self.op, acc, next),
            (Values::Integer(acc), Values::Integer(next)) => {
                acc.iter_mut().zip(next).for_each(|(a, b)| *a = fold_integer(self.dtype, self.op, *a, *b));
            }
            _ => unreachable!("all inputs have one type"),
        }
    }

    fn finish(&self, acc: &mut Values) {
        let n = self.n_ranks;
        match acc {
            Values::Single(acc) => {
                if self.op == Op::Avg {
                    acc.iter_mut().for_each(|value| *value /= n as f32);
                }
                round(self.dtype, acc);
            }
            Values::Double(acc) => {
                if self.op == Op::Avg {
                    acc.iter_mut().for_each(|value| *value /= f64::from(n));
                }
                acc.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = CANONICAL_NAN_F64);
            }
            Values::Integer(acc) if self.op == Op::Avg => {
                acc.iter_mut().for_each(|value| *value /= i128::from(n))
            }
            Values::Integer(_) => {}
        }
    }
}

fn fold_single(op: Op, acc: &mut [f32], next: &[f32]) {
    let pairs = acc.iter_mut().zip(next);
    match op {
        Op::Sum | Op::Avg => pairs.for_each(|(a, b)| *a += b),
        Op::Prod => pairs.for_each(|(a, b)| *a *= b),
        Op::Min => pairs.for_each(|(a, b)| *a = pick(*a, *b, Ordering::Less)),
        Op::Max => pairs.for_each(|(a, b)| *a = pick(*a, *b, Ordering::Greater)),
    }
}

/// The smaller or the greater, where −0 < +0.
fn pick(a: f32, b: f32, wanted: Ordering) -> f32 {
    match (a.is_nan() || b.is_nan(), a.total_cmp(&b) == wanted) {
        (true, _) => CANONICAL_NAN,
        (false, true) => a,
        (false, false) => b,
    }
}

fn fold_double(op: Op, acc: &mut [f64], next: &[f64]) {
    let pick = |a: f64, b: f64, wanted| match (a.is_nan() || b.is_nan(), a.total_cmp(&b) == wanted) {
        (true, _) => CANONICAL_NAN_F64,
        (false, true) => a,
        (false, false) => b,
    };
    acc.iter_mut().zip(next).for_each(|(a, b)| {
        *a = match op {
            Op::Sum | Op::Avg => *a + b,
            Op::Prod => *a * b,
            Op::Min => pick(*a, *b, Ordering::Less),
            Op::Max => pick(*a, *b, Ordering::Greater),
        };
    });
}

fn fold_integer(dtype: Dtype, op: Op, a: i128, b: i128) -> i128 {
    match op {
        Op::Sum | Op::Avg => wrapped(dtype, a + b),
        Op::Prod => wrapped(dtype, a.wrapping_mul(b)),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
    }
}

/// The number that the low bits of another are in an integer type.
fn wrapped(dtype: Dtype, number: i128) -> i128 {
    let unused = 128 - 8 * dtype.bytes() as u32;
    let is_signed = matches!(dtype, Dtype::I8 | Dtype::I32 | Dtype::I64);
    let shifted = number << unused;
    if is_signed { shifted >> unused } else { (shifted as u128 >> unused) as i128 }
}

/// Rounds to the type, to nearest even; NaN becomes canonical.
fn round(dtype: Dtype, values: &mut [f32]) {
    let mut bits = vec![0; values.len()];
    match dtype {
        Dtype::F16 => {
            bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values);
            bits.reinterpret_cast::<f16>().convert_to_f32_slice(values);
        }
        Dtype::Bf16 => {
            bits.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values);
            bits.reinterpret_cast::<bf16>().convert_to_f32_slice(values);
        }
        Dtype::E4m3 => values.iter_mut().for_each(|value| *value = E4m3::from_f32(*value).to_f32()),
        Dtype::E5m2 => values.iter_mut().for_each(|value| *value = E5m2::from_f32(*value).to_f32()),
        _ => {}
    }
    values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = CANONICAL_NAN);
}

/// The elements in memory as values, which is exact.
pub(crate) fn lift(dtype: Dtype, bytes: &[u8]) -> Values {
    let halves = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    match dtype {
        Dtype::F64 => Values::Double(bytemuck::pod_collect_to_vec(bytes)),
        Dtype::F32 => Values::Single(bytemuck::pod_collect_to_vec(bytes)),
        Dtype::F16 => Values::Single(halves().map(|bits| f16::from_bits(bits).to_f32()).collect()),
        Dtype::Bf16 => Values::Single(halves().map(|bits| bf16::from_bits(bits).to_f32()).collect()),
        Dtype::E4m3 => Values::Single(bytes.iter().map(|bits| E4m3(*bits).to_f32()).collect()),
        Dtype::E5m2 => Values::Single(bytes.iter().map(|bits| E5m2(*bits).to_f32()).collect()),
        integer => {
            let number = |element: &[u8]| {
                let mut word = [0; 16];
                word[..element.len()].copy_from_slice(element);
                wrapped(integer, i128::from_le_bytes(word))
            };
            Values::Integer(bytes.chunks_exact(integer.bytes() as usize).map(number).collect())
        }
    }
}

/// Exact values of the type as they lie in memory.
pub(crate) fn lower(dtype: Dtype, values: &Values) -> Vec<u8> {
    match values {
        Values::Single(values) => lower_single(dtype, values),
        Values::Double(values) => bytemuck::cast_slice(values).to_vec(),
        Values::Integer(values) => values
            .iter()
            .flat_map(|value| value.to_le_bytes().into_iter().take(dtype.bytes() as usize))
            .collect(),
    }
}

fn lower_single(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    let halves = |bits: fn(f32) -> u16| {
        let bits = move |value: f32| if value.is_nan() { 0x7fff } else { bits(value) };
        values.iter().flat_map(|value| bits(*value).to_le_bytes()).collect()
    };
    match dtype {
        Dtype::F16 => halves(|value| f16::from_f32(value).to_bits()),
        Dtype::Bf16 => halves(|value| bf16::from_f32(value).to_bits()),
        Dtype::E4m3 => values.iter().map(|value| E4m3::from_f32(*value).0).collect(),
        Dtype::E5m2 => values.iter().map(|value| E5m2::from_f32(*value).0).collect(),
        _ => bytemuck::cast_slice(values).to_vec(),
    }
}

/// How far one element is from another, relative to the other; infinite where that is no number.
pub(crate) fn relative_error(dtype: Dtype, found: &[u8], expected: &[u8]) -> f64 {
    let number = |bytes| match lift(dtype, bytes) {
        Values::Single(values) => f64::from(values[0]),
        Values::Double(values) => values[0],
        Values::Integer(values) => values[0] as f64,
    };
    let (found, expected) = (number(found), number(expected));
    let error = ((found - expected) / expected).abs();
    if found == expected {
        0.0
    } else if error.is_nan() {
        f64::INFINITY
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types that accumulate in f32.
    const SINGLE: [Dtype; 5] = [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::E4m3, Dtype::E5m2];

    fn reduce(dtype: Dtype, op: Op, inputs: &[f32]) -> f32 {
        let columns: Vec<Values> = inputs.iter().map(|value| Values::Single(vec![*value])).collect();
        let reference = Reference { dtype, op, n_ranks: inputs.len() as u32 };
        single(&reference.reduce(columns.iter()))[0]
    }

    fn single(values: &Values) -> &[f32] {
        let Values::Single(values) = values else { panic!("{values:?}") };
        values
    }

    /// Where f64 is exact, so is the rounding of its result.
    #[test]
    fn agrees_with_f64_on_small_cases() {
        let values = [0.0, 1.0, -1.0, 0.5, 3.0, 1.5, -2.25, 100.0];
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
            let (x, y) = (f64::from(a), f64::from(b));
            let expected = [
                (Op::Sum, x + y),
                (Op::Prod, x * y),
                (Op::Avg, (x + y) / 2.0),
                (Op::Min, x.min(y)),
                (Op::Max, x.max(y)),
            ];
            for ((op, exact), dtype) in
                expected.into_iter().flat_map(|e| SINGLE.into_iter().map(move |d| (e, d)))
            {
                let nearest = match dtype {
                    Dtype::F32 => exact as f32,
                    Dtype::F16 => f16::from_f64(exact).to_f32(),
                    Dtype::Bf16 => bf16::from_f64(exact).to_f32(),
                    Dtype::E4m3 => E4m3::from_f32(exact as f32).to_f32(),
                    _ => E5m2::from_f32(exact as f32).to_f32(),
                };
                assert_eq!(reduce(dtype, op, &[a, b]), nearest, "{dtype} {op} {a} {b}");
            }
        }
    }

    #[test]
    fn folds_in_rank_order_and_rounds_once() {
        // (2^24 + 1) + 1 in f32: each 1 is lost. (1 + 1) + 2^24 keeps both.
        let big = 16_777_216.0;
        assert_eq!(reduce(Dtype::F32, Op::Sum, &[big, 1.0, 1.0]), big);
        assert_eq!(reduce(Dtype::F32, Op::Sum, &[1.0, 1.0, big]), big + 2.0);
        // In f32 the sum is 256 + 1 + 1 = 258; rounding to bf16 (8 bits) after each step would give 256.
        assert_eq!(reduce(Dtype::Bf16, Op::Sum, &[256.0, 1.0, 1.0]), 258.0);
        assert_eq!(reduce(Dtype::F16, Op::Avg, &[65504.0, 65504.0]), 65504.0);
        assert_eq!(reduce(Dtype::F16, Op::Sum, &[65504.0, 65504.0]), f32::INFINITY);
    }

    #[test]
    fn nan_and_zero_follow_the_rules() {
        let nan = CANONICAL_NAN.to_bits();
        for (dtype, op) in SINGLE.into_iter().flat_map(|d| Op::ALL.iter().map(move |o| (d, *o))) {
            assert_eq!(reduce(dtype, op, &[1.0, f32::NAN, 2.0]).to_bits(), nan, "{dtype} {op}");
            assert_eq!(reduce(dtype, op, &[f32::NAN, 1.0]).to_bits(), nan, "{dtype} {op}");
        }
        assert_eq!(reduce(Dtype::F32, Op::Sum, &[f32::INFINITY, f32::NEG_INFINITY]).to_bits(), nan);
        for zeros in [[0.0, -0.0], [-0.0, 0.0]] {
            assert_eq!(reduce(Dtype::F32, Op::Min, &zeros).to_bits(), (-0.0f32).to_bits());
            assert_eq!(reduce(Dtype::F32, Op::Max, &zeros).to_bits(), 0);
        }
        for (dtype, bytes) in [
            (Dtype::F32, vec![0xff, 0xff, 0xff, 0x7f]),
            (Dtype::F16, vec![0xff, 0x7f]),
            (Dtype::Bf16, vec![0xff, 0x7f]),
            (Dtype::E4m3, vec![0x7f]),
            (Dtype::E5m2, vec![0x7f]),
        ] {
            assert_eq!(lower(dtype, &Values::Single(vec![CANONICAL_NAN])), bytes);
        }
    }

    /// Between any two neighbours of a 16-bit type the middle goes to the even one, and what is off the middle to the
    /// nearer one.
    #[test]
    fn rounds_to_nearest_even() {
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let value = |bits: u16| single(&lift(dtype, &bits.to_le_bytes()))[0];
            let infinity = if dtype == Dtype::F16 { 0x7c00 } else { 0x7f80 };
            for bits in 0..infinity - 1 {
                let (low, high) = (value(bits), value(bits + 1));
                let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
                let even = if bits % 2 == 0 { low } else { high };
                let mut rounded = [middle, middle.next_down(), middle.next_up(), -middle];
                round(dtype, &mut rounded);
                assert_eq!(rounded, [even, low, high, -even], "{dtype} {bits:#x}");
            }
        }
    }

    #[test]
    fn equal_inputs_are_a_reduction_too() {
        let bytes = [1, 2, 0x30, 0x40, 0x81, 0xc2, 0x33, 0x3f, 9, 0, 0, 0, 0, 0, 0xf0, 0xbf];
        for (dtype, op) in Dtype::ALL.iter().flat_map(|d| Op::ALL.iter().map(move |o| (*d, *o))) {
            let mut value = lift(dtype, &bytes);
            let inputs = [value.clone(), value.clone(), value.clone()];
            let reference = Reference { dtype, op, n_ranks: 3 };
            let expected = lower(dtype, &reference.reduce(inputs.iter()));
            reference.reduce_equal(&mut value);
            assert_eq!(lower(dtype, &value), expected, "{dtype} {op}");
        }
    }

    #[test]
    fn integers_wrap_and_divide_toward_zero() {
        for (dtype, op, inputs, expected) in [
            (Dtype::U8, Op::Sum, [200u8, 100], 44u8),
            (Dtype::I8, Op::Avg, [100, 100], 228),
            (Dtype::I8, Op::Avg, [0xfd, 0], 0xff),
            (Dtype::I8, Op::Min, [0x80, 1], 0x80),
            (Dtype::U8, Op::Max, [0x80, 1], 0x80),
            (Dtype::U8, Op::Prod, [16, 17], 16),
        ] {
            let inputs = inputs.map(|byte| lift(dtype, &[byte]));
            let result = Reference { dtype, op, n_ranks: 2 }.reduce(inputs.iter());
            assert_eq!(lower(dtype, &result), [expected], "{dtype} {op}");
        }
    }

    #[test]
    fn memory_and_values_correspond() {
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let back = lower(dtype, &lift(dtype, &all));
            for (found, expected) in back.chunks_exact(2).zip(all.chunks_exact(2)) {
                let is_nan = single(&lift(dtype, expected))[0].is_nan();
                assert_eq!(found, if is_nan { &[0xff, 0x7f] } else { expected });
            }
        }
        for dtype in Dtype::ALL.iter().filter(|dtype| !dtype.is_float()) {
            let all: Vec<u8> = (0..=u8::MAX).collect();
            assert_eq!(lower(*dtype, &lift(*dtype, &all)), all);
        }
    }
}
