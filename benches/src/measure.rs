//! One row: programs are built, checked in rounds, and timed or counted.

use crate::case::Case;
use crate::check::{Findings, Round};
use crate::program::{Program, Steps};
use crate::team::Team;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use symmem::backend::WorkCounters;
use symmem::{Algorithm, Event};

/// Measurements of one row; the median is reported.
pub(crate) const REPETITIONS: usize = 5;
/// Bound on the wait for an event behind work that has been waited for already.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How rows are run and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Operations launched one by one, timed.
    Eager,
    /// A graph of operations, replayed, timed.
    Graph,
    /// The simulated machine: counted, not timed.
    Sim,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Graph => "graph",
            Self::Sim => "sim",
        }
    }
}

/// What is done for every row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    /// Operations of one program.
    pub(crate) iterations: u32,
    /// Operations before those that are timed.
    pub(crate) warmup: u32,
    /// Replays of the graph that are timed together; 0 launches operations one by one.
    pub(crate) replays: u32,
    /// Rounds of checks.
    pub(crate) rounds: u64,
    /// Bytes of output that the rounds of one row compare at most.
    pub(crate) check_bytes_max: Option<u64>,
    pub(crate) seed: u64,
    /// The algorithm that was asked for.
    pub(crate) algorithm: Option<Algorithm>,
}

/// What a row gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) algorithm: Option<Algorithm>,
    /// Median time of an operation, and the extremes.
    pub(crate) time_us: Option<Spread>,
    /// Work of one operation on the simulated machine.
    pub(crate) work: Option<WorkCounters>,
    /// Chains of link crossings are not followed from process to process.
    pub(crate) no_hops: bool,
    pub(crate) checked_rounds: u64,
    pub(crate) findings: Findings,
}

/// Several measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` of nothing, or of what is no number.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        [min, median, max].iter().all(|value| value.is_finite()).then_some(Self { median, min, max })
    }
}

impl Settings {
    /// Rounds of checks for a case, fewer than asked for if it is large.
    pub(crate) fn rounds_of(&self, case: &Case) -> u64 {
        let bytes = (case.bytes_total() * u64::from(case.n_ranks)).max(1);
        let limit = self.check_bytes_max.map_or(u64::MAX, |max| (max / bytes).max(1));
        self.rounds.min(limit)
    }
}

/// Measures one row.
pub(crate) fn measure(team: &mut Team, case: &Case, in_place: bool, settings: &Settings) -> Result<Outcome> {
    let plan = team.comms[0].plan(case.collective, case.count, case.dtype, case.op)?;
    let algorithm = plan.kernel.algorithm;
    ensure!(
        settings.algorithm.is_none_or(|asked| asked == algorithm),
        "{} was asked for and {algorithm} would run",
        settings.algorithm.map_or("", Algorithm::name)
    );
    let algorithm = (case.count > 0).then_some(algorithm);
    let steps = Steps::of(case, in_place, settings.iterations);
    let build = |steps: &Steps| program(team, case, *steps, settings);
    let programs = steps.iter().map(build).collect::<Result<Vec<_>>>()?;
    let mut outcome = Outcome { algorithm, checked_rounds: settings.rounds_of(case), ..Outcome::default() };
    check(team, &programs, settings, &mut outcome)?;
    if settings.mode != Mode::Sim {
        outcome.time_us = time(team, &programs[0], settings).context("timing")?;
    }
    Ok(outcome)
}

fn program(team: &mut Team, case: &Case, steps: Steps, settings: &Settings) -> Result<Program> {
    match settings.replays {
        0 => Ok(Program::eager(case, steps, settings.iterations)),
        _ => Program::captured(team, case, steps, settings.iterations).context("capturing"),
    }
}

/// Runs the rounds; programs take turns. On the simulated machine these are the runs that are counted, so there is one
/// at least.
fn check(team: &mut Team, programs: &[Program], settings: &Settings, outcome: &mut Outcome) -> Result<()> {
    let counted = u64::from(settings.mode == Mode::Sim);
    let rounds = outcome.checked_rounds.max(counted);
    let mut work = WorkCounters::default();
    let mut n_ops = 0;
    for round in 0..rounds {
        let program = &programs[round as usize % programs.len()];
        Round::new(team, program, settings.seed, round).prepare().context("writing inputs")?;
        // No rank stores into a buffer of another process before that is prepared.
        team.meet()?;
        let before = team.counters();
        program.launch(team)?;
        team.synchronize()?;
        if let (Some(before), Some(after)) = (before, team.counters()) {
            work.instructions += after.instructions - before.instructions;
            work.link_bytes += after.link_bytes - before.link_bytes;
            work.hops += after.hops - before.hops;
            n_ops += u64::from(program.n_ops);
        }
        if round < outcome.checked_rounds {
            let found = Round::new(team, program, settings.seed, round).compare().context("comparing")?;
            outcome.findings.merge(found);
        }
    }
    outcome.no_hops = team.spans_processes();
    outcome.work = summed(team, work)?.filter(|_| n_ops > 0).map(|work| WorkCounters {
        instructions: work.instructions / n_ops,
        link_bytes: work.link_bytes / n_ops,
        hops: work.hops / n_ops,
    });
    for found in team.gather(&std::mem::take(&mut outcome.findings))? {
        outcome.findings.merge(found);
    }
    Ok(())
}

/// The work of all processes.
fn summed(team: &mut Team, work: WorkCounters) -> Result<Option<WorkCounters>> {
    let of_all = team.gather(&(work.instructions, work.link_bytes, work.hops))?;
    Ok(of_all
        .into_iter()
        .map(|(instructions, link_bytes, hops)| WorkCounters { instructions, link_bytes, hops })
        .reduce(|sum, one| WorkCounters {
            instructions: sum.instructions + one.instructions,
            link_bytes: sum.link_bytes + one.link_bytes,
            hops: sum.hops.max(one.hops),
        }))
}

/// Time of one operation in microseconds: the slowest rank's, the median of several measurements.
fn time(team: &mut Team, program: &Program, settings: &Settings) -> Result<Option<Spread>> {
    let events = |team: &Team| -> symmem::Result<Vec<Event>> {
        team.comms.iter().map(|comm| Event::with_timing(comm.device())).collect()
    };
    let (starts, ends) = (events(team)?, events(team)?);
    let warmup = Program::eager(&program.case, program.steps, settings.warmup);
    let n_replays = settings.replays.max(1);
    let mut times_us = Vec::new();
    for _ in 0..REPETITIONS {
        // Results that are fed back leave the range of the type; each repetition starts from numbers.
        Round::new(team, program, settings.seed, u64::MAX).prepare()?;
        team.meet()?;
        // The warm-up runs while what is timed is launched behind it, which hides how long the first launch takes.
        warmup.launch(team)?;
        if settings.replays > 0 {
            program.launch(team)?;
        }
        record(&starts, team)?;
        (0..n_replays).try_for_each(|_| program.launch(team))?;
        record(&ends, team)?;
        team.synchronize()?;
        let slowest_us = slowest_us(&starts, &ends)?;
        let slowest_us = team.gather(&slowest_us)?.into_iter().flatten().reduce(f64::max);
        times_us.extend(slowest_us.map(|us| us / f64::from(n_replays) / f64::from(program.n_ops)));
    }
    Ok(Spread::of(times_us))
}

fn record(events: &[Event], team: &Team) -> symmem::Result<()> {
    events.iter().zip(&team.streams).try_for_each(|(event, stream)| event.record(stream))
}

fn slowest_us(starts: &[Event], ends: &[Event]) -> symmem::Result<Option<f64>> {
    let mut slowest: Option<f64> = None;
    for (start, end) in starts.iter().zip(ends) {
        end.wait(EVENT_TIMEOUT)?;
        let elapsed_us = end.elapsed_us_since(start)?;
        slowest = elapsed_us.map(|us| slowest.map_or(us, |slowest| slowest.max(us)));
    }
    Ok(slowest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use symmem::{Collective, Dtype};

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, f64::NAN]), None);
        assert_eq!(spread(&[f64::INFINITY]), None);
    }

    #[test]
    fn rounds_are_lowered_only_when_asked() {
        let mut settings = Settings {
            mode: Mode::Graph,
            iterations: 20,
            warmup: 5,
            replays: 10,
            rounds: 100,
            check_bytes_max: None,
            seed: 1,
            algorithm: None,
        };
        let case = |count| Case {
            collective: Collective::AllGather,
            dtype: Dtype::F32,
            op: None,
            count,
            n_ranks: 4,
        };
        assert_eq!(settings.rounds_of(&case(1 << 30)), 100);
        settings.check_bytes_max = Some(64 << 20);
        // A count of 2^16 is 1 MiB of output on each of 4 ranks.
        assert_eq!([0, 1, 1 << 16, 1 << 30].map(|count| settings.rounds_of(&case(count))), [100, 100, 16, 1]);
    }
}
