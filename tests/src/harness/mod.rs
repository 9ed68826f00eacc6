//! Runs the cases: on the simulated machine in this process, on GPUs (and where a case counts what its process holds)
//! each in a child process that is killed when it takes too long.

mod case;
mod child;
mod context;
mod options;
mod trials;

pub(crate) use case::{Case, RunsOn};
pub(crate) use context::Context;
pub(crate) use options::{DeviceChoice, Options};

use std::process::ExitCode;
use symmem::backend::MachineKind;

/// What a program that runs the cases does.
pub fn main() -> ExitCode {
    let options = match Options::from_env() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(2);
        }
    };
    if let Some(name) = &options.child {
        let kind = if options.device == DeviceChoice::Sim { MachineKind::Sim } else { MachineKind::Cuda };
        return child::run_here(name, kind, options.full);
    }
    if let Some(name) = &options.rank_program {
        let Some(program) = crate::cases::processes::program(name) else {
            eprintln!("no program of a rank is named {name}");
            return ExitCode::from(2);
        };
        return crate::processes::run_rank(program);
    }
    let gpus = trials::Gpus::find(options.device);
    let cases = crate::cases::all(options.full, gpus.count());
    let trials = trials::of(cases, &options, &gpus);
    libtest_mimic::run(&options.arguments, trials).exit_code()
}
