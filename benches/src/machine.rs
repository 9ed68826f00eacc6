//! The machine that a command line asks for, and how many ranks it gets.

use crate::cli::DeviceChoice;
use symmem::backend::MachineKind;
use symmem::{Device, Machine, Result};

/// Ranks on the simulated machine, unless they are asked for.
const SIM_RANKS: u32 = 4;

/// Opens the machine; gives the number of ranks too, of which `ranks_per_gpu` may share a device. A simulated machine
/// has as many devices as they need, unless `SYMMEM_SIM_DEVICES` says how many.
///
/// # Errors
///
/// What opening it answers.
pub(crate) fn open(choice: DeviceChoice, ranks: Option<u32>, ranks_per_gpu: u32) -> Result<(Machine, u32)> {
    let machine = match choice {
        DeviceChoice::Auto => Machine::open()?,
        DeviceChoice::Cuda => Machine::cuda()?,
        DeviceChoice::Sim => return simulated(ranks.unwrap_or(SIM_RANKS), ranks_per_gpu),
    };
    match machine.kind() {
        MachineKind::Cuda => {
            let n_ranks = ranks.unwrap_or(machine.device_count() * ranks_per_gpu);
            Ok((machine, n_ranks))
        }
        MachineKind::Sim => simulated(ranks.unwrap_or(SIM_RANKS), ranks_per_gpu),
    }
}

/// Lets as many streams of a GPU as can have a queue of their own, unless the environment says how many: the kernels of
/// ranks that share a GPU wait for each other, and none may wait behind another (CUDA programming guide, "CUDA
/// environment variables"). At the start of the program, before it has threads.
pub(crate) fn give_streams_queues() {
    const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
    if std::env::var_os(CONNECTIONS).is_none() {
        // SAFETY: this is the only thread, as the caller says.
        unsafe { std::env::set_var(CONNECTIONS, "32") };
    }
}

/// A device for each of so many ranks: every device in turn, and then the first one again, up to `ranks_per_gpu` times.
///
/// # Errors
///
/// That there are too few devices.
pub(crate) fn places(machine: &Machine, n_ranks: u32, ranks_per_gpu: u32) -> Result<Vec<Device>> {
    let found = machine.device_count();
    if n_ranks > found.saturating_mul(ranks_per_gpu) {
        return machine.devices(n_ranks);
    }
    let devices = machine.devices(n_ranks.min(found))?;
    Ok(devices.into_iter().cycle().take(n_ranks as usize).collect())
}

#[cfg(feature = "sim")]
fn simulated(n_ranks: u32, ranks_per_gpu: u32) -> Result<(Machine, u32)> {
    use symmem::sim::{ProbeKind, SimConfig, SimMachine};
    let mut config = SimConfig::from_env()?;
    let is_unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    if is_unset("SYMMEM_SIM_DEVICES") {
        config.n_devices = n_ranks.div_ceil(ranks_per_gpu);
    }
    if is_unset("SYMMEM_SIM_PROBE") {
        config.probe = ProbeKind::Hops;
    }
    Ok((Machine::from_backend(SimMachine::new(config)?), n_ranks))
}

#[cfg(not(feature = "sim"))]
fn simulated(n_ranks: u32, _ranks_per_gpu: u32) -> Result<(Machine, u32)> {
    Machine::sim().map(|machine| (machine, n_ranks))
}
