//! The machine that a command line asks for, and how many ranks it gets.

use crate::cli::DeviceChoice;
use symmem::backend::MachineKind;
use symmem::{Machine, Result};

/// Ranks on the simulated machine, unless they are asked for.
const SIM_RANKS: u32 = 4;

/// Opens the machine; gives the number of ranks too. A simulated machine has as many devices as there are ranks, unless
/// `SYMMEM_SIM_DEVICES` says how many.
///
/// # Errors
///
/// What opening it answers.
pub(crate) fn open(choice: DeviceChoice, ranks: Option<u32>) -> Result<(Machine, u32)> {
    let machine = match choice {
        DeviceChoice::Auto => Machine::open()?,
        DeviceChoice::Cuda => Machine::cuda()?,
        DeviceChoice::Sim => return simulated(ranks.unwrap_or(SIM_RANKS)),
    };
    match machine.kind() {
        MachineKind::Cuda => {
            let n_ranks = ranks.unwrap_or(machine.device_count());
            Ok((machine, n_ranks))
        }
        MachineKind::Sim => simulated(ranks.unwrap_or(SIM_RANKS)),
    }
}

#[cfg(feature = "sim")]
fn simulated(n_ranks: u32) -> Result<(Machine, u32)> {
    use symmem::sim::{ProbeKind, SimConfig, SimMachine};
    let mut config = SimConfig::from_env()?;
    let is_unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    if is_unset("SYMMEM_SIM_DEVICES") {
        config.n_devices = n_ranks;
    }
    if is_unset("SYMMEM_SIM_PROBE") {
        config.probe = ProbeKind::Hops;
    }
    Ok((Machine::from_backend(SimMachine::new(config)?), n_ranks))
}

#[cfg(not(feature = "sim"))]
fn simulated(n_ranks: u32) -> Result<(Machine, u32)> {
    Machine::sim().map(|machine| (machine, n_ranks))
}
