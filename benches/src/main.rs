//! `symmem-bench`: measures and checks the collectives of `symmem`, in the manner of nccl-tests.
//!
//! | module | what |
//! |---|---|
//! | [`cli`], [`sizes`], [`case`] | what is asked for |
//! | [`machine`], [`memory`], [`team`], [`program`] | where it runs, and how |
//! | [`processes`], [`link`] | one process for each rank |
//! | [`data`], [`mod@reference`], [`check`], [`parallel`] | what must come out |
//! | [`measure`], [`timer`], [`spin`], [`rates`] | what it took |
//! | [`nccl`], [`rivals`] | what NCCL takes, beside it |
//! | [`growth`], [`plot`] | the growth of vectors in device memory, and pictures |
//! | [`tools`] | other measurements, and a picture |
//! | [`run`], [`table`], [`json`], [`curves`], [`facts`], [`progress`] | what is said of it |

mod case;
mod check;
mod cli;
mod curves;
mod data;
mod facts;
mod growth;
mod json;
mod link;
mod machine;
mod measure;
mod memory;
mod nccl;
mod parallel;
mod plot;
mod processes;
mod program;
mod progress;
mod rates;
mod reference;
mod rivals;
mod run;
mod sizes;
mod spin;
mod table;
mod team;
mod timer;
mod tools;

use clap::{CommandFactory, Parser, error::ErrorKind};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    if let Some(done) = tools::run(&args) {
        return done.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS);
    }
    let cli = cli::Cli::parse();
    if cli.ranks_per_gpu.is_some() {
        machine::give_streams_queues();
    }
    let link = match link::Link::find() {
        Ok(link) => link,
        Err(error) => return failed(&error),
    };
    if let (Some(n_procs), None) = (cli.procs, &link) {
        let timeout = std::time::Duration::from_secs(cli.timeout_s);
        return processes::run(n_procs, timeout).unwrap_or_else(|error| failed(&error));
    }
    let job = match run::Job::new(&cli, link) {
        Ok(job) => job,
        Err(run::Refusal::Usage(message)) => {
            cli::Cli::command().error(ErrorKind::ValueValidation, message).exit()
        }
        Err(run::Refusal::Failure(error)) => return failed(&error),
    };
    job.run().map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("symmem-bench: {error:#}");
    ExitCode::FAILURE
}
