//! The command line.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use symmem::sim::{ProbeKind, ScheduleKind};

/// Looks for races, deadlocks and missing orders in kernels, on the simulated machine.
#[derive(Debug, Parser)]
#[command(name = "symmem-check", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run kernels under many schedules and checkers
    Check(CheckArgs),
    /// Run one collective and draw what moved
    Trace(TraceArgs),
}

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Kernels: part of a name, or a pattern with `*` [default: all]
    #[arg(value_name = "KERNEL")]
    pub(crate) kernels: Vec<String>,

    /// Kernels of your own instead: a launch description (docs/checking.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernels", "mutants"])]
    pub(crate) launch: Option<PathBuf>,

    /// Numbers of ranks, separated by commas [default: 2,3,4; of a launch description, its own]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) ranks: Vec<u32>,

    /// Runs of each kernel at each number of ranks [default: 12; 200 with --full]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: Option<u64>,

    /// Kinds of schedules, separated by commas [default: unfair,random,pct]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_enum)]
    pub(crate) schedule: Vec<KindChoice>,

    /// What looks on
    #[arg(long, value_name = "PROBE", value_enum, default_value_t = ProbeChoice::Both)]
    pub(crate) probe: ProbeChoice,

    /// Repeat one run, as a finding names it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["kernels", "ranks", "seeds", "schedule", "mutants"])]
    pub(crate) replay: Option<String>,

    /// Every type and operation, not f32 sum alone, and 200 seeds each
    #[arg(long)]
    pub(crate) full: bool,

    /// Check the checkers: every mutant of the kernels must be caught, or be listed with its reason
    #[arg(long)]
    pub(crate) mutants: bool,

    /// With --mutants: only those whose name has this in it, or fits it as a pattern with `*`
    #[arg(long, value_name = "MUTANT", requires = "mutants")]
    pub(crate) only: Option<String>,

    /// Print what would be run, and stop
    #[arg(long)]
    pub(crate) list: bool,

    /// Runs at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,
}

/// Arguments of `trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// A collective, e.g. `all_reduce` or `broadcast`, or part of a kernel's name
    #[arg(value_name = "COLLECTIVE", required_unless_present = "launch")]
    pub(crate) subject: Option<String>,

    /// A kernel of your own instead: a launch description (docs/checking.md)
    #[arg(long, value_name = "FILE", conflicts_with = "subject")]
    pub(crate) launch: Option<PathBuf>,

    /// Ranks [default: 2; of a launch description, its own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) ranks: Option<u32>,

    /// Elements of the message, or of one rank's share
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub(crate) count: u64,

    /// Blocks of each launch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) ctas: u32,

    /// Operations in a row
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) ops: u32,

    /// Schedule, e.g. random:7
    #[arg(long, value_name = "SCHEDULE", default_value = "round-robin")]
    pub(crate) schedule: String,

    /// Draw the picture into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// Kinds of schedules that seeds make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindChoice {
    /// Each thread in turn; one run, whatever the seed
    RoundRobin,
    /// Threads drawn from the seed
    Random,
    /// Probabilistic concurrency testing
    Pct,
    /// Some ranks, blocks, warps or threads far behind the others
    Unfair,
}

/// Probes to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbeChoice {
    /// Results and deadlocks alone
    None,
    /// Race detection
    Races,
    /// Race detection and weak memory
    Weak,
    /// Race detection alone and with weak memory, by turns
    Both,
}

/// Changes of priority in a PCT schedule.
const PCT_CHANGES: u32 = 3;
/// Instructions of a thread in an operation, about: where the changes of PCT may fall.
const PCT_STEPS_PER_THREAD: u64 = 3000;

impl KindChoice {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::Pct => "pct",
            Self::Unfair => "unfair",
        }
    }

    /// The kind, for a run of so many threads.
    pub(crate) fn kind(self, n_threads: u64) -> ScheduleKind {
        match self {
            Self::RoundRobin => ScheduleKind::RoundRobin,
            Self::Random => ScheduleKind::Random,
            Self::Unfair => ScheduleKind::Unfair,
            Self::Pct => {
                ScheduleKind::Pct { n_changes: PCT_CHANGES, n_steps: PCT_STEPS_PER_THREAD * n_threads }
            }
        }
    }
}

impl ProbeChoice {
    pub(crate) fn probes(self) -> &'static [ProbeKind] {
        match self {
            Self::None => &[ProbeKind::None],
            Self::Races => &[ProbeKind::Races],
            Self::Weak => &[ProbeKind::Weak { races: true }],
            Self::Both => &[ProbeKind::Races, ProbeKind::Weak { races: true }],
        }
    }
}
