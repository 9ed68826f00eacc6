//! Build, test, measure and look after symmem: `cargo xtask <command>`.

mod bench;
mod build;
mod check;
mod check_ptx;
mod dist;
mod doctor;
mod elf;
#[path = "../../host/build/kernels.rs"]
mod kernels;
mod lint;
mod map;
mod shell;
mod test;
mod tune;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Build, test, measure and look after symmem.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile the kernels to PTX and check them, then compile the workspace.
    Build(build::Args),
    /// Run the bench, in release; its arguments are passed on (`--help` lists them).
    Bench(bench::Args),
    /// Run every test, on real GPUs or on the simulated machine.
    Test(test::Args),
    /// Look for races, deadlocks and missing orders in kernels, on the simulated machine.
    Check(check::Args),
    /// Run one collective on the simulated machine and draw what moved.
    Trace(check::Args),
    /// Say what this machine has: toolchain, rust-src, GPUs, driver, NCCL, multicast, ptxas.
    Doctor,
    /// Print the symmetric space of a small communicator as a picture.
    Map(map::Args),
    /// Measure which algorithm is the fastest at which size on these GPUs, and write it as a tuning table.
    Tune(tune::Args),
    /// Make a folder with binaries that run on a machine without Rust.
    Dist(dist::Args),
    /// Assemble all PTX with ptxas and print registers and spills.
    CheckPtx(check_ptx::Args),
    /// Check format, lints, docs (host and device) and what none of them sees.
    Lint(lint::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Build(args) => build::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Check(args) => check::run("check", &args),
        Command::Trace(args) => check::run("trace", &args),
        Command::Doctor => doctor::run(),
        Command::Map(args) => map::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::CheckPtx(args) => check_ptx::run(&args),
        Command::Lint(args) => lint::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(shell::exit_code(&error))
        }
    }
}
