//! That the check sees what is wrong.

use super::*;

#[test]
fn differences_are_counted_by_element() {
    let expected = [1u8, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(differences(&expected, &expected, 4, |_, _| false).0, 0);
    let mut found = expected;
    (found[5], found[6]) = (0, 0);
    let (wrong, first) = differences(&found, &expected, 4, |_, _| false);
    let first = first.expect("one differs");
    assert_eq!((wrong, first.index), (1, 1));
    assert_eq!(first.text, "0x08000005 where 0x08070605 was expected");
    assert_eq!(differences(&found, &expected, 2, |_, _| false).0, 2);
}

#[test]
fn findings_keep_the_first() {
    let mut findings = Findings::default();
    findings.add(0, || "none".into());
    findings.add(2, || "two".into());
    findings.merge(Findings { wrong: 3, first: Some("three".into()) });
    assert_eq!(findings, Findings { wrong: 5, first: Some("two".into()) });
}

/// A check that cannot fail is none: each byte that a round looks at is spoilt once, and seen.
#[cfg(feature = "sim")]
mod on_the_simulated_machine {
    use super::*;
    use crate::memory::Memory;
    use crate::team::Team;
    use symmem::sim::{SimConfig, SimMachine};
    use symmem::{CommConfig, Dtype, Machine};

    fn team(case: &Case) -> Team {
        let config = SimConfig { n_devices: case.n_ranks, ..SimConfig::default() };
        let machine = Machine::from_backend(SimMachine::new(config).expect("a valid machine"));
        let config = CommConfig::default();
        Team::new(&machine, case.n_ranks, None, &config, Memory::Alloc, &[*case]).expect("a team")
    }

    fn case(collective: Collective) -> Case {
        let op = collective.reduces().then_some(Op::Sum);
        Case { collective, dtype: Dtype::Bf16, op, count: 5, n_ranks: 3 }
    }

    /// Runs a round, changes one byte, and gives what is found.
    fn spoilt(team: &mut Team, program: &Program, rank: u32, side: Side, byte: u64) -> Findings {
        Round::new(team, program, 1, 0).prepare().expect("inputs are written");
        program.launch(team).expect("launched");
        team.synchronize().expect("done");
        assert_eq!(Round::new(team, program, 1, 0).compare().expect("compared"), Findings::default());
        let mut window = team.window(rank, side).clone();
        let mut value = [0];
        window.read(byte as usize, &mut value).expect("inside");
        window.write(byte as usize, &[value[0] ^ 1]).expect("inside");
        Round::new(team, program, 1, 0).compare().expect("compared")
    }

    #[test]
    fn every_byte_that_matters_is_looked_at() {
        for &collective in Collective::ALL {
            let case = case(collective);
            let mut team = team(&case);
            let all_steps = [Steps::Repeat, Steps::InPlace];
            for &steps in &all_steps[..case.n_places() as usize] {
                let program = Program::eager(By::Symmem, &case, steps, 2);
                for (side, len_bytes) in buffers(&case, steps) {
                    for byte in 0..len_bytes + 2 * GUARD_BYTES {
                        let is_guard = byte < GUARD_BYTES || byte >= GUARD_BYTES + len_bytes;
                        let is_used = steps != Steps::InPlace || side == Side::Output;
                        let found = spoilt(&mut team, &program, 2, side, byte);
                        assert_eq!(
                            found.wrong,
                            u64::from(is_guard || is_used),
                            "{collective} {steps:?} {side:?} {byte}"
                        );
                        assert_eq!(found.first.is_some_and(|text| text.contains("rank 2")), found.wrong > 0);
                    }
                }
            }
        }
    }

    /// One operation too few, and the results of the round before, are both wrong.
    #[test]
    fn a_lost_operation_and_stale_data_are_seen() {
        let case = case(Collective::AllReduce);
        let mut team = team(&case);
        for steps in [Steps::Chain, Steps::InPlace] {
            let (whole, short) =
                (Program::eager(By::Symmem, &case, steps, 4), Program::eager(By::Symmem, &case, steps, 3));
            Round::new(&team, &whole, 1, 0).prepare().expect("inputs are written");
            short.launch(&mut team).expect("launched");
            team.synchronize().expect("done");
            let found = Round::new(&team, &whole, 1, 0).compare().expect("compared");
            assert!(found.wrong >= 3 * 4, "{steps:?}: {found:?}");
            let found = Round::new(&team, &short, 1, 1).compare().expect("compared");
            assert!(found.wrong >= 3 * 4, "{steps:?}: {found:?}");
        }
    }

    #[test]
    fn what_was_never_run_is_wrong_everywhere() {
        for &collective in Collective::ALL {
            let case = case(collective);
            let team = team(&case);
            let program = Program::eager(By::Symmem, &case, Steps::Repeat, 1);
            let round = Round::new(&team, &program, 1, 0);
            round.prepare().expect("inputs are written");
            let elements = case.output_bytes() / case.dtype.bytes() * u64::from(case.n_ranks);
            assert_eq!(round.compare().expect("compared").wrong, elements);
        }
    }
}
