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

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::case::{Sizes, cases};
    use crate::measure::{Mode, measure};
    use crate::memory::Memory;
    use crate::nccl::fake::{Asked, Fake, Fault};
    use crate::timer::REPETITIONS;
    use symmem::sim::{SimConfig, SimMachine};
    use symmem::{Collective, CommConfig, Dtype, Machine, Op};

    fn settings(mode: Mode) -> Settings {
        Settings {
            mode,
            iterations: 3,
            warmup: 2,
            replays: 0,
            is_looped: false,
            rounds: 1,
            check_bytes_max: None,
            seed: 1,
            algorithm: None,
        }
    }

    /// A team of three with the fake beside it, and what the fake says of joining.
    fn team(fault: Fault, memory: Memory, cases: &[Case]) -> (Team, Fake, Result<()>) {
        let config = SimConfig { n_devices: 3, ..SimConfig::default() };
        let machine = Machine::from_backend(SimMachine::new(config).expect("a valid machine"));
        let config =
            CommConfig { dtypes: Dtype::ALL.to_vec(), ops: Op::ALL.to_vec(), ..CommConfig::default() };
        let mut team = Team::new(&machine, 3, None, &config, memory, cases).expect("a team");
        let fake = Fake::new(&machine, fault);
        let joined = team.challenge(&fake.nccl());
        (team, fake, joined)
    }

    fn all_cases() -> Vec<Case> {
        cases(Collective::ALL, Dtype::ALL, Op::ALL, &Sizes::Counts(vec![5]), 3).expect("small")
    }

    /// Measures all cases and gives what was said of the rivals, R0 then R2.
    fn notes(fault: Fault, cases: &[Case]) -> Vec<(Case, [Option<String>; 2])> {
        let (mut team, _fake, joined) = team(fault, Memory::Register, cases);
        joined.expect("it joins");
        let mut notes = Vec::new();
        let places = |case: &Case| [false, true].into_iter().take(case.n_places() as usize);
        for (case, in_place) in cases.iter().flat_map(|case| places(case).map(move |place| (case, place))) {
            let outcome = measure(&mut team, case, in_place, &settings(Mode::Sim)).expect("ours is right");
            assert_eq!(outcome.findings.wrong, 0, "{case:?}");
            notes.push((*case, outcome.nccl.map(|theirs| theirs.note)));
        }
        notes
    }

    #[test]
    fn right_results_are_found_right_whatever_is_reduced() {
        for (case, notes) in notes(Fault::None, &all_cases()) {
            assert_eq!(notes, [None, None], "{case:?}");
        }
    }

    #[test]
    fn wrong_results_are_found_wrong() {
        for (case, notes) in notes(Fault::WrongResults, &all_cases()) {
            for note in notes {
                assert!(
                    note.as_ref().is_some_and(|note| note.contains("wrong: Output of rank 0")),
                    "{case:?}: {note:?}"
                );
            }
        }
    }

    #[test]
    fn what_it_lacks_is_said_and_the_rest_goes_on() {
        let float = all_cases().into_iter().find(|case| case.dtype == Dtype::F32).expect("one");
        let lacks = [
            (Fault::NoWindows, "NCCL 2.28.3 lacks ncclCommWindowRegister"),
            (Fault::NullWindows, "gave 0 windows for 6 buffers"),
            (Fault::RefusedWindows, "ncclCommWindowRegister failed with 4 (invalid argument)"),
        ];
        for (fault, reason) in lacks {
            for (_, [r0, r2]) in notes(fault, &[float]) {
                assert!(
                    r0.is_none() && r2.as_ref().is_some_and(|note| note.contains(reason)),
                    "{fault:?}: {r2:?}"
                );
            }
        }
        for (case, notes) in notes(Fault::NoFp8, &all_cases()) {
            let is_fp8 = matches!(case.dtype, Dtype::E4m3 | Dtype::E5m2);
            for note in notes {
                assert_eq!(
                    note.is_some_and(|note| note.contains("failed with 4 (invalid argument)")),
                    is_fp8,
                    "{case:?}"
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_joined_is_an_error_of_the_whole() {
        let (team, _fake, joined) = team(Fault::NoInit, Memory::Register, &all_cases()[..1]);
        let error = format!("{:#}", joined.expect_err("no communicators"));
        assert!(
            error.contains("ncclCommInitAll failed with 5 (invalid usage)") && !team.has_rivals(),
            "{error}"
        );
    }

    /// Ordinary buffers first, then windows, as often as there are repetitions; and all that was made is undone, windows
    /// before their communicators.
    #[test]
    fn they_take_turns_and_leave_nothing() {
        for memory in [Memory::Alloc, Memory::Register] {
            let cases = &all_cases()[..1];
            let (mut team, fake, joined) = team(Fault::None, memory, cases);
            joined.expect("it joins");
            let mut expected = vec![Asked::Init(0), Asked::Init(1)];
            expected.extend([Asked::Register(1); 6]);
            assert_eq!(fake.asked(), expected);
            let settings = settings(Mode::Eager);
            measure(&mut team, &cases[0], false, &settings).expect("measured");
            // One operation before all, three that are checked; then two to warm up and three that are timed, in turns.
            let checked = [[Asked::Run(0); 4], [Asked::Run(1); 4]].concat();
            let turn = [[Asked::Run(0); 5], [Asked::Run(1); 5]].concat();
            let all: Vec<_> = checked.into_iter().chain(turn.repeat(REPETITIONS)).collect();
            assert_eq!(fake.asked(), all);
            drop(team);
            let mut expected = vec![Asked::Destroy(0); 3];
            expected.extend([Asked::Deregister(1); 6]);
            expected.extend([Asked::Destroy(1); 3]);
            assert_eq!(fake.asked(), expected);
        }
    }
}
