//! Table, JSON lines and plot of growing vectors.

use super::{Args, Kind, Row};
use crate::facts::Facts;
use crate::json::is_stdout;
use crate::plot::{Axis, Panel, Series, Unit, svg};
use crate::sizes::human_bytes;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use symmem::Machine;
use symmem::backend::MachineKind;
use symmem::vmm::Growth;

/// Grows when a key changes its meaning or goes.
const SCHEMA_VERSION: u32 = 1;

/// One row of JSON. Units stand in the names.
#[derive(Serialize)]
struct JsonRow<'a> {
    schema_version: u32,
    measurement: &'static str,
    vector: &'static str,
    bytes: u64,
    peak_bytes: u64,
    copied_bytes: u64,
    calls: u64,
    addresses: &'static str,
    time_us: Option<f64>,
    time_min_us: Option<f64>,
    time_max_us: Option<f64>,
    repetitions: u32,
    machine: &'static str,
    device_name: Option<&'a str>,
    driver_version: Option<&'a str>,
    symmem_version: &'static str,
    rustc_version: Option<&'static str>,
    git_revision: Option<&'static str>,
    argv: &'a str,
}

/// Prints the table: a line per size, both vectors side by side.
pub(super) fn table(facts: &Facts, machine: &Machine, rows: &[Row], args: &Args) -> Result<()> {
    let page_bytes = machine.device(0)?.granularity_bytes()?;
    let mut lines = head(facts, machine.kind(), page_bytes, args);
    let of = |kind: Kind| rows.iter().filter(move |row| row.kind == kind);
    for (mapped, copied) in of(Kind::Mapped).zip(of(Kind::Copied)) {
        let cells = [mapped, copied].map(|row| cells(row, page_bytes));
        lines.push(format!(" {:>12}  {}  {}", human_bytes(mapped.bytes), cells[0], cells[1]));
    }
    let text = lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n");
    if args.json.as_deref().is_some_and(is_stdout) {
        writeln!(std::io::stderr(), "{text}").context("writing the table")
    } else {
        writeln!(std::io::stdout(), "{text}").context("writing the table")
    }
}

fn head(facts: &Facts, kind: MachineKind, page_bytes: u64, args: &Args) -> Vec<String> {
    let timed = match kind {
        MachineKind::Cuda => format!("time: of the step, median of {}", args.repetitions),
        MachineKind::Sim => "simulated: no time".into(),
    };
    let names = format!("{:>12} {:>9} {:>8} {:>7} {:>11}", "peak", "peak/size", "pages", "calls", "time");
    let under = format!("{:>12} {:>9} {:>8} {:>7} {:>11}", "", "", "copied", "", "(us)");
    let width = names.len();
    vec![
        format!("# symmem {}  {} on {}", facts.symmem_version, super::NAME, facts.devices()),
        format!(
            "# pages of {}; peak: most device memory in use during the step; {timed}",
            human_bytes(page_bytes)
        ),
        format!("#{:>12}  {:^width$}  {:^width$}", "", Kind::Mapped.name(), Kind::Copied.name()),
        format!("#{:>12}  {names}  {names}", "size"),
        format!("#{:>12}  {under}  {under}", ""),
    ]
}

fn cells(row: &Row, page_bytes: u64) -> String {
    let step = &row.step;
    format!(
        "{:>12} {:>9.2} {:>8} {:>7} {:>11}",
        human_bytes(step.peak_bytes),
        step.peak_bytes as f64 / row.bytes as f64,
        step.copied_bytes.div_ceil(page_bytes),
        step.calls,
        step.time_us.map_or("-".into(), |[median, ..]| format!("{median:.1}"))
    )
}

/// Writes JSON lines where they were asked for.
pub(super) fn json(facts: &Facts, rows: &[Row], args: &Args) -> Result<()> {
    let Some(path) = args.json.as_deref() else { return Ok(()) };
    let mut target: Box<dyn Write> = if is_stdout(path) {
        Box::new(std::io::stdout())
    } else {
        Box::new(File::create(path).with_context(|| format!("making {}", path.display()))?)
    };
    for row in rows {
        let line = serde_json::to_string(&json_row(facts, row, args))?;
        writeln!(target, "{line}").context("writing JSON")?;
    }
    target.flush().context("writing JSON")
}

fn json_row<'a>(facts: &'a Facts, row: &Row, args: &Args) -> JsonRow<'a> {
    let time = |index: usize| row.step.time_us.map(|times| times[index]);
    JsonRow {
        schema_version: SCHEMA_VERSION,
        measurement: super::NAME,
        vector: row.kind.name(),
        bytes: row.bytes,
        peak_bytes: row.step.peak_bytes,
        copied_bytes: row.step.copied_bytes,
        calls: row.step.calls,
        addresses: match row.step.growth {
            Growth::Enough => "enough",
            Growth::InPlace => "in place",
            Growth::Moved => "moved",
        },
        time_us: time(0),
        time_min_us: time(1),
        time_max_us: time(2),
        repetitions: if row.step.time_us.is_some() { args.repetitions } else { 0 },
        machine: facts.machine,
        device_name: facts.device_names.first().map(String::as_str),
        driver_version: facts.driver_version.as_deref(),
        symmem_version: facts.symmem_version,
        rustc_version: facts.rustc_version,
        git_revision: facts.git_revision,
        argv: &facts.argv,
    }
}

/// The plot: peak memory, and time or, where there is none, pages copied.
pub(super) fn plot(facts: &Facts, rows: &[Row]) -> String {
    let size = Axis { label: "size that the vector grows to (bytes)", unit: Unit::Bytes };
    let series = |value: fn(&Row) -> f64| -> Vec<Series> {
        let line = |kind: Kind| {
            let its = rows.iter().filter(|row| row.kind == kind);
            Series {
                name: kind.name().into(),
                points: its.map(|row| (row.bytes as f64, value(row))).collect(),
            }
        };
        Kind::ALL.map(line).into()
    };
    let is_timed = rows.iter().any(|row| row.step.time_us.is_some());
    let (what, axis, lines) = if is_timed {
        let time = |row: &Row| row.step.time_us.map_or(0.0, |[median, ..]| median);
        ("Time", Axis { label: "time of the step (us)", unit: Unit::Decimal }, series(time))
    } else {
        let copied = |row: &Row| row.step.copied_bytes as f64;
        ("Copies", Axis { label: "copied in the step (bytes)", unit: Unit::Bytes }, series(copied))
    };
    let title = |what: &str| format!("{what} of growing a vector: {}", facts.devices());
    svg(&[
        Panel {
            title: title("Peak memory"),
            x: size,
            y: Axis { label: "peak device memory (bytes)", unit: Unit::Bytes },
            series: series(|row| row.step.peak_bytes as f64),
        },
        Panel { title: title(what), x: size, y: axis, series: lines },
    ])
}
