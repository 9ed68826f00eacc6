//! `symmem-check`: looks for races, deadlocks and missing orders in kernels, and draws what they do, on the simulated
//! machine.
//!
//! | module | what |
//! |---|---|
//! | [`cli`], [`select`] | what is asked for |
//! | [`program`], [`content`], [`bed`] | what a run is |
//! | [`subject`], [`finding`] | its name, and what is wrong with it |
//! | [`campaign`], [`check`] | many runs, and what is said of them |
//! | [`user`] | kernels of your own |
//! | [`trace`] | what one run did, as text and as a drawing |
//! | [`mutants`] | whether the checkers see what is missing |

mod bed;
mod campaign;
mod check;
mod cli;
mod content;
mod finding;
mod mutants;
mod program;
mod select;
mod subject;
mod trace;
mod user;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match cli::Cli::parse().command {
        cli::Command::Check(args) => check::run(&args),
        cli::Command::Trace(args) => trace::run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("symmem-check: {error:#}");
            ExitCode::from(2)
        }
    }
}
