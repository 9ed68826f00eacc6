//! `symmem-bench growth`: what it takes to grow a vector in device memory by mapping, and by copying.
//!
//! | module | what |
//! |---|---|
//! | [`measure`] | grows vectors step by step |
//! | [`report`] | table, JSON lines and plot |

mod measure;
mod report;

use crate::cli::DeviceChoice;
use crate::facts::Facts;
use crate::sizes::{geometric, human_bytes, parse_size};
use anyhow::{Context, Result, ensure};
use measure::{Kind, Step};
use std::path::PathBuf;
use symmem::Machine;
use symmem::backend::MachineKind;

/// First argument of the bench that asks for it.
pub(crate) const NAME: &str = "growth";

/// First and last size on GPUs and on the simulated machine, unless they are asked for.
const CUDA_BYTES: (u64, u64) = (64 << 20, 8 << 30);
const SIM_BYTES: (u64, u64) = (2 << 20, 64 << 20);

/// Grows vectors in device memory, by mapping and by copying, and prints what it takes.
///
/// Each step makes the vector hold the next size. The peak is the most device memory in use during the step, less what
/// was in use before the vector. Every step's elements are looked at in samples. On the simulated machine there is no
/// time, so the pages that are copied are what to compare.
#[derive(Debug, clap::Parser)]
#[command(name = "symmem-bench growth", version)]
pub(crate) struct Args {
    /// First size in bytes; suffixes K, M, G [default: 64M; 2M on the simulated machine]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = parse_size)]
    min_bytes: Option<u64>,

    /// Last size in bytes [default: 8G; 64M on the simulated machine]
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = parse_size)]
    max_bytes: Option<u64>,

    /// Factor between sizes
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..))]
    factor: u64,

    /// Times that the whole growth is timed; the median of each step is told
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,

    /// Machine to run on; auto is SYMMEM_DEVICE if set, else GPUs where there are any
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,

    /// Write JSON lines, one row per vector and size, to a file; - is standard output, and the table goes to standard
    /// error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a plot of peak and time to a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// One vector's growth to one size.
struct Row {
    kind: Kind,
    bytes: u64,
    step: Step,
}

/// Runs the command.
///
/// # Errors
///
/// If a vector does not grow, or its elements do not stay; or if a file cannot be written.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (machine, _) = crate::machine::open(args.device, Some(1), 1)?;
    let facts = Facts::of(&machine, (1, 1), None)?;
    let sizes = sizes(args, &machine)?;
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let grown = measure::grow(&machine, kind, &sizes, args.repetitions);
        let steps = grown.with_context(|| format!("growing a {}", kind.name()))?;
        rows.extend(steps.into_iter().zip(&sizes).map(|(step, &bytes)| Row { kind, bytes, step }));
    }
    report::table(&facts, &machine, &rows, args)?;
    report::json(&facts, &rows, args)?;
    if let Some(path) = &args.svg {
        std::fs::write(path, report::plot(&facts, &rows))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn sizes(args: &Args, machine: &Machine) -> Result<Vec<u64>> {
    let (min, max) = if machine.kind() == MachineKind::Sim { SIM_BYTES } else { CUDA_BYTES };
    let min = args.min_bytes.unwrap_or(min);
    let max = args.max_bytes.unwrap_or(max.max(min));
    ensure!(min >= 8, "--min-bytes {min}: a vector's element has 8 bytes");
    ensure!(min <= max, "--min-bytes {} is larger than --max-bytes {}", human_bytes(min), human_bytes(max));
    Ok(geometric(min, max, args.factor))
}
