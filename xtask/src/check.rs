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

/// Runs one of its commands.
pub(crate) fn run(command: &str, args: &Args) -> Result<()> {
    run_with(command, args.passed_on.iter().map(String::as_str))
}

/// Builds the checker and runs one of its commands with these arguments.
pub(crate) fn run_with<'a>(command: &str, args: impl IntoIterator<Item = &'a str>) -> Result<()> {
    shell::run(&mut shell::cargo(&["build", "--quiet", "--release", "--locked", "--package", CHECK])?)?;
    let binary = shell::target_dir()?.join("release").join(CHECK);
    shell::run(Command::new(binary).arg(command).args(args).current_dir(shell::root()))
}
