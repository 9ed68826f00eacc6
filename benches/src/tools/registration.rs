//! `registration`: how long it takes to make a communicator, and to register and deregister windows.

use super::Rows;
use super::calls::Calls;
use crate::cli::DeviceChoice;
use crate::facts::{Facts, FactsRow};
use crate::machine;
use crate::sizes::{human_bytes, parse_size};
use anyhow::{Result, ensure};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use symmem::backend::{Access, MachineKind};
use symmem::vmm::{Mapping, PhysicalAllocation, Reservation};
use symmem::{Comm, Deregistration, Device, Registration, Window};

/// Bytes of a window on GPUs and on the simulated machine, unless they are asked for.
const WINDOW_BYTES: u64 = 64 << 20;
const SIM_WINDOW_BYTES: u64 = 2 << 20;

/// Measure how long it takes to make a communicator, and to register 1, 16, 256 windows in one group.
///
/// One thread drives all ranks. `alloc` makes new memory; `register` takes memory that is mapped already, as a program
/// with an allocator of its own has it. Each row is the median of several repetitions.
#[derive(Debug, clap::Parser)]
#[command(name = "registration")]
pub(super) struct Args {
    /// Ranks, one per device [default: all GPUs; 4 on the simulated machine]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,

    /// Machine to run on
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,

    /// Windows that are registered together, separated by commas
    #[arg(short = 'w', long, value_name = "N", value_delimiter = ',', default_value = "1,16,256")]
    windows: Vec<u64>,

    /// Bytes of each window [default: 64M; 2M on the simulated machine]
    #[arg(short = 'b', long, value_name = "SIZE", value_parser = parse_size)]
    bytes: Option<u64>,

    /// Repetitions of each row
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,

    /// Print how long the calls of the driver take in each step
    #[arg(long)]
    calls: bool,

    /// Write JSON lines, one row per measurement; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One measurement.
#[derive(Serialize)]
struct Row<'a> {
    what: &'static str,
    ranks: u32,
    windows: u64,
    window_bytes: u64,
    time_us: f64,
    time_per_window_us: f64,
    #[serde(flatten)]
    facts: FactsRow<'a>,
}

struct Report {
    facts: Facts,
    rows: Rows,
    n_ranks: u32,
    window_bytes: u64,
    calls: Option<Calls>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (machine, n_ranks) = machine::open(args.device, args.ranks, 1)?;
    let calls = args.calls.then(Calls::default);
    let machine = calls.as_ref().map_or(machine.clone(), |calls| machine.watched(calls.clone()));
    let default = if machine.kind() == MachineKind::Sim { SIM_WINDOW_BYTES } else { WINDOW_BYTES };
    let window_bytes = args.bytes.unwrap_or(default);
    ensure!(window_bytes > 0, "--bytes must be above 0");
    let facts = Facts::of(&machine, (n_ranks, 1), None)?;
    let mut report = Report { facts, rows: Rows::open(args.json.as_deref())?, n_ranks, window_bytes, calls };
    let devices = machine.devices(n_ranks)?;
    println!("# {n_ranks} ranks, machine {}, windows of {}", report.facts.machine, human_bytes(window_bytes));
    println!("{:<12} {:>8} {:>14} {:>14}", "what", "windows", "time/us", "per window/us");
    // A context takes the driver a fifth of a second, and any program on GPUs makes one: it is told apart.
    let start = Instant::now();
    let _streams = devices.iter().map(symmem::Stream::new).collect::<symmem::Result<Vec<_>>>()?;
    report.say("contexts", 1, vec![micros(start)])?;
    report.say_calls("contexts");
    let start = Instant::now();
    let comms = Comm::init_all(&devices)?;
    report.say("init", 1, vec![micros(start)])?;
    report.say_calls("init");
    let start = Instant::now();
    let first = alloc(&comms, 1, window_bytes)?;
    report.say("first alloc", 1, vec![micros(start)])?;
    deregister(&comms, first)?;
    report.say_calls("the first alloc and dealloc");
    for &windows in &args.windows {
        measure(&mut report, &comms, windows, args.repetitions)?;
    }
    Ok(())
}

fn measure(report: &mut Report, comms: &[Comm], windows: u64, repetitions: u32) -> Result<()> {
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..repetitions {
        let start = Instant::now();
        let made = alloc(comms, windows, report.window_bytes)?;
        times[0].push(micros(start));
        report.say_calls("alloc");
        let start = Instant::now();
        deregister(comms, made)?;
        times[1].push(micros(start));
        report.say_calls("dealloc");
        let memory = comms.iter().map(|comm| mapped(comm.device(), windows, report.window_bytes));
        let memory = memory.collect::<symmem::Result<Vec<_>>>()?;
        report.say_calls("memory of the caller");
        let start = Instant::now();
        let made = register(comms, &memory, report.window_bytes)?;
        times[2].push(micros(start));
        report.say_calls("register");
        let start = Instant::now();
        deregister(comms, made)?;
        times[3].push(micros(start));
        report.say_calls("deregister");
    }
    for (what, times) in ["alloc", "dealloc", "register", "deregister"].into_iter().zip(times) {
        report.say(what, windows, times)?;
    }
    Ok(())
}

impl Report {
    fn say_calls(&self, what: &str) {
        if let Some(calls) = &self.calls {
            calls.print(what);
        }
    }

    fn say(&mut self, what: &'static str, windows: u64, mut times: Vec<f64>) -> Result<()> {
        times.sort_by(f64::total_cmp);
        let time_us = times[times.len() / 2];
        let time_per_window_us = time_us / windows.max(1) as f64;
        println!("{what:<12} {windows:>8} {time_us:>14.1} {time_per_window_us:>14.1}");
        let facts = &self.facts;
        self.rows.write(&Row {
            what,
            ranks: self.n_ranks,
            windows,
            window_bytes: self.window_bytes,
            time_us,
            time_per_window_us,
            facts: facts.row(),
        })
    }
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// Windows of all ranks, window by window.
type Windows = Vec<Window<u8>>;

fn alloc(comms: &[Comm], windows: u64, len_bytes: u64) -> Result<Windows> {
    let asked: Vec<_> = symmem::group(|group| {
        let each = (0..windows).flat_map(|_| comms);
        each.map(|comm| group.alloc::<u8>(comm, len_bytes as usize)).collect()
    })?;
    Ok(asked.into_iter().map(Registration::wait).collect::<symmem::Result<_>>()?)
}

fn register(comms: &[Comm], memory: &[Vec<Mapping>], len_bytes: u64) -> Result<Windows> {
    let asked: Vec<_> = symmem::group(|group| {
        let n_windows = memory.first().map_or(0, Vec::len);
        let each = (0..n_windows)
            .flat_map(|n| comms.iter().zip(memory).map(move |(comm, memory)| (comm, &memory[n])));
        each.map(|(comm, mapping)| group.register::<u8>(comm, mapping.address(), len_bytes as usize))
            .collect()
    })?;
    Ok(asked.into_iter().map(Registration::wait).collect::<symmem::Result<_>>()?)
}

fn deregister(comms: &[Comm], windows: Windows) -> Result<()> {
    let asked: Vec<_> = symmem::group(|group| {
        let each = comms.iter().cycle().zip(windows);
        each.map(|(comm, window)| group.deregister(comm, window)).collect()
    })?;
    let unmapped = asked.into_iter().map(Deregistration::wait).collect::<symmem::Result<Vec<_>>>()?;
    ensure!(unmapped.iter().all(|one| *one), "every window's memory was unmapped");
    Ok(())
}

/// Allocations of one device, each mapped at an address of its own.
fn mapped(device: &Device, n: u64, len_bytes: u64) -> symmem::Result<Vec<Mapping>> {
    let map = |_| {
        let physical = Arc::new(PhysicalAllocation::new(device, len_bytes)?);
        let align_bytes = device.granularity_bytes()?;
        let reservation = Arc::new(Reservation::new(device.machine(), physical.len_bytes(), align_bytes)?);
        let mapping = Mapping::new(&reservation, 0, &physical)?;
        mapping.set_access(device.index(), Access::ReadWrite)?;
        Ok(mapping)
    };
    (0..n).map(map).collect()
}
