//! NCCL's side of a row: its programs, whether their results are right, and what they took or why they did not.

use crate::case::Case;
use crate::check::Round;
use crate::measure::{Settings, program};
use crate::nccl::Buffers;
use crate::program::{By, Program, Steps};
use crate::team::Team;
use crate::timer::Spread;
use anyhow::{Context, Result, bail};

/// What NCCL gave in a row with one kind of buffers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Theirs {
    pub(crate) time_us: Option<Spread>,
    /// Why there is no time.
    pub(crate) note: Option<String>,
}

/// NCCL with one kind of buffers.
pub(crate) struct Rival {
    /// What is timed; none where something is in its way.
    pub(crate) program: Option<Program>,
    pub(crate) outcome: Theirs,
}

impl Rival {
    /// Takes it out of the row.
    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        self.program = None;
        self.outcome.note = Some(format!("{error:#}"));
    }
}

/// NCCL's programs for a row, each run once and found right. Nothing is there where NCCL is not compared with.
pub(crate) fn programs(team: &mut Team, case: &Case, steps: Steps, settings: &Settings) -> [Rival; 2] {
    Buffers::ALL.map(|buffers| {
        let mut rival = Rival { program: None, outcome: Theirs::default() };
        if team.has_rivals() {
            match checked(team, buffers, case, steps, settings) {
                Ok(program) => rival.program = Some(program),
                Err(error) => rival.fail(&error),
            }
        }
        rival
    })
}

fn checked(
    team: &mut Team,
    buffers: Buffers,
    case: &Case,
    steps: Steps,
    settings: &Settings,
) -> Result<Program> {
    if let Some(reason) = team.rival_lacks(buffers) {
        bail!("{reason}");
    }
    let by = By::Nccl(buffers);
    // The first call connects the ranks, which a capture had better not see.
    let first = Program::eager(by, case, steps, 1);
    if steps.feed_back(case) {
        // Results that are fed back do not stay small: one operation is looked at.
        check(team, &first, settings)?;
        return program(team, by, case, steps, settings);
    }
    first.launch(team)?;
    first.synchronize(team)?;
    let program = program(team, by, case, steps, settings)?;
    check(team, &program, settings)?;
    Ok(program)
}

/// Runs a program on inputs whose result does not depend on how it is rounded.
fn check(team: &mut Team, program: &Program, settings: &Settings) -> Result<()> {
    let round = u64::MAX - 1;
    Round::new(team, program, settings.seed, round).prepare().context("writing inputs")?;
    program.launch(team)?;
    program.synchronize(team)?;
    if settings.rounds == 0 {
        return Ok(());
    }
    let found = Round::new(team, program, settings.seed, round).compare().context("comparing")?;
    if let Some(first) = found.first {
        bail!("{} wrong: {first}", found.wrong);
    }
    Ok(())
}
