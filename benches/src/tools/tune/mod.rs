//! `tune`: which algorithm is the fastest at which size on this machine, as a tuning table.
//!
//! | module | what |
//! |---|---|
//! | [`sweep`] | times of every algorithm, size after size |
//! | [`crossover`] | from times to intervals of sizes |
//! | [`report`] | what is said of it |
//! | [`shapes`] | one algorithm in many shapes |

mod crossover;
mod report;
mod shapes;
mod sweep;

use super::Rows;
use crate::case::{Case, Sizes, cases};
use crate::cli::{Choice, DeviceChoice, chosen, one_of};
use crate::facts::Facts;
use crate::machine;
use crate::memory::Memory;
use crate::sizes::{geometric, parse_size};
use crate::team::Team;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap::error::ErrorKind;
use report::Report;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use symmem::backend::MachineKind;
use symmem::collectives::{TuningKey, TuningRow, TuningTable, TypeClass};
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};

/// A type for each class that has algorithms of its own; where nothing is reduced, the first stands for all.
const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::I32, Dtype::U64];
/// From here on sizes grow by more.
const DENSE_BYTES_MAX: u64 = 64 << 20;
/// What all inputs consist of: a small number in every type.
const INPUT: u8 = 0x3c;

/// Time every algorithm of every collective at sizes from 8 bytes to 512 MiB, and write which one to take up to which size.
///
/// Times are those of an operation in a graph, out of place, on f32, i32 and u64, which stand for the types that have
/// the same kernels. Algorithms take turns; one that falls behind is left out at larger sizes. What is printed is a
/// tuning table, with the times as comments: SYMMEM_TUNING=FILE makes communicators use it. The simulated machine has
/// no time.
#[derive(Debug, clap::Parser)]
#[command(name = "tune")]
pub(super) struct Args {
    /// What to measure [default: all]
    #[arg(value_name = "COLLECTIVE", value_parser = one_of::<Collective>())]
    collectives: Vec<Choice<Collective>>,

    /// Ranks, one per device [default: all GPUs]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    ranks: Option<u32>,

    /// Smallest size in bytes: the buffer of an all-reduce, all shares of an all-gather; suffixes K, M, G
    #[arg(short = 'b', long, value_name = "SIZE", default_value = "8", value_parser = parse_size)]
    min_bytes: u64,

    /// Largest size in bytes
    #[arg(short = 'e', long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    max_bytes: u64,

    /// Give up after so many seconds; what is not measured by then is not written
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    budget_s: u64,

    /// Write the table to a file, without the times
    #[arg(long, value_name = "FILE", conflicts_with = "shapes")]
    write: Option<PathBuf>,

    /// Write JSON lines, one row per algorithm and size; - is standard output, and the table goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Time this algorithm alone, in many shapes of threads and blocks, and write no table
    #[arg(long, value_name = "ALGORITHM", value_parser = one_of::<Algorithm>())]
    shapes: Option<Choice<Algorithm>>,

    /// Machine to run on
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,
}

/// When the time is up.
struct Budget {
    start: Instant,
    limit: Duration,
}

impl Budget {
    fn check(&self) -> Result<()> {
        let spent = self.start.elapsed();
        anyhow::ensure!(spent <= self.limit, "{} s are over (--budget-s)", self.limit.as_secs());
        Ok(())
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (machine, n_ranks) = machine::open(args.device, args.ranks, 1)?;
    if machine.kind() == MachineKind::Sim {
        refuse("the simulated machine has no time, so there is nothing to tune for");
    }
    if args.min_bytes > args.max_bytes {
        refuse(&format!("--min-bytes {} is larger than --max-bytes {}", args.min_bytes, args.max_bytes));
    }
    let facts = Facts::of(&machine, (n_ranks, 1), None)?;
    let all = all_cases(args, n_ranks)?;
    let config = CommConfig {
        dtypes: DTYPES.to_vec(),
        ops: vec![Op::Sum],
        algorithm: None,
        ctas: None,
        threads: None,
        ..CommConfig::from_env()?
    };
    let flat: Vec<Case> = all.iter().flatten().copied().collect();
    let budget = Budget { start: Instant::now(), limit: Duration::from_secs(args.budget_s) };
    let mut report = Report::new(facts, args)?;
    if let Some(algorithm) = args.shapes.and_then(|choice| choice.0) {
        return shapes::run((&machine, &config), &flat, algorithm, &budget, &report);
    }
    let mut team = Team::new(&machine, n_ranks, None, &config, Memory::Alloc, &flat)?;
    sweep::fill(&team, INPUT)?;
    report.head()?;
    let (mut rows, mut failed) = (Vec::new(), None);
    for cases in &all {
        match tune(&mut team, cases, &budget, &mut report) {
            Ok(row) => rows.push(row),
            Err(error) => {
                failed = Some(error.context(format!("timing {} of {}", cases[0].collective, cases[0].dtype)));
                break;
            }
        }
    }
    report.table(&TuningTable::from_rows(rows)?)?;
    failed.map_or(Ok(()), Err)
}

/// One row: a collective on one class of types.
fn tune(team: &mut Team, cases: &[Case], budget: &Budget, report: &mut Report) -> Result<TuningRow> {
    let columns = sweep::sweep(team, cases, budget)?;
    let bytes: Vec<u64> = cases.iter().map(Case::part_bytes).collect();
    let fastest = crossover::crossovers(&bytes, &columns)?;
    let row = TuningRow { key: key(team, &cases[0])?, fastest };
    report.times(cases, &columns, &row)?;
    Ok(row)
}

fn key(team: &Team, case: &Case) -> Result<TuningKey> {
    let sm =
        team.comms.iter().map(|comm| Ok(comm.device().facts()?.sm)).collect::<symmem::Result<Vec<_>>>()?;
    Ok(TuningKey {
        sm: sm.into_iter().min().context("no ranks")?,
        n_ranks: case.n_ranks,
        has_multicast: team.comms[0].multicast_base().is_some(),
        collective: case.collective,
        types: TypeClass::of(case.collective, case.dtype),
    })
}

/// What is measured: for each collective and class of types, cases that grow.
fn all_cases(args: &Args, n_ranks: u32) -> Result<Vec<Vec<Case>>> {
    let mut all = Vec::new();
    for collective in chosen(&args.collectives) {
        let dtypes = if collective.reduces() { &DTYPES[..] } else { &DTYPES[..1] };
        for &dtype in dtypes {
            let counts = sizes(args.min_bytes, args.max_bytes).into_iter();
            let counts = counts.map(|bytes| crate::sizes::count_of(bytes, collective, dtype, n_ranks));
            let mut counts: Vec<_> = counts.collect();
            counts.dedup();
            all.push(cases(&[collective], &[dtype], &[Op::Sum], &Sizes::Counts(counts), n_ranks)?);
        }
    }
    Ok(all)
}

/// Twice as large each time, then four times, and the largest.
fn sizes(min: u64, max: u64) -> Vec<u64> {
    let mut sizes = geometric(min, max.min(DENSE_BYTES_MAX), 2);
    sizes.extend(geometric(sizes.last().map_or(min, |last| last.saturating_mul(4)), max, 4));
    if sizes.last() != Some(&max) {
        sizes.push(max);
    }
    sizes
}

/// Ends the program as a command line does that makes no sense.
fn refuse(why: &str) -> ! {
    Args::command().error(ErrorKind::ValueValidation, why).exit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn sizes_are_dense_where_algorithms_change() {
        assert_eq!(sizes(8, 8), [8]);
        assert_eq!(sizes(8, 40), [8, 16, 32, 40]);
        assert_eq!(sizes(32 << 20, 512 << 20), [32 << 20, 64 << 20, 256 << 20, 512 << 20]);
        assert_eq!(sizes(128 << 20, 512 << 20), [128 << 20, 512 << 20]);
    }

    /// Every class has its row, and no size comes twice.
    #[test]
    fn every_class_of_types_is_measured() {
        let args = Args::parse_from(["tune", "-e", "1M"]);
        let all = all_cases(&args, 4).expect("small");
        let classes = |case: &Case| (case.collective, TypeClass::of(case.collective, case.dtype));
        let mut found: Vec<_> = all.iter().map(|cases| classes(&cases[0])).collect();
        let expected = Collective::ALL.iter().map(|one| if one.reduces() { 3 } else { 1 }).sum::<usize>();
        assert_eq!(found.len(), expected);
        found.dedup();
        assert_eq!(found.len(), expected);
        for cases in all {
            assert!(cases.windows(2).all(|pair| pair[0].count < pair[1].count));
        }
    }
}
