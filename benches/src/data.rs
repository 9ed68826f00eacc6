//! Random data: any element of any rank's input is a function of a key and its index, so that any thread can make any
//! part of it at any time.

use crate::case::Case;
use symmem::{Dtype, Op};

/// Names the data of all ranks in one round of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataKey {
    key: u64,
    case: Case,
    numbers: Numbers,
}

/// What inputs of reductions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// Random bits of magnitudes about this power of two, with special values among them.
    About(i32),
    /// Whole numbers so small that sums and products are exact in whatever order and precision they are made.
    Small,
}

/// The finaliser of splitmix64: a bijection in which every input bit changes half of the output bits.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The odd constant of splitmix64 that steps through all states.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn derive(key: u64, words: &[u64]) -> u64 {
    words.iter().fold(key, |key, word| mix(key.wrapping_add(STEP) ^ mix(*word)))
}

impl DataKey {
    /// Data for one round. `n_folds` is how often results are fed back as inputs, so that sums neither overflow nor
    /// vanish where the type has room.
    pub(crate) fn new(seed: u64, case: &Case, in_place: bool, round: u64, n_folds: u64) -> Self {
        let op = case.op.map_or(0, |op| op as u64 + 1);
        let words = [case.collective as u64, case.dtype as u64, op, case.count, in_place.into(), round];
        let growth = match case.op {
            Some(Op::Sum) => f64::from(case.n_ranks).log2() * n_folds as f64,
            _ => 0.0,
        };
        let numbers = Numbers::About(-((growth / 2.0).min(1000.0) as i32));
        Self { key: derive(seed, &words), case: *case, numbers }
    }

    /// The same with inputs of which every right reduction makes the same bits, by whatever rules it rounds; one
    /// operation deep.
    pub(crate) fn small(self) -> Self {
        Self { numbers: Numbers::Small, ..self }
    }

    /// A whole number: 1 or 2 for products, multiples of the number of ranks for averages.
    fn small_number(&self, random: u64) -> u64 {
        let n = u64::from(self.case.n_ranks);
        let exact_max = (1 << Format::of(self.case.dtype).whole_bits()) - 1;
        let up_to = |max: u64| random % (max.max(1) + 1);
        match self.case.op {
            Some(Op::Prod) => 1 + random % 2,
            Some(Op::Avg) => n * up_to(exact_max / (n * n)),
            _ => up_to(exact_max / n),
        }
    }

    /// A key for other bytes of the same round.
    pub(crate) fn salted(&self, salt: u64) -> u64 {
        derive(self.key, &[salt])
    }

    /// Writes the elements of `rank` from `first` on into `bytes`, whose length is a whole number of them.
    pub(crate) fn fill(&self, rank: u32, first: u64, bytes: &mut [u8]) {
        let key = derive(self.key, &[u64::from(rank)]);
        let bits = |index: u64| mix(key ^ index.wrapping_mul(STEP));
        let format = Format::of(self.case.dtype);
        let make = |index: u64| match (self.case.op, self.numbers) {
            (Some(_), Numbers::About(centre)) => format.number(bits(index), centre),
            (Some(_), Numbers::Small) => format.whole(self.small_number(bits(index))),
            (None, _) => format.raw(bits(index)),
        };
        match self.case.dtype.bytes() {
            1 => bytes.iter_mut().zip(first..).for_each(|(target, index)| *target = make(index) as u8),
            2 => bytes.chunks_exact_mut(2).zip(first..).for_each(|(target, index)| {
                target.copy_from_slice(&(make(index) as u16).to_le_bytes());
            }),
            4 => bytes.chunks_exact_mut(4).zip(first..).for_each(|(target, index)| {
                target.copy_from_slice(&(make(index) as u32).to_le_bytes());
            }),
            _ => bytes.chunks_exact_mut(8).zip(first..).for_each(|(target, index)| {
                target.copy_from_slice(&make(index).to_le_bytes());
            }),
        }
    }
}

/// Bits of a float's mantissa; integers have none.
pub(crate) fn mantissa_bits(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F64 => 52,
        Dtype::F32 => 23,
        Dtype::F16 => 10,
        Dtype::Bf16 => 7,
        Dtype::E4m3 => 3,
        Dtype::E5m2 => 2,
        _ => 0,
    }
}

/// The layout of a type's bits; integers have no mantissa.
#[derive(Clone, Copy)]
struct Format {
    bits: u32,
    mantissa_bits: u32,
}

impl Format {
    fn of(dtype: Dtype) -> Self {
        Self { bits: 8 * dtype.bytes() as u32, mantissa_bits: mantissa_bits(dtype) }
    }

    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    fn infinity(self) -> u64 {
        (self.sign() - 1) & !((1 << self.mantissa_bits) - 1)
    }

    /// A random number: of floats mostly within four powers of two about 2^`centre`, one in 128 a special value.
    fn number(self, random: u64, centre: i32) -> u64 {
        if self.mantissa_bits == 0 {
            return self.raw(random);
        }
        if (random >> 40) & 127 == 0 {
            return self.special(random >> 48);
        }
        let exponent_max = self.infinity() >> self.mantissa_bits;
        let exponent = (exponent_max / 2) as i32 + centre + ((random >> 48) & 7) as i32 - 4;
        let exponent = exponent.clamp(1, exponent_max as i32 - 1) as u64;
        let mantissa = random & ((1 << self.mantissa_bits) - 1);
        let sign = (random >> 63) * self.sign();
        sign | exponent << self.mantissa_bits | mantissa
    }

    /// Zeros, infinities, the ends of the subnormal and the finite numbers, and the canonical NaN: the only one whose
    /// bits a single rank gives back as it gives back those of a result.
    fn special(self, random: u64) -> u64 {
        let specials = [
            0,
            self.sign(),
            self.infinity(),
            self.sign() | self.infinity(),
            self.sign() - 1,
            1,
            self.infinity() - 1,
            self.sign() | ((1 << self.mantissa_bits) - 1),
        ];
        specials[random as usize % specials.len()]
    }

    /// Bits of the largest whole numbers that are exact, with those below them; no more than are of use.
    fn whole_bits(self) -> u32 {
        if self.mantissa_bits == 0 { 7 } else { (self.mantissa_bits + 1).min(9) }
    }

    /// A whole number below 1024 that the type has.
    fn whole(self, number: u64) -> u64 {
        if self.mantissa_bits == 0 || number == 0 {
            return number;
        }
        let (exponent, bias) = (number.ilog2(), (self.infinity() >> self.mantissa_bits) / 2);
        let mantissa = (number << self.mantissa_bits) >> exponent;
        ((bias + u64::from(exponent)) << self.mantissa_bits) | (mantissa & ((1 << self.mantissa_bits) - 1))
    }

    /// Any bits but all ones, which outputs are poisoned with.
    fn raw(self, random: u64) -> u64 {
        let mask = u64::MAX >> (64 - self.bits);
        let bits = random & mask;
        if bits == mask { 0 } else { bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use symmem::Collective;

    fn case(collective: Collective, dtype: Dtype) -> Case {
        let op = collective.reduces().then_some(Op::Sum);
        Case { collective, dtype, op, count: 1000, n_ranks: 3 }
    }

    fn bytes(key: &DataKey, rank: u32, first: u64, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n * key.case.dtype.bytes() as usize];
        key.fill(rank, first, &mut bytes);
        bytes
    }

    #[test]
    fn any_part_is_the_same_whenever_it_is_made() {
        for &dtype in Dtype::ALL {
            for &collective in Collective::ALL {
                let key = DataKey::new(7, &case(collective, dtype), false, 3, 1);
                let whole = bytes(&key, 1, 0, 1000);
                let part = bytes(&key, 1, 300, 17);
                let size = dtype.bytes() as usize;
                assert_eq!(part, whole[300 * size..317 * size]);
            }
        }
    }

    #[test]
    fn every_input_of_the_key_matters() {
        let case = case(Collective::AllReduce, Dtype::F32);
        let base = bytes(&DataKey::new(7, &case, false, 3, 1), 1, 0, 64);
        let others = [
            bytes(&DataKey::new(8, &case, false, 3, 1), 1, 0, 64),
            bytes(&DataKey::new(7, &case, true, 3, 1), 1, 0, 64),
            bytes(&DataKey::new(7, &case, false, 4, 1), 1, 0, 64),
            bytes(&DataKey::new(7, &case, false, 3, 1), 2, 0, 64),
            bytes(&DataKey::new(7, &Case { count: 1001, ..case }, false, 3, 1), 1, 0, 64),
        ];
        others.iter().for_each(|other| assert_ne!(*other, base));
    }

    /// Poison is all ones, so that must be no element and no result.
    #[test]
    fn no_element_is_poison() {
        for &dtype in Dtype::ALL {
            for &collective in Collective::ALL {
                let made = bytes(&DataKey::new(1, &case(collective, dtype), false, 0, 1), 0, 0, 1 << 18);
                assert!(
                    made.chunks(dtype.bytes() as usize)
                        .all(|element| element.iter().any(|byte| *byte != 0xff))
                );
            }
        }
    }

    #[test]
    fn special_values_occur_and_are_few() {
        let made =
            bytes(&DataKey::new(1, &case(Collective::AllReduce, Dtype::F32), false, 0, 1), 0, 0, 1 << 16);
        let numbers: Vec<f32> =
            made.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("4"))).collect();
        let among = |is: fn(&f32) -> bool| numbers.iter().copied().filter(is).count();
        assert!(among(|x| x.is_nan() && x.to_bits() == 0x7fff_ffff) > 10);
        assert_eq!(among(|x| x.is_nan() && x.to_bits() != 0x7fff_ffff), 0);
        assert!(among(|x| *x == f32::INFINITY) > 10 && among(|x| *x == f32::NEG_INFINITY) > 10);
        assert!(among(|x| x.to_bits() == 0) > 10 && among(|x| x.to_bits() == 1 << 31) > 10);
        assert!(among(|x| x.is_subnormal()) > 10 && among(|x| *x == f32::MAX) > 10);
        assert!(among(|x| (2f32.powi(-5)..2f32.powi(5)).contains(&x.abs())) > 64_000);
    }

    #[test]
    fn sums_that_are_fed_back_start_smaller() {
        let key =
            DataKey::new(1, &Case { n_ranks: 2, ..case(Collective::AllReduce, Dtype::F16) }, true, 0, 20);
        assert_eq!(key.numbers, Numbers::About(-10));
        let average = Case { op: Some(Op::Avg), ..key.case };
        assert_eq!(DataKey::new(1, &average, true, 0, 20).numbers, Numbers::About(0));
    }

    /// Folded backwards and in pairs, small numbers give what they give in rank order.
    #[test]
    fn small_numbers_are_exact_in_any_order() {
        use crate::reference::{Reference, lift, lower};
        for (&dtype, &op) in Dtype::ALL.iter().flat_map(|dtype| Op::ALL.iter().map(move |op| (dtype, op))) {
            for n_ranks in [2, 4, 8] {
                let case = Case { op: Some(op), n_ranks, ..case(Collective::AllReduce, dtype) };
                let key = DataKey::new(1, &case, false, 0, 1).small();
                let inputs: Vec<_> =
                    (0..n_ranks).map(|rank| lift(dtype, &bytes(&key, rank, 0, 200))).collect();
                let reference = Reference { dtype, op, n_ranks };
                let forwards = lower(dtype, &reference.reduce(inputs.iter()));
                let backwards = lower(dtype, &reference.reduce(inputs.iter().rev()));
                assert_eq!(forwards, backwards, "{dtype} {op}");
                // Rounding to the type on the way changes nothing either.
                let step = if op == Op::Avg { Op::Sum } else { op };
                let pair = Reference { dtype, op: step, n_ranks: 2 };
                let stepwise = inputs[1..]
                    .iter()
                    .fold(inputs[0].clone(), |acc, next| pair.reduce([&acc, next].into_iter()));
                let whole = Reference { op: step, ..reference };
                assert_eq!(
                    lower(dtype, &stepwise),
                    lower(dtype, &whole.reduce(inputs.iter())),
                    "{dtype} {op}"
                );
                let elements = bytes(&key, 0, 0, 200);
                let first = &elements[..dtype.bytes() as usize];
                assert!(
                    elements.chunks(dtype.bytes() as usize).any(|element| element != first),
                    "{dtype} {op}"
                );
            }
        }
    }
}
