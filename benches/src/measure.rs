//! One row: programs are built, checked in rounds, and timed or counted.

use crate::case::Case;
use crate::check::{Findings, Round};
use crate::program::{By, Program, Steps};
use crate::rates::{Rates, rates};
use crate::rivals::{self, Theirs};
use crate::team::Team;
use crate::timer::{self, Spread};
use anyhow::{Context, Result, ensure};
use symmem::Algorithm;
use symmem::backend::WorkCounters;

/// How rows are run and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Operations launched one by one, timed.
    Eager,
    /// A graph of operations, replayed, timed.
    Graph,
    /// Operations launched one by one: the time that the calls take on the host.
    Host,
    /// Operations that one kernel does one after the other, timed.
    Device,
    /// The simulated machine: counted, not timed.
    Sim,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Graph => "graph",
            Self::Host => "host",
            Self::Device => "device",
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
    /// Replays of the graph that are timed together; 0 launches operations one by one. Where one kernel does them, so
    /// many times as many operations are timed.
    pub(crate) replays: u32,
    /// Whether one kernel does all operations.
    pub(crate) is_looped: bool,
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
    /// What NCCL gave with ordinary buffers and with windows, where it is compared with.
    pub(crate) nccl: [Theirs; 2],
}

impl Outcome {
    /// Bandwidths; the time of calls on the host is not that of the data.
    pub(crate) fn rates(&self, case: &Case, mode: Mode) -> Option<Rates> {
        self.time_us.filter(|_| mode != Mode::Host).and_then(|time| rates(case, time.median))
    }

    /// The better of NCCL's times over ours: above 1 where ours is faster.
    pub(crate) fn ratio_to_nccl(&self) -> Option<f64> {
        let theirs = self.nccl.iter().filter_map(|theirs| theirs.time_us).map(|time| time.median);
        let ratio = theirs.reduce(f64::min)? / self.time_us?.median;
        ratio.is_finite().then_some(ratio)
    }
}

impl Settings {
    /// How operations are launched and what is timed of it, by the word of the command line; also where nothing is.
    pub(crate) fn timing(&self) -> &'static str {
        match (self.mode, self.is_looped, self.replays) {
            (_, true, _) => Mode::Device.name(),
            (Mode::Host, ..) => Mode::Host.name(),
            (_, _, 0) => Mode::Eager.name(),
            _ => Mode::Graph.name(),
        }
    }

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
    // A kernel that repeats an operation has one input and one output.
    let steps = if settings.is_looped { &steps[..1] } else { steps };
    let build = |steps: &Steps| program(team, By::Symmem, case, *steps, settings);
    let programs = steps.iter().map(build).collect::<Result<Vec<_>>>()?;
    let mut outcome = Outcome { algorithm, checked_rounds: settings.rounds_of(case), ..Outcome::default() };
    check(team, &programs, settings, &mut outcome)?;
    let mut rivals = rivals::programs(team, case, steps[0], settings);
    if settings.mode != Mode::Sim {
        outcome.time_us = timer::time(team, &programs[0], &mut rivals, settings).context("timing")?;
    }
    outcome.nccl = rivals.map(|rival| rival.outcome);
    Ok(outcome)
}

/// The operations of a row, launched as the settings say.
pub(crate) fn program(
    team: &mut Team,
    by: By,
    case: &Case,
    steps: Steps,
    settings: &Settings,
) -> Result<Program> {
    match settings.replays {
        _ if settings.is_looped => Ok(Program::looped(case, steps, settings.iterations)),
        0 => Ok(Program::eager(by, case, steps, settings.iterations)),
        _ => Program::captured(team, by, case, steps, settings.iterations).context("capturing"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use symmem::{Collective, Dtype};

    #[test]
    fn rounds_are_lowered_only_when_asked() {
        let mut settings = Settings {
            mode: Mode::Graph,
            iterations: 20,
            warmup: 5,
            replays: 10,
            is_looped: false,
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
