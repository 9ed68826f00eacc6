//! `cargo xtask map`: a picture of a symmetric space.

use crate::bench;
use anyhow::Result;

/// Arguments of `map`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on: `--ranks N`, `--device cuda|sim`, `--svg FILE`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    passed_on: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    bench::run_with(std::iter::once("map").chain(args.passed_on.iter().map(String::as_str)))
}
