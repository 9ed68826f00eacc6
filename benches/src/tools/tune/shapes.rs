//! One algorithm in many shapes of threads and blocks: what its form in the plan is chosen by.

use super::report::Report;
use super::{Budget, INPUT, sweep};
use crate::case::Case;
use crate::memory::Memory;
use crate::sizes::human_bytes;
use crate::team::Team;
use anyhow::{Result, ensure};
use sweep::Way;
use symmem::backend::LaunchShape;
use symmem::{Algorithm, CommConfig, Machine};

/// Bounds on the threads of a block, and numbers of blocks, that are tried; `None` is the plan's own.
const THREADS: [Option<u32>; 5] = [None, Some(64), Some(128), Some(256), Some(512)];
const BLOCKS: [Option<u32>; 10] =
    [None, Some(1), Some(4), Some(8), Some(16), Some(32), Some(64), Some(96), Some(128), Some(256)];
/// Shapes that are told of each size: the best.
const TOLD: usize = 4;

/// Times the algorithm in every shape that its kernels take, and prints the fastest ones beside the plan's own.
///
/// # Errors
///
/// If an operation fails, or the time is up.
pub(super) fn run(
    (machine, config): (&Machine, &CommConfig),
    cases: &[Case],
    algorithm: Algorithm,
    budget: &Budget,
    report: &Report,
) -> Result<()> {
    let mut times: Vec<Vec<(LaunchShape, f64)>> = vec![Vec::new(); cases.len()];
    for threads in THREADS {
        // Threads are a setting of the communicator, blocks one of the call.
        let config = CommConfig { threads, ..config.clone() };
        let mut team = Team::new(machine, cases[0].n_ranks, None, &config, Memory::Alloc, cases)?;
        sweep::fill(&team, INPUT)?;
        for (case, times) in cases.iter().zip(&mut times) {
            budget.check()?;
            let ways = ways(&mut team, case, algorithm, times)?;
            let untimed: Vec<Way> = ways.iter().map(|(_, way)| *way).collect();
            let timed = sweep::time(&mut team, case, &untimed, &sweep::settings(case))?;
            times.extend(ways.iter().zip(timed).map(|((shape, _), time)| (*shape, time.median)));
        }
    }
    ensure!(
        times.iter().any(|times| !times.is_empty()),
        "{algorithm} has no kernel for what is to be measured"
    );
    let told = cases.iter().zip(times).filter(|(_, times)| !times.is_empty());
    told.into_iter().try_for_each(|(case, times)| report.say(&line(case, times)))
}

/// A size: the plan's own shape, which was the first, and the best.
fn line(case: &Case, mut times: Vec<(LaunchShape, f64)>) -> String {
    let own = times[0];
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    let best: Vec<_> = times.into_iter().take(TOLD).map(text).collect();
    let (collective, bytes) = (case.collective, human_bytes(case.part_bytes()));
    format!("{collective:<14} {:<4} {bytes:>10}  plan {}  best {}", case.dtype, text(own), best.join("  "))
}

fn text((shape, time_us): (LaunchShape, f64)) -> String {
    format!("{}x{}: {time_us:.2} us", shape.blocks, shape.threads)
}

/// Shapes that have not been timed, and how to get them; none where the algorithm has no kernel.
fn ways(
    team: &mut Team,
    case: &Case,
    algorithm: Algorithm,
    timed: &[(LaunchShape, f64)],
) -> Result<Vec<(LaunchShape, Way)>> {
    let mut ways: Vec<(LaunchShape, Way)> = Vec::new();
    for ctas in BLOCKS {
        team.comms[0].prefer(Some(algorithm), ctas);
        let plan = team.comms[0].plan(case.collective, case.count, case.dtype, case.op);
        team.comms[0].prefer(None, None);
        let plan = plan?;
        let mut known = ways.iter().map(|(shape, _)| shape).chain(timed.iter().map(|(shape, _)| shape));
        if plan.kernel.algorithm == algorithm && known.all(|shape| *shape != plan.shape) {
            ways.push((plan.shape, (algorithm, ctas)));
        }
    }
    Ok(ways)
}
