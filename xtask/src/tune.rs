//! `cargo xtask tune`: measures which algorithm is the fastest at which size.

use crate::bench;
use anyhow::Result;

/// Arguments of `tune`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on: collectives and options such as `--ranks 2 --write FILE`; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    passed_on: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    bench::run_with(std::iter::once("tune").chain(args.passed_on.iter().map(String::as_str)))
}
