//! Rounds of checks: fresh inputs, poisoned outputs and guards before a run; every byte of every rank compared after it.

use crate::case::Case;
use crate::data::{DataKey, mantissa_bits};
use crate::parallel;
use crate::program::{By, Program, Steps};
use crate::reference::{Reference, lift, lower, relative_error};
use crate::team::{GUARD_BYTES, Side, Team};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use symmem::{Collective, Op, Window};

/// No element of any input or result has all bits set.
const POISON: u8 = 0xff;

/// What a round found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Findings {
    /// Wrong elements of outputs, changed elements of inputs and changed guard bytes, over all ranks.
    pub(crate) wrong: u64,
    /// The first of them in words.
    pub(crate) first: Option<String>,
}

impl Findings {
    /// Adds what another round or chunk found.
    pub(crate) fn merge(&mut self, other: Self) {
        self.wrong += other.wrong;
        self.first = self.first.take().or(other.first);
    }

    fn add(&mut self, wrong: u64, first: impl FnOnce() -> String) {
        if wrong > 0 {
            self.wrong += wrong;
            self.first.get_or_insert_with(first);
        }
    }
}

/// One round of one program.
pub(crate) struct Round<'a> {
    team: &'a Team,
    program: &'a Program,
    key: DataKey,
}

impl<'a> Round<'a> {
    /// Names the data of a round.
    pub(crate) fn new(team: &'a Team, program: &'a Program, seed: u64, round: u64) -> Self {
        let (input, output) = program.folds();
        let n_folds = input.max(output).unwrap_or(0).into();
        let in_place = program.steps == Steps::InPlace;
        let key = DataKey::new(seed, &program.case, in_place, round, n_folds);
        Self { team, program, key: if program.by == By::Symmem { key } else { key.small() } }
    }

    /// Poisons both buffers of every rank, sets their guards, and writes the inputs.
    pub(crate) fn prepare(&self) -> Result<()> {
        let case = &self.program.case;
        for rank in self.team.ranks() {
            for (side, len_bytes) in buffers(case, self.program.steps) {
                let mut window = self.team.window(rank, side).clone();
                window.fill_bytes(POISON)?;
                for (salt, first) in guards(len_bytes) {
                    window.write(first as usize, &self.guard(rank, side, salt))?;
                }
            }
        }
        let (chunks, ranks) = (parallel::chunks(case.count), self.team.ranks());
        parallel::for_each(chunks.len() * ranks.len(), |task| {
            let rank = ranks.start + (task / chunks.len()) as u32;
            self.write(rank, chunks[task % chunks.len()])
        })
    }

    fn write(&self, rank: u32, (first, len): (u64, u64)) -> Result<()> {
        let (case, size) = (&self.program.case, self.program.case.dtype.bytes());
        let side = if self.program.steps == Steps::InPlace { Side::Output } else { Side::Input };
        let is_part = self.program.steps == Steps::InPlace && case.collective == Collective::AllGather;
        let base = if is_part { u64::from(rank) * case.part_bytes() } else { 0 };
        (0..u64::from(case.collective.parts(case.n_ranks).0)).try_for_each(|part| {
            let first = part * case.count + first;
            let bytes = self.input(rank, (first, len));
            let place = GUARD_BYTES + base + first * size;
            Ok(self.team.window(rank, side).clone().write(place as usize, &bytes)?)
        })
    }

    /// Compares all that every rank has with what it must have after one run of the program.
    pub(crate) fn compare(&self) -> Result<Findings> {
        let found = Mutex::new(Findings::default());
        let merge = |findings| found.lock().unwrap_or_else(|poison| poison.into_inner()).merge(findings);
        let chunks = parallel::chunks(self.program.case.count);
        parallel::for_each(chunks.len(), |task| {
            merge(match self.program.case.collective {
                Collective::AllReduce => self.compare_reduced(chunks[task])?,
                Collective::AllGather => self.compare_gathered(chunks[task])?,
                Collective::ReduceScatter => self.compare_scattered(chunks[task])?,
                Collective::Broadcast => self.compare_broadcast(chunks[task])?,
                Collective::AllToAll => self.compare_exchanged(chunks[task])?,
            });
            Ok(())
        })?;
        merge(self.compare_guards()?);
        Ok(found.into_inner().unwrap_or_else(|poison| poison.into_inner()))
    }

    /// One rank's input from an element on.
    fn input(&self, rank: u32, (first, len): (u64, u64)) -> Vec<u8> {
        let mut bytes = vec![0; (len * self.program.case.dtype.bytes()) as usize];
        self.key.fill(rank, first, &mut bytes);
        bytes
    }

    fn inputs(&self, chunk: (u64, u64)) -> Vec<Vec<u8>> {
        (0..self.program.case.n_ranks).map(|rank| self.input(rank, chunk)).collect()
    }

    fn compare_reduced(&self, chunk: (u64, u64)) -> Result<Findings> {
        let case = &self.program.case;
        let Some(op) = case.op else { unreachable!("every case of an all-reduce has an op") };
        let reference = Reference { dtype: case.dtype, op, n_ranks: case.n_ranks };
        let inputs = self.inputs(chunk);
        let lifted: Vec<_> = inputs.iter().map(|bytes| lift(case.dtype, bytes)).collect();
        let (input_folds, output_folds) = self.program.folds();
        let mut found = Findings::default();
        if input_folds == Some(0) {
            for (rank, input) in (0..).zip(&inputs).filter(|(rank, _)| self.team.ranks().contains(rank)) {
                found.merge(self.compare_elements(rank, Side::Input, chunk.0, input)?);
            }
        }
        let mut value = reference.reduce(lifted.iter());
        for depth in 1..=self.program.n_ops {
            for (side, folds) in [(Side::Input, input_folds), (Side::Output, output_folds)] {
                if folds == Some(depth) {
                    let expected = lower(case.dtype, &value);
                    for rank in self.team.ranks() {
                        found.merge(self.compare_elements(rank, side, chunk.0, &expected)?);
                    }
                }
            }
            if input_folds.max(output_folds) <= Some(depth) {
                break;
            }
            reference.reduce_equal(&mut value);
        }
        Ok(found)
    }

    /// In place, each operation folds a rank's last result with the others' inputs.
    fn compare_scattered(&self, (first, len): (u64, u64)) -> Result<Findings> {
        let case = &self.program.case;
        let Some(op) = case.op else { unreachable!("every case of a reduce-scatter has an op") };
        let reference = Reference { dtype: case.dtype, op, n_ranks: case.n_ranks };
        let is_in_place = self.program.steps == Steps::InPlace;
        let mut found = Findings::default();
        for owner in 0..case.n_ranks {
            let first_of_part = u64::from(owner) * case.count + first;
            let inputs = self.inputs((first_of_part, len));
            let mut values: Vec<_> = inputs.iter().map(|bytes| lift(case.dtype, bytes)).collect();
            for _ in 0..if is_in_place { self.program.n_ops } else { 1 } {
                values[owner as usize] = reference.reduce(values.iter());
            }
            let result = lower(case.dtype, &values[owner as usize]);
            for rank in self.team.ranks() {
                let input = &inputs[rank as usize];
                found.merge(match (is_in_place, rank == owner) {
                    (true, true) => self.compare_elements(rank, Side::Output, first_of_part, &result)?,
                    (true, false) => self.compare_elements(rank, Side::Output, first_of_part, input)?,
                    (false, _) => self.compare_elements(rank, Side::Input, first_of_part, input)?,
                });
                if !is_in_place && rank == owner {
                    found.merge(self.compare_elements(rank, Side::Output, first, &result)?);
                }
            }
        }
        Ok(found)
    }

    fn compare_gathered(&self, chunk: (u64, u64)) -> Result<Findings> {
        let case = &self.program.case;
        let mut found = Findings::default();
        for (source, input) in (0..).zip(self.inputs(chunk)) {
            for rank in self.team.ranks() {
                let first = u64::from(source) * case.count + chunk.0;
                found.merge(self.compare_elements(rank, Side::Output, first, &input)?);
            }
            if self.program.steps != Steps::InPlace && self.team.ranks().contains(&source) {
                found.merge(self.compare_elements(source, Side::Input, chunk.0, &input)?);
            }
        }
        Ok(found)
    }

    fn compare_broadcast(&self, chunk: (u64, u64)) -> Result<Findings> {
        let inputs = self.inputs(chunk);
        let mut found = Findings::default();
        for rank in self.team.ranks() {
            let message = &inputs[self.program.case.root() as usize];
            found.merge(self.compare_elements(rank, Side::Output, chunk.0, message)?);
            if self.program.steps != Steps::InPlace {
                found.merge(self.compare_elements(rank, Side::Input, chunk.0, &inputs[rank as usize])?);
            }
        }
        Ok(found)
    }

    fn compare_exchanged(&self, (first, len): (u64, u64)) -> Result<Findings> {
        let case = &self.program.case;
        let mut found = Findings::default();
        for receiver in 0..case.n_ranks {
            let part_at = |rank: u32| u64::from(rank) * case.count + first;
            for (sender, part) in (0..).zip(self.inputs((part_at(receiver), len))) {
                if self.team.ranks().contains(&receiver) {
                    found.merge(self.compare_elements(receiver, Side::Output, part_at(sender), &part)?);
                }
                if self.team.ranks().contains(&sender) {
                    found.merge(self.compare_elements(sender, Side::Input, part_at(receiver), &part)?);
                }
            }
        }
        Ok(found)
    }

    /// Compares elements of a buffer from `first` on.
    fn compare_elements(&self, rank: u32, side: Side, first: u64, expected: &[u8]) -> Result<Findings> {
        let size = self.program.case.dtype.bytes() as usize;
        let place = GUARD_BYTES as usize + first as usize * size;
        let is_alike = |found: &[u8], expected: &[u8]| {
            let dtype = self.program.case.dtype;
            self.relative_tolerance().is_some_and(|most| relative_error(dtype, found, expected) <= most)
        };
        let (wrong, at) = compare_bytes(self.team.window(rank, side), place, expected, size, is_alike)?;
        let mut found = Findings::default();
        found.add(wrong, || {
            let at = at.unwrap_or_default();
            format!("{side:?} of rank {rank}, element {}: {}", first + at.index, at.text)
        });
        Ok(found)
    }

    /// How far off a result may be, where another library rounds by rules of its own: NCCL multiplies by 1/n before it
    /// sums, which is exact for powers of two alone.
    fn relative_tolerance(&self) -> Option<f64> {
        let case = &self.program.case;
        let may_differ =
            self.program.by != By::Symmem && case.op == Some(Op::Avg) && !case.n_ranks.is_power_of_two();
        let epsilon = 2_f64.powi(-(mantissa_bits(case.dtype) as i32));
        (may_differ && epsilon < 1.0).then_some(f64::from(case.n_ranks) * epsilon)
    }

    fn compare_guards(&self) -> Result<Findings> {
        let mut found = Findings::default();
        for rank in self.team.ranks() {
            for (side, len_bytes) in buffers(&self.program.case, self.program.steps) {
                for (salt, first) in guards(len_bytes) {
                    let expected = self.guard(rank, side, salt);
                    let window = self.team.window(rank, side);
                    let (wrong, at) = compare_bytes(window, first as usize, &expected, 1, |_, _| false)?;
                    found.add(wrong, || {
                        let at = at.unwrap_or_default();
                        let place = if salt == 0 { "before" } else { "after" };
                        format!("guard {place} the {side:?} of rank {rank}, byte {}: {}", at.index, at.text)
                    });
                }
            }
        }
        Ok(found)
    }

    /// A guard's content: different for each, so that one copied over another is seen.
    fn guard(&self, rank: u32, side: Side, salt: u64) -> Vec<u8> {
        let words = 0..GUARD_BYTES / 8;
        let word =
            |word| self.key.salted(u64::from(rank) << 8 | (side as u64) << 5 | salt << 4 | word | 1 << 63);
        words.flat_map(|index| word(index).to_le_bytes()).collect()
    }
}

/// The buffers of a rank and their lengths in bytes. In place, the output is the larger buffer of all.
fn buffers(case: &Case, steps: Steps) -> [(Side, u64); 2] {
    let output_bytes = if steps == Steps::InPlace { case.bytes_total() } else { case.output_bytes() };
    [(Side::Input, case.input_bytes()), (Side::Output, output_bytes)]
}

/// Where the guards of a buffer lie in its window: number and first byte.
fn guards(len_bytes: u64) -> [(u64, u64); 2] {
    [(0, 0), (1, GUARD_BYTES + len_bytes)]
}

/// Where the first difference is.
#[derive(Debug, Default)]
struct Difference {
    index: u64,
    text: String,
}

/// Counts the elements of a window, `size` bytes each, that are neither as expected nor alike.
fn compare_bytes(
    window: &Window<u8>,
    place: usize,
    expected: &[u8],
    size: usize,
    is_alike: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<(u64, Option<Difference>)> {
    let mut found = vec![0; expected.len()];
    window.read(place, &mut found)?;
    Ok(differences(&found, expected, size, is_alike))
}

fn differences(
    found: &[u8],
    expected: &[u8],
    size: usize,
    is_alike: impl Fn(&[u8], &[u8]) -> bool,
) -> (u64, Option<Difference>) {
    if found == expected {
        return (0, None);
    }
    let pairs = found.chunks_exact(size).zip(expected.chunks_exact(size));
    let mut wrong =
        pairs.enumerate().filter(|(_, (found, expected))| found != expected && !is_alike(found, expected));
    let hex =
        |bytes: &[u8]| bytes.iter().rev().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    let first = wrong.next().map(|(index, (found, expected))| Difference {
        index: index as u64,
        text: format!("{} where {} was expected", hex(found), hex(expected)),
    });
    (wrong.count() as u64 + u64::from(first.is_some()), first)
}

#[cfg(test)]
mod tests;
