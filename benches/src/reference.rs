//! What a reduction must give, bit for bit, computed on the host by the rules that `symmem` states: the fold starts with
//! rank 0's value, then 1…n−1, in f32; one rounding at the end, to nearest even; avg divides before it; every NaN is the
//! canonical one; min and max propagate NaN and order −0 < +0.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use std::cmp::Ordering;
use symmem::{Dtype, Op};

/// A reduction of a type over a number of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reference {
    pub(crate) dtype: Dtype,
    pub(crate) op: Op,
    pub(crate) n_ranks: u32,
}

/// The only NaN that a result has, as the f32 that stands for it in every type.
const CANONICAL_NAN: f32 = f32::from_bits(0x7fff_ffff);

impl Reference {
    /// The result for one input per rank, each as exact f32 values of the type.
    pub(crate) fn reduce<'a>(&self, mut inputs: impl Iterator<Item = &'a [f32]>) -> Vec<f32> {
        let mut acc = inputs.next().expect("a communicator has a rank").to_vec();
        inputs.for_each(|next| fold(self.op, &mut acc, next));
        self.finish(&mut acc);
        acc
    }

    /// The result where every rank's input is `value`, put in its place.
    pub(crate) fn reduce_equal(&self, value: &mut [f32]) {
        let next = value.to_vec();
        (1..self.n_ranks).for_each(|_| fold(self.op, value, &next));
        self.finish(value);
    }

    fn finish(&self, acc: &mut [f32]) {
        if self.op == Op::Avg {
            acc.iter_mut().for_each(|value| *value /= self.n_ranks as f32);
        }
        round(self.dtype, acc);
    }
}

fn fold(op: Op, acc: &mut [f32], next: &[f32]) {
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

/// Rounds to the type, to nearest even; NaN becomes canonical.
fn round(dtype: Dtype, values: &mut [f32]) {
    let mut bits = vec![0; values.len()];
    match dtype {
        Dtype::F32 => {}
        Dtype::F16 => {
            bits.reinterpret_cast_mut::<f16>().convert_from_f32_slice(values);
            bits.reinterpret_cast::<f16>().convert_to_f32_slice(values);
        }
        Dtype::Bf16 => {
            bits.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(values);
            bits.reinterpret_cast::<bf16>().convert_to_f32_slice(values);
        }
    }
    values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = CANONICAL_NAN);
}

/// The elements in memory as f32, which is exact.
pub(crate) fn lift(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let halves = || bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    match dtype {
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::F16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        Dtype::Bf16 => halves().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
    }
}

/// Exact values of the type as they lie in memory.
pub(crate) fn lower(dtype: Dtype, values: &[f32]) -> Vec<u8> {
    let halves = |bits: fn(f32) -> u16| {
        let bits = move |value: f32| if value.is_nan() { 0x7fff } else { bits(value) };
        values.iter().flat_map(|value| bits(*value).to_le_bytes()).collect()
    };
    match dtype {
        Dtype::F32 => bytemuck::cast_slice(values).to_vec(),
        Dtype::F16 => halves(|value| f16::from_f32(value).to_bits()),
        Dtype::Bf16 => halves(|value| bf16::from_f32(value).to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce(dtype: Dtype, op: Op, inputs: &[f32]) -> f32 {
        let columns: Vec<[f32; 1]> = inputs.iter().map(|value| [*value]).collect();
        let reference = Reference { dtype, op, n_ranks: inputs.len() as u32 };
        reference.reduce(columns.iter().map(|column| &column[..]))[0]
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
                expected.into_iter().flat_map(|e| Dtype::ALL.iter().map(move |d| (e, *d)))
            {
                let nearest = match dtype {
                    Dtype::F32 => exact as f32,
                    Dtype::F16 => f16::from_f64(exact).to_f32(),
                    Dtype::Bf16 => bf16::from_f64(exact).to_f32(),
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
        for (dtype, op) in Dtype::ALL.iter().flat_map(|d| Op::ALL.iter().map(move |o| (*d, *o))) {
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
        ] {
            assert_eq!(lower(dtype, &[CANONICAL_NAN]), bytes);
        }
    }

    /// Between any two neighbours of a 16-bit type the middle goes to the even one, and what is off the middle to the
    /// nearer one.
    #[test]
    fn rounds_to_nearest_even() {
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let value = |bits: u16| lift(dtype, &bits.to_le_bytes())[0];
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
        for (dtype, op) in Dtype::ALL.iter().flat_map(|d| Op::ALL.iter().map(move |o| (*d, *o))) {
            let mut value = [1.3f32, -0.1, 7.0];
            round(dtype, &mut value);
            let inputs = [value; 3];
            let reference = Reference { dtype, op, n_ranks: 3 };
            let expected = reference.reduce(inputs.iter().map(|input| &input[..]));
            reference.reduce_equal(&mut value);
            assert_eq!(value[..], expected[..], "{dtype} {op}");
        }
    }

    #[test]
    fn memory_and_values_correspond() {
        for dtype in [Dtype::F16, Dtype::Bf16] {
            let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let back = lower(dtype, &lift(dtype, &all));
            for (found, expected) in back.chunks_exact(2).zip(all.chunks_exact(2)) {
                let is_nan = lift(dtype, expected)[0].is_nan();
                assert_eq!(found, if is_nan { &[0xff, 0x7f] } else { expected });
            }
        }
    }
}
