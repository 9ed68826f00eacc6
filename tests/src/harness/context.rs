//! What a case is given: machines, and how thorough to be.

use super::{Extent, Host};
use crate::faulty::{Faulty, faulty};
use anyhow::{Result, ensure};
use std::sync::{Arc, Mutex, PoisonError};
use symmem::Machine;
use symmem::backend::MachineKind;
use symmem::sim::{LiveCounts, ProbeKind, SimConfig, SimMachine};

/// Devices of a simulated machine, unless a case needs more.
const SIM_DEVICES: u32 = 8;

/// Where a case runs.
#[derive(Debug)]
pub(crate) struct Context {
    kind: MachineKind,
    extent: Extent,
    sim_devices: u32,
    opened: Mutex<Vec<(Machine, Option<Arc<SimMachine>>)>>,
}

impl Context {
    /// For a case that needs so many ranks.
    pub(crate) fn new(kind: MachineKind, extent: Extent, ranks_needed: u32) -> Self {
        let sim_devices = ranks_needed.max(SIM_DEVICES).div_ceil(extent.ranks_per_gpu);
        Self { kind, extent, sim_devices, opened: Mutex::default() }
    }

    /// A fresh simulated machine, or the GPUs.
    pub(crate) fn machine(&self) -> Result<Host> {
        self.machine_with(|_| ())
    }

    /// As [`Self::machine_with`], for a case that leaves something behind on purpose.
    pub(crate) fn machine_to_leave(&self, change: impl FnOnce(&mut SimConfig)) -> Result<Host> {
        let machine = self.machine_with(change)?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(machine)
    }

    /// As [`Self::machine`]; `change` shapes the simulated machine.
    pub(crate) fn machine_with(&self, change: impl FnOnce(&mut SimConfig)) -> Result<Host> {
        let machine = if self.kind == MachineKind::Cuda {
            self.keep(Machine::cuda()?, None)
        } else {
            let sim = self.new_sim(change)?;
            self.keep(Machine::from_backend(sim.clone()), Some(sim))
        };
        Ok(Host::new(machine, self.extent.ranks_per_gpu))
    }

    /// A fresh simulated machine, shaped by `change`, on which calls can be made to fail.
    pub(crate) fn faulty_machine(&self, change: impl FnOnce(&mut SimConfig)) -> Result<(Host, Arc<Faulty>)> {
        let sim = self.new_sim(change)?;
        let faulty = faulty(sim.clone());
        let machine = self.keep(Machine::from_backend(faulty.clone()), Some(sim));
        Ok((Host::new(machine, self.extent.ranks_per_gpu), faulty))
    }

    /// Lets go of all machines opened so far, once [`Self::finish`] is content with them.
    pub(crate) fn forget_machines(&self) -> Result<()> {
        self.finish()?;
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    fn new_sim(&self, change: impl FnOnce(&mut SimConfig)) -> Result<Arc<SimMachine>> {
        let mut config = SimConfig {
            n_devices: self.sim_devices,
            probe: ProbeKind::None,
            stall_grace_ms: 300,
            ..SimConfig::default()
        };
        change(&mut config);
        // What a case wants is for each rank.
        config.device_memory_bytes =
            config.device_memory_bytes.saturating_mul(self.extent.ranks_per_gpu.into());
        Ok(SimMachine::new(config)?)
    }

    fn keep(&self, machine: Machine, sim: Option<Arc<SimMachine>>) -> Machine {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).push((machine.clone(), sim));
        machine
    }

    /// Whether it is the simulated machine.
    pub(crate) fn is_sim(&self) -> bool {
        self.kind == MachineKind::Sim
    }

    /// `brief`, or `full` where thoroughness was asked for.
    pub(crate) fn rounds(&self, brief: usize, full: usize) -> usize {
        if self.extent.full { full } else { brief }
    }

    /// The simulated machine opened last.
    pub(crate) fn sim(&self) -> Option<Arc<SimMachine>> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.last().and_then(|(_, sim)| sim.clone())
    }

    /// Live objects of the simulated machine opened last.
    pub(crate) fn live(&self) -> Option<LiveCounts> {
        self.sim().map(|sim| sim.live())
    }

    /// Fails if a destructor failed, or if the case left something on a simulated machine.
    pub(crate) fn finish(&self) -> Result<()> {
        for (machine, sim) in self.opened.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            machine.take_deferred()?;
            if let Some(live) = sim.as_ref().map(|sim| sim.live()) {
                ensure!(live == LiveCounts::default(), "the case left something behind: {live:?}");
            }
        }
        Ok(())
    }
}
