//! `host-cost`: what one call costs the host, over the bare launch.

use super::Rows;
use crate::cli::DeviceChoice;
use crate::facts::{Facts, FactsRow};
use crate::machine;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;
use symmem::backend::{Backend, FunctionHandle, LaunchShape, ModuleHandle};
use symmem::{Comm, Device, Op, Stream, Window};
use symmem_device::abi::CollectiveArgs;

/// A kernel that takes as many bytes of arguments as the collectives do, and does nothing.
const NOTHING: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry nothing(.param .align 8 .b8 nothing_param_0[ARGUMENT_BYTES])
{
    ret;
}
";
/// Calls in one go: few enough that the driver's queue has room for all of them.
const CALLS_MAX: u32 = 256;
/// A device of this compute capability launches the collectives before the work in front of them has ended.
const WAITS_ITSELF_SM_MIN: u32 = 90;

/// Measure nanoseconds of the host per call: of a bare launch of an empty kernel, and of an all-reduce.
///
/// Calls are made in bursts that the queue of the driver has room for; the device is waited for outside of the time.
#[derive(Debug, clap::Parser)]
#[command(name = "host-cost")]
pub(super) struct Args {
    /// Ranks, one per device
    #[arg(short = 'g', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// Machine to run on
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,

    /// Calls in one burst
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(CALLS_MAX)))]
    calls: u32,

    /// Bursts, of which the median counts
    #[arg(short, long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u32).range(1..))]
    bursts: u32,

    /// Write JSON lines, one row per measurement; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One measurement.
#[derive(Serialize)]
struct Row<'a> {
    what: &'static str,
    ranks: u32,
    host_ns_per_call: f64,
    over_bare_launch_ns: f64,
    calls: u32,
    bursts: u32,
    #[serde(flatten)]
    facts: FactsRow<'a>,
}

/// An empty kernel on one device.
struct Nothing<'a> {
    device: &'a Device,
    module: ModuleHandle,
    function: FunctionHandle,
    shape: LaunchShape,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (machine, n_ranks) = machine::open(args.device, Some(args.ranks), 1)?;
    let facts = Facts::of(&machine, (n_ranks, 1), None)?;
    let mut rows = Rows::open(args.json.as_deref())?;
    let devices = machine.devices(n_ranks)?;
    let streams = devices.iter().map(Stream::new).collect::<symmem::Result<Vec<_>>>()?;
    let nothing = devices.iter().map(Nothing::load).collect::<Result<Vec<_>>>()?;
    let mut comms = Comm::init_all(&devices)?;
    let asked: Vec<_> =
        symmem::group(|group| comms.iter().map(|comm| group.alloc::<f32>(comm, 1024)).collect())?;
    let mut windows =
        asked.into_iter().map(symmem::Registration::wait).collect::<symmem::Result<Vec<Window<f32>>>>()?;
    let addresses: Vec<u64> = windows.iter().map(Window::address).collect();
    let bare = median(args, &streams, |rank, stream| nothing[rank].launch(stream))?;
    let typed = median(args, &streams, |rank, stream| {
        comms[rank].all_reduce_in_place(&mut windows[rank], Op::Sum, stream)
    })?;
    let by_address = median(args, &streams, |rank, stream| {
        let at = addresses[rank];
        comms[rank].all_reduce_at(at, at, 1024, symmem::Dtype::F32, Op::Sum, stream)
    })?;
    println!(
        "# {n_ranks} ranks, machine {}; the simulated machine's own cost is not that of a driver",
        facts.machine
    );
    println!("{:<26} {:>12} {:>14}", "what", "host/ns", "over bare/ns");
    for (what, host_ns_per_call) in
        [("bare launch", bare), ("all_reduce_in_place", typed), ("all_reduce_at", by_address)]
    {
        println!("{what:<26} {host_ns_per_call:>12.0} {:>14.0}", host_ns_per_call - bare);
        rows.write(&Row {
            what,
            ranks: n_ranks,
            host_ns_per_call,
            over_bare_launch_ns: host_ns_per_call - bare,
            calls: args.calls,
            bursts: args.bursts,
            facts: facts.row(),
        })?;
    }
    comms.iter_mut().zip(&streams).try_for_each(|(comm, stream)| comm.synchronize(stream))?;
    Ok(())
}

/// Nanoseconds of the host per call, in the median burst. The first burst warms up.
fn median(
    args: &Args,
    streams: &[Stream],
    mut call: impl FnMut(usize, &Stream) -> symmem::Result<()>,
) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..=args.bursts {
        let start = Instant::now();
        for _ in 0..args.calls {
            streams.iter().enumerate().try_for_each(|(rank, stream)| call(rank, stream))?;
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(args.calls) / streams.len() as f64);
        streams.iter().try_for_each(Stream::synchronize)?;
    }
    times.remove(0);
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

impl<'a> Nothing<'a> {
    fn load(device: &'a Device) -> Result<Self> {
        let backend = seam(device);
        let ptx = NOTHING.replace("ARGUMENT_BYTES", &size_of::<CollectiveArgs>().to_string());
        let module =
            backend.module_load(device.index(), &ptx, "an empty kernel").context("an empty kernel")?;
        let function = backend.function(module, "nothing")?;
        let waits_itself = device.facts()?.sm >= WAITS_ITSELF_SM_MIN;
        let shape = LaunchShape { blocks: 1, threads: 128, shared_bytes: 0, waits_itself };
        Ok(Self { device, module, function, shape })
    }

    fn launch(&self, stream: &Stream) -> symmem::Result<()> {
        let argument = [0; size_of::<CollectiveArgs>()];
        seam(self.device).launch(stream.handle(), self.function, self.shape, &argument)
    }
}

fn seam(device: &Device) -> &dyn Backend {
    // SAFETY: the handles are of this machine and live; the kernel touches no memory.
    unsafe { device.machine().raw_backend() }
}

impl Drop for Nothing<'_> {
    fn drop(&mut self) {
        if let Err(error) = seam(self.device).module_unload(self.module) {
            eprintln!("symmem-bench: unloading the empty kernel: {error}");
        }
    }
}
