//! Which runs a kernel gets, and who runs them.

use crate::bed::{BLOCKS, Bed, Shape};
use crate::cli::KindChoice;
use crate::finding::Finding;
use crate::program::{self, N_QUICK, PROGRAMS};
use crate::select::Subject;
use crate::subject::Run;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use symmem::Algorithm;
use symmem::sim::{ProbeKind, Schedule};
use symmem_device::kernels::KernelSpec;

/// What every kernel gets.
#[derive(Clone, Debug)]
pub(crate) struct Campaign {
    pub(crate) ranks: Vec<u32>,
    pub(crate) seeds: u64,
    pub(crate) kinds: Vec<KindChoice>,
    pub(crate) probes: &'static [ProbeKind],
}

/// What came of a kernel's runs.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) n_runs: u64,
    pub(crate) finding: Option<Finding>,
    pub(crate) time: Duration,
}

/// A step through all combinations that has no factor in common with their number, so that few seeds already meet each
/// program, each kind of schedule and each probe, and pairs of the latter two.
const STRIDE: u64 = 25;

impl Campaign {
    /// The run of a kernel at `n_ranks` with that seed.
    pub(crate) fn run(&self, subject: &str, n_ranks: u32, seed: u64) -> Run {
        let place = seed * STRIDE;
        let (n_programs, n_kinds) = (N_QUICK as u64, self.kinds.len() as u64);
        let choose = |n: u64, per: u64| ((place / per) % n) as usize;
        let kind = self.kinds[choose(n_kinds, n_programs)];
        let program = &PROGRAMS[choose(n_programs, 1)];
        let n_threads = u64::from(n_ranks * BLOCKS * program.threads);
        Run {
            subject: subject.into(),
            n_ranks,
            program: program.name.into(),
            probe: self.probes[choose(self.probes.len() as u64, n_programs * n_kinds)],
            schedule: Schedule { kind: kind.kind(n_threads), seed },
        }
    }

    /// As [`Self::run`], of the program that a subject has to itself, if it has one.
    pub(crate) fn run_of(&self, subject: &Subject, n_ranks: u32, seed: u64) -> Run {
        let run = self.run(subject.kernel.name, n_ranks, seed);
        match subject.program {
            Some(program) => Run { program: program.name.into(), ..run },
            None => run,
        }
    }

    /// All runs of a subject, until one finds something.
    pub(crate) fn check(&self, subject: &Subject, beds: &mut Beds) -> Result<Outcome> {
        let started = Instant::now();
        let mut n_runs = 0;
        for &n_ranks in &self.ranks {
            for seed in 0..self.seeds {
                let run = self.run_of(subject, n_ranks, seed);
                n_runs += 1;
                if let Some(finding) = beds.run(&run, subject.kernel)? {
                    return Ok(Outcome { n_runs, finding: Some(finding), time: started.elapsed() });
                }
            }
        }
        Ok(Outcome { n_runs, finding: None, time: started.elapsed() })
    }
}

/// The beds of one worker, which it uses again as long as the algorithm stays.
#[derive(Default)]
pub(crate) struct Beds {
    algorithm: Option<Algorithm>,
    by_shape: BTreeMap<Shape, Bed>,
}

impl Beds {
    /// Runs a kernel of the table.
    pub(crate) fn run(&mut self, run: &Run, kernel: &KernelSpec) -> Result<Option<Finding>> {
        let program = program::find(&run.program).with_context(|| format!("{run}: no such program"))?;
        let shape = Shape::of(program, run.n_ranks);
        let found = self.bed(shape, kernel.algorithm)?.run(run, kernel, program);
        if shape.is_patient || !matches!(found, Ok(None)) {
            // An error may leave communicators in any state.
            self.by_shape.remove(&shape);
        }
        found.with_context(|| run.to_string())
    }

    /// All beds that there are.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Bed> {
        self.by_shape.values()
    }

    /// The bed of a shape.
    pub(crate) fn bed(&mut self, shape: Shape, algorithm: Algorithm) -> Result<&mut Bed> {
        if self.algorithm != Some(algorithm) {
            self.by_shape.clear();
            self.algorithm = Some(algorithm);
        }
        match self.by_shape.entry(shape) {
            Entry::Occupied(bed) => Ok(bed.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Bed::new(shape, algorithm)?)),
        }
    }
}

/// Works on every item, on `jobs` threads, each with a state of its own, and hands each result to `take` as it comes.
pub(crate) fn in_parallel<T: Sync, S: Default, R: Send>(
    items: &[T],
    jobs: usize,
    work: impl Fn(&T, &mut S) -> R + Sync,
    mut take: impl FnMut(&T, R),
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                let mut state = S::default();
                while let Some((index, item)) =
                    items.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed))
                {
                    if sender.send((index, work(item, &mut state))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        results.iter().for_each(|(index, result)| take(&items[index], result));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ProbeChoice;
    use clap::ValueEnum;
    use std::collections::BTreeSet;

    fn campaign(kinds: &[KindChoice], probe: ProbeChoice) -> Campaign {
        Campaign { ranks: vec![2], seeds: 0, kinds: kinds.to_vec(), probes: probe.probes() }
    }

    /// Programs, kinds and probes of the first `n` seeds.
    fn runs(campaign: &Campaign, n: usize) -> Vec<[String; 3]> {
        let of = |seed| {
            let run = campaign.run("kernel", 2, seed);
            let schedule = run.schedule.to_string();
            let kind = schedule.split(':').next().expect("a name").to_owned();
            [run.program, kind, format!("{:?}", run.probe)]
        };
        (0..n as u64).map(of).collect()
    }

    #[test]
    fn as_many_seeds_as_combinations_meet_each_once() {
        let all = KindChoice::value_variants();
        for n_kinds in 1..=all.len() {
            for &probe in ProbeChoice::value_variants() {
                let n = N_QUICK * n_kinds * probe.probes().len();
                let met: BTreeSet<_> = runs(&campaign(&all[..n_kinds], probe), n).into_iter().collect();
                assert_eq!(met.len(), n, "{n_kinds} kinds, {probe:?}");
            }
        }
    }

    /// With the three kinds and two probes that are used by default.
    #[test]
    fn few_seeds_meet_each_program_and_each_kind_with_each_probe() {
        let campaign = campaign(&KindChoice::value_variants()[..3], ProbeChoice::Both);
        let programs: BTreeSet<_> =
            runs(&campaign, N_QUICK).into_iter().map(|[program, ..]| program).collect();
        let pairs: BTreeSet<_> =
            runs(&campaign, 6).into_iter().map(|[_, kind, probe]| (kind, probe)).collect();
        assert_eq!((programs.len(), pairs.len()), (N_QUICK, 6));
    }
}
