//! What is said of it: the tuning table, the times as its comments, and JSON lines.

use super::crossover::Column;
use super::{Args, Rows};
use crate::case::Case;
use crate::facts::{Facts, FactsRow};
use crate::json::is_stdout;
use crate::sizes::human_bytes;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use symmem::Algorithm;
use symmem::collectives::{TuningRow, TuningTable};

/// One algorithm at one size.
#[derive(Serialize)]
struct Row<'a> {
    collective: &'static str,
    algorithm: &'static str,
    dtype: &'static str,
    op: Option<&'static str>,
    ranks: u32,
    count: u64,
    bytes_total: u64,
    bytes_per_rank: u64,
    time_us: Option<f64>,
    /// Whether the table takes it at this size.
    is_taken: bool,
    #[serde(flatten)]
    facts: FactsRow<'a>,
}

/// Where all goes.
pub(super) struct Report {
    facts: Facts,
    json: Rows,
    file: Option<PathBuf>,
    /// Standard output belongs to JSON.
    table_on_stderr: bool,
}

impl Report {
    /// To where the command line says.
    ///
    /// # Errors
    ///
    /// If the file for JSON lines cannot be made.
    pub(super) fn new(facts: Facts, args: &Args) -> Result<Self> {
        let table_on_stderr = args.json.as_deref().is_some_and(is_stdout);
        Ok(Self { facts, json: Rows::open(args.json.as_deref())?, file: args.write.clone(), table_on_stderr })
    }

    /// Says where it was measured.
    ///
    /// # Errors
    ///
    /// If it cannot be written, as below.
    pub(super) fn head(&self) -> Result<()> {
        self.say(&self.origin())
    }

    /// Says a line, or several.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        let written = if self.table_on_stderr {
            writeln!(std::io::stderr(), "{text}")
        } else {
            writeln!(std::io::stdout(), "{text}")
        };
        written.context("writing the table")
    }

    /// Says times, as comments of a table.
    pub(super) fn times(&mut self, cases: &[Case], columns: &[Column], row: &TuningRow) -> Result<()> {
        self.say(&times(cases, columns, row))?;
        for column in columns {
            for (case, time_us) in cases.iter().zip(&column.times_us) {
                self.json.write(&json(&self.facts, case, column.algorithm, *time_us, row))?;
            }
        }
        Ok(())
    }

    /// Says the table, or writes it to its file.
    pub(super) fn table(&self, table: &TuningTable) -> Result<()> {
        let Some(path) = &self.file else { return self.say(table.to_string().trim_end()) };
        let text = format!("{}\n{table}", self.origin());
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    fn origin(&self) -> String {
        let facts = &self.facts;
        let revision = facts.git_revision.map_or(String::new(), |revision| format!(", revision {revision}"));
        format!(
            "# {}, driver for CUDA {}, symmem {}{revision}: {}",
            facts.devices(),
            facts.driver_version.as_deref().unwrap_or("unknown"),
            facts.symmem_version,
            facts.argv
        )
    }
}

/// The algorithm that the row takes for a case.
fn taken(row: &TuningRow, case: &Case) -> Option<Algorithm> {
    row.fastest.iter().find(|(bytes_max, _)| case.part_bytes() <= *bytes_max).map(|(_, algorithm)| *algorithm)
}

/// Size by size; what the row takes is marked.
fn times(cases: &[Case], columns: &[Column], row: &TuningRow) -> String {
    let mut text = format!("#\n# microseconds of {}\n# {:>12}", row.key, "bytes");
    for column in columns {
        write!(text, " {:>18}", column.algorithm).expect("a String takes all");
    }
    for (at, case) in cases.iter().enumerate() {
        write!(text, "\n# {:>12}", human_bytes(case.part_bytes())).expect("a String takes all");
        for column in columns {
            let mark = if taken(row, case) == Some(column.algorithm) { "*" } else { " " };
            let time = column.times_us[at].map_or("-".into(), |time| format!("{time:.2}"));
            write!(text, " {time:>17}{mark}").expect("a String takes all");
        }
    }
    text
}

fn json<'a>(
    facts: &'a Facts,
    case: &Case,
    algorithm: Algorithm,
    time_us: Option<f64>,
    row: &TuningRow,
) -> Row<'a> {
    Row {
        collective: case.collective.name(),
        algorithm: algorithm.name(),
        dtype: case.dtype.name(),
        op: case.op.map(symmem::Op::name),
        ranks: case.n_ranks,
        count: case.count,
        bytes_total: case.bytes_total(),
        bytes_per_rank: case.part_bytes(),
        time_us,
        is_taken: taken(row, case) == Some(algorithm),
        facts: facts.row(),
    }
}
