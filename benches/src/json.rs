//! JSON lines: one flat row per measurement, numbers or null.

use crate::case::Case;
use crate::facts::{Facts, FactsRow};
use crate::measure::{Outcome, Settings};
use crate::rivals::Theirs;
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
    procs: u32,
    ranks_per_gpu: u32,
    count: u64,
    bytes_total: u64,
    bytes_per_rank: u64,
    in_place: bool,
    mode: &'static str,
    timing: &'static str,
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
    nccl_version: Option<&'a str>,
    nccl_r0_us: Option<f64>,
    nccl_r2_us: Option<f64>,
    ratio_to_nccl: Option<f64>,
    nccl_r0_note: Option<&'a str>,
    nccl_r2_note: Option<&'a str>,
    instructions: Option<u64>,
    link_bytes: Option<u64>,
    hops: Option<u64>,
    #[serde(flatten)]
    facts: FactsRow<'a>,
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
    outcome: &'a Result<Outcome>,
) -> Row<'a> {
    let measured = outcome.as_ref().ok();
    let time_us = measured.and_then(|outcome| outcome.time_us);
    let rates = measured.and_then(|outcome| outcome.rates(case, settings.mode));
    let work = measured.and_then(|outcome| outcome.work);
    let [r0, r2] = [0, 1].map(|buffers| measured.map(|outcome| &outcome.nccl[buffers]));
    let median = |theirs: Option<&Theirs>| Some(theirs?.time_us?.median);
    let checked_rounds = measured.map_or(0, |outcome| outcome.checked_rounds);
    Row {
        schema_version: SCHEMA_VERSION,
        collective: case.collective.name(),
        algorithm: measured.and_then(|outcome| outcome.algorithm).map(|algorithm| algorithm.name()),
        dtype: case.dtype.name(),
        op: case.op.map(|op| op.name()),
        ranks: case.n_ranks,
        procs: facts.procs,
        ranks_per_gpu: facts.ranks_per_gpu,
        count: case.count,
        bytes_total: case.bytes_total(),
        bytes_per_rank: case.part_bytes(),
        in_place,
        mode: settings.mode.name(),
        timing: settings.timing(),
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
        nccl_version: facts.nccl_version.as_deref(),
        nccl_r0_us: median(r0),
        nccl_r2_us: median(r2),
        ratio_to_nccl: measured.and_then(Outcome::ratio_to_nccl),
        nccl_r0_note: r0.and_then(|theirs| theirs.note.as_deref()),
        nccl_r2_note: r2.and_then(|theirs| theirs.note.as_deref()),
        instructions: work.map(|work| work.instructions),
        link_bytes: work.map(|work| work.link_bytes),
        hops: work.filter(|_| measured.is_some_and(|outcome| !outcome.no_hops)).map(|work| work.hops),
        facts: facts.row(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Mode;
    use crate::timer::Spread;
    use anyhow::anyhow;
    use serde_json::{Map, Value};
    use symmem::{Collective, Dtype, Op};

    fn written(case: &Case, outcome: &Result<Outcome>) -> Map<String, Value> {
        let settings = Settings {
            mode: Mode::Graph,
            iterations: 20,
            warmup: 5,
            replays: 10,
            is_looped: false,
            rounds: 1,
            check_bytes_max: None,
            seed: u64::MAX,
            algorithm: None,
        };
        let text =
            serde_json::to_string(&row(&Facts::default(), &settings, case, true, outcome)).expect("a row");
        assert!(!text.contains('\n'));
        match serde_json::from_str(&text).expect("valid JSON") {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    const CASE: Case = Case {
        collective: Collective::AllReduce,
        dtype: Dtype::F32,
        op: Some(Op::Sum),
        count: 250,
        n_ranks: 2,
    };

    #[test]
    fn a_row_is_flat_and_says_bytes_twice() {
        let time_us = Some(Spread { median: 2.0, min: 1.5, max: 4.0 });
        let outcome = Outcome { time_us, checked_rounds: 3, ..Outcome::default() };
        let gather = Case { collective: Collective::AllGather, op: None, ..CASE };
        let row = written(&gather, &Ok(outcome));
        assert!(row.values().all(|value| !value.is_object() && !value.is_array()));
        let numbers = [
            ("schema_version", 1.0),
            ("bytes_total", 2000.0),
            ("bytes_per_rank", 1000.0),
            ("time_us", 2.0),
            ("algbw_gbps", 1.0),
            ("busbw_gbps", 0.5),
            ("wrong", 0.0),
            ("checked_rounds", 3.0),
        ];
        for (key, number) in numbers {
            assert_eq!(row[key].as_f64(), Some(number), "{key}");
        }
        assert_eq!(
            (&row["op"], &row["in_place"], &row["error"]),
            (&Value::Null, &Value::Bool(true), &Value::Null)
        );
        assert_eq!((&row["mode"], &row["timing"]), (&Value::from("graph"), &Value::from("graph")));
        assert_eq!(row["seed"].as_u64(), Some(u64::MAX));
    }

    #[test]
    fn nccl_stands_beside_ours() {
        let spread = |median| Some(Spread { median, min: median, max: median });
        let theirs = |median| Theirs { time_us: spread(median), note: None };
        let absent = Theirs { time_us: None, note: Some("too old".into()) };
        let row = |nccl| {
            let outcome = Outcome { time_us: spread(2.0), nccl, ..Outcome::default() };
            written(&CASE, &Ok(outcome))
        };
        let both = row([theirs(6.0), theirs(4.0)]);
        let numbers = [("nccl_r0_us", 6.0), ("nccl_r2_us", 4.0), ("ratio_to_nccl", 2.0)];
        numbers.iter().for_each(|(key, number)| assert_eq!(both[*key].as_f64(), Some(*number), "{key}"));
        let one = row([theirs(1.0), absent.clone()]);
        assert_eq!((&one["nccl_r2_us"], &one["nccl_r2_note"]), (&Value::Null, &Value::from("too old")));
        assert_eq!(one["ratio_to_nccl"].as_f64(), Some(0.5));
        let none = row([absent.clone(), absent]);
        assert_eq!((&none["nccl_r0_us"], &none["ratio_to_nccl"]), (&Value::Null, &Value::Null));
        let alone = row([Theirs::default(), Theirs::default()]);
        let keys =
            ["nccl_version", "nccl_r0_us", "nccl_r2_us", "ratio_to_nccl", "nccl_r0_note", "nccl_r2_note"];
        keys.iter().for_each(|key| assert_eq!(alone[*key], Value::Null, "{key}"));
    }

    /// What was not measured is null, never 0, NaN or a word.
    #[test]
    fn what_is_not_known_is_null() {
        let unmeasured = ["time_us", "algbw_gbps", "busbw_gbps", "wrong", "instructions", "algorithm"];
        let zero_time = Spread { median: 0.0, min: 0.0, max: 0.0 };
        let failed = written(&CASE, &Err(anyhow!("inner \"quoted\"").context("outer")));
        unmeasured.iter().for_each(|key| assert_eq!(failed[*key], Value::Null, "{key}"));
        assert_eq!(failed["error"], Value::from("outer: inner \"quoted\""));
        let unchecked = written(&CASE, &Ok(Outcome::default()));
        unmeasured.iter().for_each(|key| assert_eq!(unchecked[*key], Value::Null, "{key}"));
        let nothing = Case { count: 0, ..CASE };
        let row = written(&nothing, &Ok(Outcome { time_us: Some(zero_time), ..Outcome::default() }));
        assert_eq!((&row["time_us"], &row["algbw_gbps"]), (&Value::from(0.0), &Value::Null));
    }
}
