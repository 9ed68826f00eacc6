//! One algorithm in many shapes of threads and blocks: what its form in the plan is chosen by.

use super::report::Report;
use super::{Budget, sweep};
use crate::case::Case;
use crate::sizes::human_bytes;
use crate::team::Team;
use anyhow::{Result, ensure};
use symmem::backend::LaunchShape;
use symmem::{Algorithm, Overrides};

/// Most threads of a block, and blocks, that are tried.
const THREADS: [u32; 4] = [64, 128, 256, 512];
const BLOCKS: [u32; 9] = [1, 4, 8, 16, 32, 64, 96, 128, 256];
/// Shapes that are told of each size: the best.
const TOLD: usize = 4;

/// Times the algorithm in every shape that its kernels take, and prints the fastest ones beside the plan's own.
///
/// # Errors
///
/// If an operation fails, or the time is up.
pub(super) fn run(
    team: &mut Team,
    all: &[Vec<Case>],
    algorithm: Algorithm,
    budget: &Budget,
    report: &mut Report,
) -> Result<()> {
    let mut n_cases = 0;
    for case in all.iter().flatten() {
        budget.check()?;
        let ways = ways(team, case, algorithm)?;
        if ways.is_empty() {
            continue;
        }
        n_cases += 1;
        let overrides: Vec<_> = ways.iter().map(|(_, overrides)| *overrides).collect();
        let times = sweep::time(team, case, &overrides)?;
        let mut told: Vec<_> =
            ways.iter().zip(&times).map(|((shape, _), time)| (*shape, time.median)).collect();
        let own = told[0];
        told.sort_by(|a, b| a.1.total_cmp(&b.1));
        let told: Vec<_> = told.into_iter().take(TOLD).map(text).collect();
        let (collective, bytes) = (case.collective, human_bytes(case.part_bytes()));
        report.say(&format!(
            "{collective:<14} {:<4} {bytes:>10}  plan {}  best {}",
            case.dtype,
            text(own),
            told.join("  ")
        ))?;
    }
    ensure!(n_cases > 0, "{algorithm} has no kernel for what is to be measured");
    Ok(())
}

fn text((shape, time_us): (LaunchShape, f64)) -> String {
    format!("{}x{}: {time_us:.2} us", shape.blocks, shape.threads)
}

/// Shapes that differ, the plan's own first, and how to get them; none where the algorithm has no kernel.
fn ways(team: &mut Team, case: &Case, algorithm: Algorithm) -> Result<Vec<(LaunchShape, Overrides)>> {
    let shapes = THREADS.iter().flat_map(|threads| BLOCKS.iter().map(move |blocks| (*threads, *blocks)));
    let wishes = shapes.map(|(threads, ctas)| Overrides {
        algorithm: Some(algorithm),
        ctas: Some(ctas),
        threads: Some(threads),
    });
    let mut ways: Vec<(LaunchShape, Overrides)> = Vec::new();
    for overrides in std::iter::once(sweep::by(algorithm)).chain(wishes) {
        team.comms[0].set_overrides(overrides);
        let plan = team.comms[0].plan(case.collective, case.count, case.dtype, case.op);
        team.comms[0].set_overrides(Overrides::default());
        let plan = plan?;
        if plan.kernel.algorithm == algorithm && ways.iter().all(|(shape, _)| *shape != plan.shape) {
            ways.push((plan.shape, overrides));
        }
    }
    Ok(ways)
}
