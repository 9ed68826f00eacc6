//! `cargo xtask test`: every test of the workspace.

use crate::{build, check, check_ptx, shell};
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
    let result = further(args).iter().map(Further::run).fold(result, both);
    let verdict = if result.is_ok() { "all tests passed" } else { "FAILED" };
    let scope = args.filter.as_ref().map_or(String::new(), |filter| format!(", only `{filter}`"));
    let extent = if args.full { "full" } else { "quick (`--full` runs the long cases too)" };
    eprintln!("==> {verdict}: device {device}, {extent}{scope}, {} s", started.elapsed().as_secs());
    result
}

/// The first error, with the second's words before it where there are two.
fn both(first: Result<()>, second: Result<()>) -> Result<()> {
    match (first, second) {
        (Err(first), Err(second)) => Err(first.context(format!("{second:#}, and"))),
        (first, second) => first.and(second),
    }
}

/// What is looked at besides cargo's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Further {
    /// The kernels under the checkers: one of each source with few seeds, or all with many. Built as the tests are, which
    /// cargo has just done.
    Checkers { full: bool },
    /// Whether the kernels for older devices are what the compiler makes for these.
    OlderDevices,
}

/// All of it, for these arguments.
fn further(args: &Args) -> Vec<Further> {
    match (&args.filter, args.full) {
        (Some(_), _) => vec![],
        (None, false) => vec![Further::Checkers { full: false }],
        (None, true) => vec![Further::Checkers { full: true }, Further::OlderDevices],
    }
}

impl Further {
    fn run(&self) -> Result<()> {
        let started = Instant::now();
        let (what, result) = match *self {
            Self::Checkers { full } => ("kernels under the checkers", check_kernels(full)),
            Self::OlderDevices => ("kernels for older devices", compare_older()),
        };
        eprintln!("==> {what}: {} s", started.elapsed().as_secs());
        result
    }
}

fn check_kernels(full: bool) -> Result<()> {
    let result = check::run_built("check", full.then_some("--full"));
    result.context("a kernel is wrong under some schedule; see above")
}

fn compare_older() -> Result<()> {
    if std::env::var_os("SYMMEM_PTX_DIR").is_some() {
        eprintln!("==> kernels for older devices SKIPPED: those that are tested came ready (SYMMEM_PTX_DIR)");
        return Ok(());
    }
    check_ptx::compare_older(&build::stage_one()?).context("a kernel for an older device is not its source's")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_compares_the_kernels_for_older_devices_and_a_chosen_one_runs_its_tests_alone() {
        let args = |full, filter: Option<&str>| Args {
            device: Device::Sim,
            full,
            ranks_per_gpu: 1,
            filter: filter.map(Into::into),
        };
        let full = [Further::Checkers { full: true }, Further::OlderDevices];
        assert_eq!(further(&args(true, None)), full);
        assert_eq!(further(&args(false, None)), [Further::Checkers { full: false }]);
        assert!(further(&args(true, Some("graphs"))).is_empty());
    }

    #[test]
    fn all_that_failed_is_told() {
        let fail = |what: &'static str| Err(anyhow::anyhow!(what));
        let told =
            format!("{:#}", [fail("b"), Ok(()), fail("c")].into_iter().fold(fail("a"), both).unwrap_err());
        assert!(["a", "b", "c"].iter().all(|what| told.contains(what)), "{told}");
        assert!(
            both(Ok(()), fail("b")).is_err()
                && both(fail("a"), Ok(())).is_err()
                && both(Ok(()), Ok(())).is_ok()
        );
    }
}
