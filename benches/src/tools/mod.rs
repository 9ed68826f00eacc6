//! What the bench does besides collectives: named by the first argument.

mod calls;
mod host_cost;
mod map;
mod registration;
mod timer;
mod tune;

use crate::json::is_stdout;
use anyhow::{Context, Result};
use clap::Parser;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Names of the tools, for the help of the bench.
pub(crate) const HELP: &str = "Other measurements, each with a --help of its own:
  host-cost     nanoseconds of the host per call, of a bare launch and of an all-reduce
  registration  time to make a communicator and to register 1, 16, 256 windows
  tune          which algorithm is the fastest at which size, as a tuning table
  map           a picture of a symmetric space
  timer         the bench's timer against kernels that spin for a known time
  growth        peak memory and time of vectors that grow in device memory, by mapping and by copying";

/// Runs the tool that the first argument names, if it names one.
pub(crate) fn run(args: &[OsString]) -> Option<Result<()>> {
    let (name, rest) = (args.get(1)?.to_str()?, &args[1..]);
    Some(match name {
        "host-cost" => host_cost::run(&host_cost::Args::parse_from(rest)),
        "registration" => registration::run(&registration::Args::parse_from(rest)),
        "timer" => timer::run(&timer::Args::parse_from(rest)),
        "tune" => tune::run(&tune::Args::parse_from(rest)),
        "map" => map::run(&map::Args::parse_from(rest)),
        crate::growth::NAME => crate::growth::run(&crate::growth::Args::parse_from(rest)),
        _ => return None,
    })
}

/// JSON lines of a tool: a file, standard output for `-`, or nowhere.
struct Rows(Option<Box<dyn Write>>);

impl Rows {
    fn open(path: Option<&Path>) -> Result<Self> {
        let open = |path: &Path| -> Result<Box<dyn Write>> {
            if is_stdout(path) {
                return Ok(Box::new(std::io::stdout()));
            }
            Ok(Box::new(File::create(path).with_context(|| format!("making {}", path.display()))?))
        };
        path.map(open).transpose().map(Self)
    }

    fn write(&mut self, row: &impl serde::Serialize) -> Result<()> {
        let Some(target) = &mut self.0 else { return Ok(()) };
        let line = serde_json::to_string(row)?;
        writeln!(target, "{line}").and_then(|()| target.flush()).context("writing JSON")
    }
}
