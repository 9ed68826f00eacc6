//! `map`: a small communicator with windows of every kind, and the picture of its space.

use crate::cli::DeviceChoice;
use crate::machine;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::sync::Arc;
use symmem::backend::Access;
use symmem::vmm::{Mapping, PhysicalAllocation, Reservation};
use symmem::{Comm, Device};

/// Print the symmetric space of a small communicator: ranks, windows, offsets, physical handles, rights.
#[derive(Debug, clap::Parser)]
#[command(name = "map")]
pub(super) struct Args {
    /// Ranks, one per device [default: all GPUs; 4 on the simulated machine]
    #[arg(short = 'g', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,

    /// Machine to run on
    #[arg(long, value_enum, default_value_t = DeviceChoice::Auto)]
    device: DeviceChoice,

    /// Draw it into this file as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (machine, n_ranks) = machine::open(args.device, args.ranks, 1)?;
    let devices = machine.devices(n_ranks)?;
    let comms = Comm::init_all(&devices)?;
    let memory = devices.iter().map(mapped).collect::<symmem::Result<Vec<_>>>()?;
    let asked: Vec<_> = symmem::group(|group| {
        let mut asked = Vec::new();
        for (comm, memory) in comms.iter().zip(&memory) {
            asked.push(group.alloc::<u8>(comm, 3 << 20)?);
            // Two windows that overlap in memory of the caller.
            asked.push(group.register(comm, memory.address(), 1 << 20)?);
            asked.push(group.register(comm, memory.address() + 4096, 4096)?);
        }
        Ok(asked)
    })?;
    let windows = asked.into_iter().map(symmem::Registration::wait).collect::<symmem::Result<Vec<_>>>()?;
    println!("{}", comms[0].describe());
    if let Some(path) = &args.svg {
        std::fs::write(path, comms[0].describe_svg())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    drop(windows);
    Ok(())
}

/// Memory as a program with an allocator of its own has it.
fn mapped(device: &Device) -> symmem::Result<Mapping> {
    let physical = Arc::new(PhysicalAllocation::new(device, 1 << 20)?);
    let align_bytes = device.granularity_bytes()?;
    let reservation = Arc::new(Reservation::new(device.machine(), physical.len_bytes(), align_bytes)?);
    let mapping = Mapping::new(&reservation, 0, &physical)?;
    mapping.set_access(device.index(), Access::ReadWrite)?;
    Ok(mapping)
}
