//! `cargo xtask check` and `cargo xtask trace`: build the checker in release and run it.

use crate::shell;
use anyhow::Result;
use std::process::Command;

/// Package and binary of the checker.
const CHECK: &str = "symmem-check";

/// Arguments of `check` and `trace`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed on to the checker; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    passed_on: Vec<String>,
}

/// Builds the checker in release and runs one of its commands.
pub(crate) fn run(command: &str, args: &Args) -> Result<()> {
    shell::run(&mut shell::cargo(&["build", "--quiet", "--release", "--locked", "--package", CHECK])?)?;
    let binary = shell::target_dir()?.join("release").join(CHECK);
    shell::run(Command::new(binary).arg(command).args(&args.passed_on).current_dir(shell::root()))
}

/// As [`run`], by the program that a build of the tests has made.
pub(crate) fn run_built<'a>(command: &str, args: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let mut run = shell::cargo(&["run", "--quiet", "--locked", "--package", CHECK, "--", command])?;
    shell::run(run.args(args))
}
