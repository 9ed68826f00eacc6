//! One case: what is done, on what, by how many ranks.

use crate::sizes::{count_of, geometric, human_bytes};
use anyhow::{Result, anyhow};
use symmem::{Collective, Dtype, Op};

/// What a row of the table measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) collective: Collective,
    pub(crate) dtype: Dtype,
    /// `None` for collectives that do not reduce.
    pub(crate) op: Option<Op>,
    /// Elements of the message in an all-reduce or a broadcast, of one rank's part in every other collective.
    pub(crate) count: u64,
    pub(crate) n_ranks: u32,
}

impl Case {
    /// Bytes of the message in an all-reduce or a broadcast, of one rank's part in every other collective.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.count * self.dtype.bytes()
    }

    /// The size in nccl-tests' sense: the buffer of an all-reduce or a broadcast, the parts of all ranks in every other
    /// collective.
    pub(crate) fn bytes_total(&self) -> u64 {
        self.part_bytes() * self.parts()
    }

    /// Bytes of one rank's input.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.part_bytes() * u64::from(self.collective.parts(self.n_ranks).0)
    }

    /// Bytes of one rank's output.
    pub(crate) fn output_bytes(&self) -> u64 {
        self.part_bytes() * u64::from(self.collective.parts(self.n_ranks).1)
    }

    /// Parts that the larger of input and output consists of.
    pub(crate) fn parts(&self) -> u64 {
        let (inputs, outputs) = self.collective.parts(self.n_ranks);
        inputs.max(outputs).into()
    }

    /// The rank that a broadcast starts from.
    pub(crate) fn root(&self) -> u32 {
        self.n_ranks - 1
    }

    /// How many rows it has: out of place and, where that can be done, in place.
    pub(crate) fn n_places(&self) -> u64 {
        if self.collective == Collective::AllToAll { 1 } else { 2 }
    }

    /// An error if its bytes do not fit in 64 bits, with room to spare for what lies around the buffers.
    fn checked(self) -> Result<Self> {
        let bytes =
            self.count.checked_mul(self.dtype.bytes()).and_then(|bytes| bytes.checked_mul(self.parts()));
        match bytes {
            Some(bytes) if bytes < 1 << 62 => Ok(self),
            _ => Err(anyhow!(
                "{} elements of {} for {} on {} ranks: the bytes do not fit in 62 bits",
                self.count,
                self.dtype,
                self.collective,
                self.n_ranks
            )),
        }
    }
}

/// The sizes that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Bytes from, to, and the factor between.
    Range { min: u64, max: u64, factor: u64 },
    /// Exact element counts.
    Counts(Vec<u64>),
}

impl Sizes {
    fn counts(&self, collective: Collective, dtype: Dtype, n_ranks: u32) -> Vec<u64> {
        match self {
            Self::Counts(counts) => counts.clone(),
            Self::Range { min, max, factor } => {
                let sizes = geometric(*min, *max, *factor);
                let mut counts: Vec<_> =
                    sizes.into_iter().map(|bytes| count_of(bytes, collective, dtype, n_ranks)).collect();
                counts.dedup();
                counts
            }
        }
    }

    /// As the header says it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Counts(counts) => format!("counts {counts:?}"),
            Self::Range { min, max, factor } => format!(
                "{} to {}, factor {factor}, down to whole elements of each rank, at least one",
                human_bytes(*min),
                human_bytes(*max)
            ),
        }
    }
}

/// All cases, collective by collective, type by type, size after size.
pub(crate) fn cases(
    collectives: &[Collective],
    dtypes: &[Dtype],
    ops: &[Op],
    sizes: &Sizes,
    n_ranks: u32,
) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for &collective in collectives {
        let ops: Vec<_> =
            if collective.reduces() { ops.iter().copied().map(Some).collect() } else { vec![None] };
        for &dtype in dtypes {
            for &op in &ops {
                for count in sizes.counts(collective, dtype, n_ranks) {
                    cases.push(Case { collective, dtype, op, count, n_ranks }.checked()?);
                }
            }
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_gather_are_those_of_all_ranks() {
        let mut case =
            Case { collective: Collective::AllGather, dtype: Dtype::F16, op: None, count: 3, n_ranks: 5 };
        assert_eq!((case.input_bytes(), case.output_bytes(), case.bytes_total()), (6, 30, 30));
        case.collective = Collective::AllReduce;
        assert_eq!((case.input_bytes(), case.output_bytes(), case.bytes_total()), (6, 6, 6));
        case.collective = Collective::ReduceScatter;
        assert_eq!((case.input_bytes(), case.output_bytes(), case.bytes_total()), (30, 6, 30));
        case.collective = Collective::Broadcast;
        assert_eq!((case.input_bytes(), case.output_bytes(), case.bytes_total()), (6, 6, 6));
        case.collective = Collective::AllToAll;
        assert_eq!((case.input_bytes(), case.output_bytes(), case.bytes_total()), (30, 30, 30));
    }

    #[test]
    fn every_combination_is_there_once() {
        let sizes = Sizes::Range { min: 8, max: 32, factor: 4 };
        let dtypes = [Dtype::F32, Dtype::F16, Dtype::Bf16];
        let made = cases(Collective::ALL, &dtypes, Op::ALL, &sizes, 4).expect("small");
        // Parts of f32: 8 and 32 bytes are 1 and 2 elements a rank; of f16 and bf16: 1 and 4.
        assert_eq!(made.len(), 3 * 5 * 2 + 3 * 2 + 3 * 5 * 2 + 3 * 2 + 3 * 2);
        assert!(made.iter().all(|case| case.op.is_some() == case.collective.reduces()));
        let tiny = Sizes::Range { min: 1, max: 16, factor: 2 };
        let counts: Vec<_> = cases(&[Collective::AllReduce], &[Dtype::F32], &[Op::Sum], &tiny, 4)
            .expect("small")
            .iter()
            .map(|case| case.count)
            .collect();
        assert_eq!(counts, [1, 2, 4]);
    }

    #[test]
    fn refuses_what_overflows() {
        for count in [u64::MAX, 1 << 61, 1 << 60] {
            let sizes = Sizes::Counts(vec![count]);
            let error =
                cases(&[Collective::AllReduce], &[Dtype::F32], &[Op::Sum], &sizes, 2).expect_err("too large");
            assert!(error.to_string().contains(&count.to_string()), "{error}");
        }
    }
}
