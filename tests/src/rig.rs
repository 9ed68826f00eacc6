//! A communicator over some devices, with a stream on each rank, driven by one thread.

use crate::harness::Host;
use anyhow::Result;
use bytemuck::Pod;
use symmem::{Algorithm, Collective, Comm, CommConfig, Device, Dtype, GraphExec, Op, Stream, Window};
use symmem_device::kernels::KERNELS;

/// All ranks of a communicator. The communicators go before the streams.
#[derive(Debug)]
pub(crate) struct Rig {
    /// Each rank's part, in rank order.
    pub(crate) comms: Vec<Comm>,
    /// A stream on each rank's device.
    pub(crate) streams: Vec<Stream>,
}

/// Default settings, and the kernels of every operation.
pub(crate) fn every_op() -> CommConfig {
    CommConfig { ops: Op::ALL.to_vec(), ..CommConfig::default() }
}

/// Default settings without the check of calls: for cases about what the kernels of the collectives themselves do, and for
/// long ones.
pub(crate) fn unchecked() -> CommConfig {
    CommConfig { check: Some(false), ..CommConfig::default() }
}

/// The collectives with the algorithms that do them without multicast, as the table of kernels has them.
pub(crate) fn kinds() -> Vec<(Collective, Algorithm)> {
    all_kinds().into_iter().filter(|(_, algorithm)| algorithm.multicast().is_none()).collect()
}

/// Those that need multicast, which no GPU runs here.
pub(crate) fn multicast_kinds() -> Vec<(Collective, Algorithm)> {
    all_kinds().into_iter().filter(|(_, algorithm)| algorithm.multicast().is_some()).collect()
}

fn all_kinds() -> Vec<(Collective, Algorithm)> {
    let mut kinds: Vec<_> = KERNELS.iter().map(|kernel| (kernel.collective, kernel.algorithm)).collect();
    kinds.dedup();
    kinds
}

impl Rig {
    /// Ranks 0..`n_ranks`, one on each device as long as there are enough, with default settings.
    pub(crate) fn new(machine: &Host, n_ranks: u32) -> Result<Self> {
        Self::with(machine, n_ranks, &CommConfig::default())
    }

    /// As [`Self::new`], with settings.
    pub(crate) fn with(machine: &Host, n_ranks: u32, config: &CommConfig) -> Result<Self> {
        Self::on(&machine.places(n_ranks)?, &machine.sharing(config))
    }

    /// One rank on each device, in their order.
    pub(crate) fn on(devices: &[Device], config: &CommConfig) -> Result<Self> {
        let comms = Comm::init_all_with(devices, config)?;
        let streams = devices.iter().map(Stream::new).collect::<symmem::Result<_>>()?;
        Ok(Self { comms, streams })
    }

    /// Number of ranks.
    pub(crate) fn n_ranks(&self) -> u32 {
        self.comms.len() as u32
    }

    /// A symmetric window on each rank.
    pub(crate) fn alloc<T: Pod>(&self, count: usize) -> Result<Vec<Window<T>>> {
        let asked = self.comms.iter().map(|comm| comm.alloc(count)).collect::<symmem::Result<Vec<_>>>()?;
        Ok(asked.into_iter().map(symmem::Registration::wait).collect::<symmem::Result<_>>()?)
    }

    /// Registers `count` elements at each rank's address; gives each rank's answer.
    pub(crate) fn register<T: Pod>(
        &self,
        addresses: &[u64],
        counts: &[usize],
    ) -> Result<Vec<symmem::Result<Window<T>>>> {
        let asked = self.comms.iter().zip(addresses.iter().zip(counts));
        let asked = asked
            .map(|(comm, (&address, &count))| comm.register(address, count))
            .collect::<symmem::Result<Vec<_>>>()?;
        Ok(asked.into_iter().map(symmem::Registration::wait).collect())
    }

    /// Loads kernels on all ranks; gives each rank's answer.
    pub(crate) fn prepare(&self, dtypes: &[Dtype], ops: &[Op]) -> Vec<symmem::Result<()>> {
        let asked: Vec<_> = self.comms.iter().map(|comm| comm.prepare(dtypes, ops)).collect();
        asked.into_iter().map(|asked| asked.and_then(symmem::Preparation::wait)).collect()
    }

    /// Does something on each rank, in rank order.
    pub(crate) fn each(
        &mut self,
        mut act: impl FnMut(&mut Comm, &Stream) -> symmem::Result<()>,
    ) -> Result<()> {
        for (comm, stream) in self.comms.iter_mut().zip(&self.streams) {
            act(comm, stream)?;
        }
        Ok(())
    }

    /// Waits for all ranks; the first error in rank order.
    pub(crate) fn synchronize(&mut self) -> Result<()> {
        self.each(|comm, stream| comm.synchronize(stream))
    }
}

/// What one rank has captured, the window that it writes, and a stream.
pub(crate) type Captured = (GraphExec, Window<f32>, Stream);

/// Captures on a thread for each rank, then launches all; gives the windows when all is done.
pub(crate) fn replay(
    n_ranks: u32,
    captured: impl Fn(u32) -> Result<Captured> + Sync,
) -> Result<Vec<Window<f32>>> {
    let ranks = std::thread::scope(|scope| {
        let captured = &captured;
        let threads: Vec<_> = (0..n_ranks).map(|rank| scope.spawn(move || captured(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?;
    ranks.iter().try_for_each(|(graph, _, stream)| graph.launch(stream))?;
    ranks.iter().try_for_each(|(_, _, stream)| stream.synchronize())?;
    Ok(ranks.into_iter().map(|(_, window, _)| window).collect())
}
