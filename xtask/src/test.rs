//! `cargo xtask test`: every test of the workspace.

use crate::{check, shell};
use anyhow::{Context, Result};
use std::time::Instant;

/// Where the tests run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Device {
    /// Real GPUs; an error where there are none.
    Cuda,
    /// The simulated machine.
    Sim,
    /// GPUs where there are any, else the simulated machine.
    Auto,
}

/// Arguments of `test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the tests run.
    #[arg(long, value_enum, default_value_t = Device::Auto)]
    device: Device,
    /// The long cases too.
    #[arg(long)]
    full: bool,
    /// So many ranks share a GPU in the cases of collectives, which gives more ranks than there are GPUs; the other cases
    /// are skipped.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_gpu: u32,
    /// Only tests whose name has this in it.
    filter: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let device = match args.device {
        Device::Cuda => "cuda",
        Device::Sim => "sim",
        Device::Auto => "auto",
    };
    // The bench's own tests need no release build; one profile serves all.
    let mut command = shell::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])?;
    // The first is for tests that open a machine, the second for the cases, which know both kinds of it.
    command.env("SYMMEM_DEVICE", device).env("SYMMEM_TEST_DEVICE", device);
    command.env("SYMMEM_TEST_FULL", if args.full { "1" } else { "0" });
    command.env("SYMMEM_TEST_RANKS_PER_GPU", args.ranks_per_gpu.to_string());
    command.args(&args.filter);
    let result = shell::run(&mut command).context("some tests did not pass; they are listed above");
    let checked = if args.filter.is_none() { check_kernels(args.full) } else { Ok(()) };
    let result = match (result, checked) {
        (Err(tests), Err(checks)) => Err(tests.context(format!("{checks:#}, and"))),
        (result, checked) => result.and(checked),
    };
    let verdict = if result.is_ok() { "all tests passed" } else { "FAILED" };
    let scope = args.filter.as_ref().map_or(String::new(), |filter| format!(", only `{filter}`"));
    let extent = if args.full { "full" } else { "quick (`--full` runs the long cases too)" };
    eprintln!("==> {verdict}: device {device}, {extent}{scope}, {} s", started.elapsed().as_secs());
    result
}

/// The kernels under the checkers: one of each source with few seeds, or all with many. Built as the tests are, which
/// cargo has just done.
fn check_kernels(full: bool) -> Result<()> {
    let started = Instant::now();
    let result = check::run_built("check", full.then_some("--full"));
    eprintln!("==> kernels under the checkers: {} s", started.elapsed().as_secs());
    result.context("a kernel is wrong under some schedule; see above")
}
