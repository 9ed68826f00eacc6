//! Runs the cases: on the simulated machine in this process, on GPUs (and where a case counts what its process holds)
//! each in a child process that is killed when it takes too long.

mod case;
mod child;
mod context;
mod host;
mod options;
mod trials;

pub(crate) use case::{Case, RunsOn};
pub(crate) use context::Context;
pub(crate) use host::Host;
pub(crate) use options::{DeviceChoice, Extent, Options};

use std::process::ExitCode;
use symmem::backend::MachineKind;

/// What a filter means that no case matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMatch {
    /// Nothing: it may have been meant for another test program that cargo runs as well.
    Passes,
    /// A mistake of whoever wrote it.
    Fails,
}

/// What a program that runs the cases does.
pub fn main(no_match: NoMatch) -> ExitCode {
    let options = match Options::from_env() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::from(2);
        }
    };
    if let Some(name) = &options.child {
        let kind = if options.device == DeviceChoice::Sim { MachineKind::Sim } else { MachineKind::Cuda };
        return child::run_here(name, kind, options.extent);
    }
    if let Some(name) = &options.rank_program {
        let Some(program) = crate::cases::processes::program(name) else {
            eprintln!("no program of a rank is named {name}");
            return ExitCode::from(2);
        };
        return crate::processes::run_rank(program);
    }
    let gpus = trials::Gpus::find(options.device);
    let cases = crate::cases::all(options.extent, gpus.count());
    let trials = trials::of(cases, &options, &gpus);
    let is_asked_for = |trial: &libtest_mimic::Trial| trials::is_asked_for(trial.name(), &options.arguments);
    if no_match == NoMatch::Fails && !options.arguments.list && !trials.iter().any(is_asked_for) {
        eprintln!("no case matches {:?} (--list names all {})", options.arguments.filter, trials.len());
        return ExitCode::from(2);
    }
    libtest_mimic::run(&options.arguments, trials).exit_code()
}
