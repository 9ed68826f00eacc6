//! JSON lines: one flat row per measurement, numbers or null.

use crate::case::Case;
use crate::facts::Facts;
use crate::measure::{Outcome, Settings};
use crate::rates::rates;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;

/// Grows when a key changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// One measurement. Units stand in the names; 1 GB is 10⁹ bytes.
#[derive(Serialize)]
struct Row<'a> {
    schema_version: u32,
    collective: &'static str,
    algorithm: Option<&'static str>,
    dtype: &'static str,
    op: Option<&'static str>,
    ranks: u32,
    count: u64,
    bytes_total: u64,
    bytes_per_rank: u64,
    in_place: bool,
    mode: &'static str,
    time_us: Option<f64>,
    time_min_us: Option<f64>,
    time_max_us: Option<f64>,
    algbw_gbps: Option<f64>,
    busbw_gbps: Option<f64>,
    wrong: Option<u64>,
    checked_rounds: u64,
    iterations: u32,
    replays: u32,
    warmup: u32,
    instructions: Option<u64>,
    link_bytes: Option<u64>,
    hops: Option<u64>,
    machine: &'static str,
    device_names: String,
    driver_version: Option<&'a str>,
    symmem_version: &'static str,
    rustc_version: Option<&'static str>,
    git_revision: Option<&'static str>,
    argv: &'a str,
    seed: u64,
    error: Option<String>,
}

/// Where rows go.
pub(crate) struct JsonLines {
    target: Option<Box<dyn Write>>,
}

impl JsonLines {
    /// A file, standard output for `-`, or nowhere.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let target: Option<Box<dyn Write>> = match path {
            None => None,
            Some(path) if is_stdout(path) => Some(Box::new(stdout())),
            Some(path) => {
                Some(Box::new(File::create(path).with_context(|| format!("making {}", path.display()))?))
            }
        };
        Ok(Self { target })
    }

    /// Writes one row, whole, at once: what was measured stays if the next measurement fails.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn write(
        &mut self,
        facts: &Facts,
        settings: &Settings,
        case: &Case,
        in_place: bool,
        outcome: &Result<Outcome>,
    ) -> Result<()> {
        let Some(target) = &mut self.target else { return Ok(()) };
        let mut line = serde_json::to_string(&row(facts, settings, case, in_place, outcome))?;
        line.push('\n');
        target.write_all(line.as_bytes()).and_then(|()| target.flush()).context("writing JSON")
    }
}

/// Whether a path stands for standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn row<'a>(
    facts: &'a Facts,
    settings: &Settings,
    case: &Case,
    in_place: bool,
    outcome: &Result<Outcome>,
) -> Row<'a> {
    let measured = outcome.as_ref().ok();
    let time_us = measured.and_then(|outcome| outcome.time_us);
    let rates = time_us.and_then(|time| rates(case, time.median));
    let work = measured.and_then(|outcome| outcome.work);
    let checked_rounds = measured.map_or(0, |outcome| outcome.checked_rounds);
    Row {
        schema_version: SCHEMA_VERSION,
        collective: case.collective.name(),
        algorithm: measured.and_then(|outcome| outcome.algorithm).map(|algorithm| algorithm.name()),
        dtype: case.dtype.name(),
        op: case.op.map(|op| op.name()),
        ranks: case.n_ranks,
        count: case.count,
        bytes_total: case.bytes_total(),
        bytes_per_rank: case.bytes_per_rank(),
        in_place,
        mode: settings.mode.name(),
        time_us: time_us.map(|time| time.median),
        time_min_us: time_us.map(|time| time.min),
        time_max_us: time_us.map(|time| time.max),
        algbw_gbps: rates.map(|rates| rates.algbw_gbps),
        busbw_gbps: rates.map(|rates| rates.busbw_gbps),
        wrong: measured.filter(|_| checked_rounds > 0).map(|outcome| outcome.findings.wrong),
        checked_rounds,
        iterations: settings.iterations,
        replays: settings.replays,
        warmup: settings.warmup,
        instructions: work.map(|work| work.instructions),
        link_bytes: work.map(|work| work.link_bytes),
        hops: work.map(|work| work.hops),
        machine: facts.machine,
        device_names: facts.device_names.join(", "),
        driver_version: facts.driver_version.as_deref(),
        symmem_version: facts.symmem_version,
        rustc_version: facts.rustc_version,
        git_revision: facts.git_revision,
        argv: &facts.argv,
        seed: settings.seed,
        error: failure(outcome),
    }
}

/// What went wrong with a row, in words.
pub(crate) fn failure(outcome: &Result<Outcome>) -> Option<String> {
    match outcome {
        Err(error) => Some(format!("{error:#}")),
        Ok(outcome) => outcome.findings.first.clone(),
    }
}
