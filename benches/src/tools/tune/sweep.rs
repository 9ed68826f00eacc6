//! Times of every algorithm, size after size.

use super::Budget;
use super::crossover::Column;
use crate::case::Case;
use crate::measure::{Mode, Settings};
use crate::program::{By, Program, Steps};
use crate::team::{Side, Team};
use crate::timer::{self, REPETITIONS, Spread, Timer};
use anyhow::{Context, Result, ensure};
use symmem::Algorithm;

/// An algorithm that takes so many times as long as the best is behind.
const BEHIND: f64 = 2.0;
/// Smaller messages say nothing of how times grow: there, barriers are behind and catch up.
const GROWTH_BYTES_MIN: u64 = 1 << 20;

/// A way to do an operation: an algorithm, and its blocks if the plan is not to choose them.
pub(super) type Way = (Algorithm, Option<u32>);

/// Fills all inputs with one byte.
///
/// # Errors
///
/// What the machine answers.
pub(super) fn fill(team: &Team, byte: u8) -> Result<()> {
    Ok(team.ranks().try_for_each(|rank| team.window(rank, Side::Input).clone().fill_bytes(byte))?)
}

/// Microseconds of every algorithm that the cases have, which differ in their sizes alone and grow.
///
/// # Errors
///
/// If an operation fails, or the time is up.
pub(super) fn sweep(team: &mut Team, cases: &[Case], budget: &Budget) -> Result<Vec<Column>> {
    let algorithms = algorithms(team, &cases[0]);
    ensure!(!algorithms.is_empty(), "it has no kernel");
    let none = |algorithm| Column { algorithm, times_us: Vec::new() };
    let mut columns: Vec<Column> = algorithms.into_iter().map(none).collect();
    for (at, case) in cases.iter().enumerate() {
        budget.check()?;
        let bytes: Vec<u64> = cases[..at].iter().map(Case::bytes_total).collect();
        let goes_on: Vec<bool> =
            (0..columns.len()).map(|place| !is_behind(place, &columns, &bytes)).collect();
        let pairs = columns.iter().zip(&goes_on).filter(|(_, goes_on)| **goes_on);
        let ways: Vec<_> = pairs.map(|(column, _)| (column.algorithm, None)).collect();
        let mut times = time(team, case, &ways, &settings(case))?.into_iter();
        for (column, goes_on) in columns.iter_mut().zip(goes_on) {
            column.times_us.push(if goes_on { times.next().map(|time| time.median) } else { None });
        }
    }
    Ok(columns)
}

/// Times of one operation in a graph, for each way to do it; in turns, so that what changes on the machine changes all.
///
/// # Errors
///
/// If an operation fails.
pub(super) fn time(team: &mut Team, case: &Case, ways: &[Way], settings: &Settings) -> Result<Vec<Spread>> {
    let capture = |way: &Way| {
        prefer(team, Some(way.0), way.1);
        Program::captured(team, By::Symmem, case, Steps::Repeat, settings.iterations)
    };
    let programs = ways.iter().map(capture).collect::<Result<Vec<_>>>();
    prefer(team, None, None);
    let (programs, timer) = (programs?, Timer::new(&team.streams)?);
    let mut times_us = vec![Vec::new(); programs.len()];
    for _ in 0..REPETITIONS {
        for (program, times_us) in programs.iter().zip(&mut times_us) {
            times_us.extend(timer::time_once(team, (program, program), &timer, settings)?);
        }
    }
    times_us.into_iter().map(|times_us| Spread::of(times_us).context("the machine has no time")).collect()
}

fn prefer(team: &mut Team, algorithm: Option<Algorithm>, ctas: Option<u32>) {
    team.comms.iter_mut().for_each(|comm| comm.prefer(algorithm, ctas));
}

/// Those that have a kernel for a case and the memory of this team.
fn algorithms(team: &mut Team, case: &Case) -> Vec<Algorithm> {
    let mut is_there = |algorithm: &Algorithm| {
        prefer(team, Some(*algorithm), None);
        let plan = team.comms[0].plan(case.collective, case.count, case.dtype, case.op);
        plan.is_ok_and(|plan| plan.kernel.algorithm == *algorithm)
    };
    let found = Algorithm::ALL.iter().copied().filter(&mut is_there).collect();
    prefer(team, None, None);
    found
}

/// How a case is timed: few operations where they are long.
pub(super) fn settings(case: &Case) -> Settings {
    let (iterations, replays) = match case.bytes_total() {
        ..=0x1_0000 => (20, 10),
        0x1_0001..=0x20_0000 => (20, 5),
        0x20_0001..=0x200_0000 => (10, 3),
        _ => (4, 2),
    };
    Settings {
        mode: Mode::Graph,
        iterations,
        warmup: 0,
        replays,
        is_looped: false,
        rounds: 0,
        check_bytes_max: None,
        seed: 0,
        algorithm: None,
    }
}

/// Whether a column need not be measured at the size that comes next: it was left out already, or it was far behind the
/// best at the last two sizes and did not catch up.
fn is_behind(place: usize, columns: &[Column], bytes: &[u64]) -> bool {
    let ratio = |at: usize| {
        let best = columns.iter().filter_map(|column| column.times_us[at]).fold(f64::INFINITY, f64::min);
        columns[place].times_us[at].map(|time| time / best)
    };
    let Some(last) = bytes.len().checked_sub(1) else { return false };
    let Some(ratio_now) = ratio(last) else { return true };
    let Some(before) = last.checked_sub(1).filter(|before| bytes[*before] >= GROWTH_BYTES_MIN) else {
        return false;
    };
    ratio(before).is_some_and(|ratio_before| ratio_before >= BEHIND && ratio_now >= BEHIND.max(ratio_before))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All but the time works on the simulated machine, too: every algorithm is found and captured.
    #[cfg(feature = "sim")]
    #[test]
    fn every_algorithm_runs_in_turn() {
        use crate::memory::Memory;
        use std::time::{Duration, Instant};
        use symmem::sim::{SimConfig, SimMachine};
        use symmem::{Collective, CommConfig, Dtype, Machine, Op};
        let config = SimConfig { n_devices: 2, ..SimConfig::default() };
        let machine = Machine::from_backend(SimMachine::new(config).expect("a valid machine"));
        let comm = CommConfig { multicast: Some(false), ..CommConfig::default() };
        let case = |collective: Collective| Case {
            collective,
            dtype: Dtype::F32,
            op: collective.reduces().then_some(Op::Sum),
            count: 5,
            n_ranks: 2,
        };
        let cases: Vec<_> = Collective::ALL.iter().copied().map(case).collect();
        let mut team = Team::new(&machine, 2, None, &comm, Memory::Alloc, &cases).expect("a team");
        fill(&team, 0x3c).expect("filled");
        for (case, expected) in cases.iter().zip([7, 5, 5, 2, 2]) {
            let found = algorithms(&mut team, case);
            assert_eq!(found.len(), expected, "{}: {found:?}", case.collective);
            let once = Settings { iterations: 1, replays: 1, ..settings(case) };
            let ways: Vec<Way> = found.iter().map(|algorithm| (*algorithm, Some(1))).collect();
            let error = time(&mut team, case, &ways, &once).expect_err("there is no time").to_string();
            assert!(error.contains("no time"), "{error}");
            team.synchronize().expect("all have run");
            let plan = team.comms[0].plan(case.collective, case.count, case.dtype, case.op);
            assert_eq!(plan.expect("it exists").kernel.algorithm, Algorithm::Ll, "the plan chooses again");
        }
        let over = Budget { start: Instant::now() - Duration::from_secs(2), limit: Duration::from_secs(1) };
        let error = sweep(&mut team, &cases[..1], &over).expect_err("the time is up").to_string();
        assert!(error.contains("--budget-s"), "{error}");
    }

    type Times<'a> = &'a [Option<f64>];

    #[test]
    fn only_what_falls_behind_is_left_out() {
        let large = [1 << 20, 2 << 20];
        let small = [1 << 18, 1 << 19];
        let table: [(Times, &[u64], bool); 8] = [
            (&[], &[], false),
            (&[Some(9.0)], &[1 << 20], false),
            (&[Some(2.5), Some(2.6)], &large, true),
            // It catches up.
            (&[Some(2.5), Some(2.1)], &large, false),
            (&[Some(1.9), Some(2.6)], &large, false),
            (&[Some(2.5), Some(2.6)], &small, false),
            // What was left out stays out.
            (&[Some(2.5), None], &large, true),
            (&[Some(2.5), None], &small, true),
        ];
        for (times_us, bytes, expected) in table {
            let column = |algorithm, times_us: Vec<_>| Column { algorithm, times_us };
            let best = column(Algorithm::Ll, vec![Some(1.0); bytes.len()]);
            let columns = [best, column(Algorithm::Sentinel, times_us.to_vec())];
            assert_eq!(is_behind(1, &columns, bytes), expected, "{times_us:?} {bytes:?}");
            assert!(!is_behind(0, &columns, bytes));
        }
    }
}
