//! `cargo xtask bench`: builds the bench in release and runs it.

use crate::shell;
use anyhow::Result;
use std::process::Command;

/// Package and binary of the bench.
pub(crate) const BENCH: &str = "symmem-bench";

/// Arguments of `bench`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on to the bench: collectives and options such as `--ranks 4 -b 8 -e 64K -f 8`; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    passed_on: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    run_with(args.passed_on.iter().map(String::as_str))
}

/// Builds the bench and runs it with these arguments.
pub(crate) fn run_with<'a>(args: impl IntoIterator<Item = &'a str>) -> Result<()> {
    shell::run(&mut shell::cargo(&["build", "--release", "--locked", "--package", BENCH])?)?;
    let binary = shell::target_dir()?.join("release").join(BENCH);
    shell::run(Command::new(binary).args(args))
}
