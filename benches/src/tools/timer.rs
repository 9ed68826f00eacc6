//! `timer`: the bench's timer against a kernel that spins for a known time.

use super::Rows;
use crate::cli::DeviceChoice;
use crate::facts::{Facts, FactsRow};
use crate::machine;
use crate::spin::{self, Spinner};
use crate::timer::Timer;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::path::PathBuf;
use symmem::Stream;

/// Nanoseconds of the spins.
const SPINS_NS: [u64; 4] = [10_000, 50_000, 200_000, 1_000_000];
/// In front of each, so that what is timed is launched while its stream is busy.
const AHEAD_NS: u64 = 300_000;
/// What lies between the events and the kernel (4.7 us on an H200), and how far two clocks of one device may be apart.
const SLACK_US: f64 = 6.0;
const SLACK_PART: f64 = 0.01;

/// Time kernels that spin until the device's clock has gone on by 10, 50, 200 and 1000 us, as collectives are timed, and
/// compare with what each kernel saw on that clock.
///
/// On the simulated machine, which has no time, only that each spins as long as asked is checked. The exit status is 1
/// when any is off by more than 1% and 6 us.
#[derive(Debug, clap::Parser)]
#[command(name = "timer")]
pub(super) struct Args {
    /// Devices that spin at once
    #[arg(short = 'g', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// Machine to run on
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,

    /// Write JSON lines, one row per measurement; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One measurement.
#[derive(Serialize)]
struct Row<'a> {
    asked_us: f64,
    /// What the slowest kernel saw.
    spun_us: f64,
    time_us: Option<f64>,
    ranks: u32,
    #[serde(flatten)]
    facts: FactsRow<'a>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (machine, n_ranks) = machine::open(args.device, Some(args.ranks), 1)?;
    let facts = Facts::of(&machine, (n_ranks, 1), None)?;
    let mut rows = Rows::open(args.json.as_deref())?;
    let devices = machine.devices(n_ranks)?;
    let streams = devices.iter().map(Stream::new).collect::<symmem::Result<Vec<_>>>()?;
    let spinners = devices.iter().map(Spinner::new).collect::<symmem::Result<Vec<_>>>()?;
    println!("# {n_ranks} devices, machine {}, {}", facts.machine, facts.devices());
    println!("{:>10} {:>12} {:>12}", "asked/us", "spun/us", "timed/us");
    let mut n_wrong = 0;
    for spin_ns in SPINS_NS {
        let (spun_us, time_us) = measure(&spinners, &streams, spin_ns)?;
        let asked_us = spin_ns as f64 / 1e3;
        let time = time_us.map_or("-".to_owned(), |us| format!("{us:.2}"));
        println!("{asked_us:>10.0} {spun_us:>12.2} {time:>12}");
        n_wrong += usize::from(is_wrong(asked_us, spun_us, time_us));
        rows.write(&Row { asked_us, spun_us, time_us, ranks: n_ranks, facts: facts.row() })?;
    }
    if n_wrong > 0 {
        bail!("{n_wrong} times are off by more than {SLACK_US} us and {}%", SLACK_PART * 100.0);
    }
    Ok(())
}

/// Whether a kernel spun less than it was asked to, or the timer saw another time than the kernel.
fn is_wrong(asked_us: f64, spun_us: f64, time_us: Option<f64>) -> bool {
    let is_off = |time_us: f64| (time_us - spun_us).abs() > SLACK_US + SLACK_PART * spun_us;
    spun_us < asked_us || time_us.is_some_and(is_off)
}

/// Spins on all devices at once: the longest that a kernel saw, and what the timer says, in microseconds.
fn measure(spinners: &[Spinner], streams: &[Stream], spin_ns: u64) -> Result<(f64, Option<f64>)> {
    let timer = Timer::new(streams)?;
    spin::all(spinners, streams, AHEAD_NS)?;
    timer.start(streams)?;
    spin::all(spinners, streams, spin_ns)?;
    timer.stop(streams)?;
    streams.iter().try_for_each(Stream::synchronize)?;
    let spun = spinners.iter().map(Spinner::spun_ns).collect::<symmem::Result<Vec<_>>>()?;
    let spun_ns = spun.into_iter().max().context("no device spun")?;
    Ok((spun_ns as f64 / 1e3, timer.slowest_us()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_wrong_beyond_its_slack_only() {
        let table = [
            (50.0, 50.0, None, false),
            (50.0, 49.9, None, true),
            (50.0, 50.1, Some(56.5), false),
            (50.0, 50.1, Some(56.7), true),
            (1000.0, 1000.0, Some(985.0), false),
            (1000.0, 1000.0, Some(983.0), true),
        ];
        for (asked, spun, timed, expected) in table {
            assert_eq!(is_wrong(asked, spun, timed), expected, "{asked} {spun} {timed:?}");
        }
    }
}
