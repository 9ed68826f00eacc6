//! A machine as a case gets it: how many ranks a communicator may have, and which device each of them is on.

use anyhow::Result;
use std::ops::Deref;
use symmem::{CommConfig, Device, Machine};

/// A machine, and how many ranks may share each of its devices.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    machine: Machine,
    ranks_per_device: u32,
}

impl Host {
    pub(crate) fn new(machine: Machine, ranks_per_device: u32) -> Self {
        Self { machine, ranks_per_device }
    }

    /// Most ranks of a communicator.
    pub(crate) fn ranks_max(&self) -> u32 {
        self.device_count() * self.ranks_per_device
    }

    /// A device for each of so many ranks: every device in turn, and then the first one again.
    pub(crate) fn places(&self, n_ranks: u32) -> Result<Vec<Device>> {
        if n_ranks == 0 || n_ranks > self.ranks_max() {
            anyhow::bail!("{n_ranks} ranks were asked for, 1 to {} have a place", self.ranks_max());
        }
        let place = |rank: u32| Ok(self.device(rank % self.device_count())?);
        (0..n_ranks).map(place).collect()
    }

    /// Settings with which as many ranks share a device as may.
    pub(crate) fn sharing(&self, config: &CommConfig) -> CommConfig {
        CommConfig { ranks_per_device: self.ranks_per_device, ..config.clone() }
    }
}

impl Deref for Host {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}
