//! Communicators whose ranks are processes.

use super::init::Process;
use super::launcher::Place;
use super::{Comm, CommConfig, NEXT_COMM_ID, UniqueId, processes};
use crate::Result;
use crate::comm::worker::Worker;
use crate::environment::with_variables;
use crate::machine::{Device, Machine};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Communicators that this process has made from its environment.
static N_FROM_ENV: AtomicU64 = AtomicU64::new(0);

impl Comm {
    /// This process's part of a communicator of `n_ranks` processes of one host. Collective: returns when all have come.
    /// Rank 0 makes the id and gives it to the others.
    ///
    /// ```no_run
    /// # fn main() -> symmem::Result<()> {
    /// # let (rank, text) = (1, String::new());
    /// let id: symmem::UniqueId = text.parse()?; // what rank 0 printed
    /// let device = symmem::Machine::open()?.device(rank)?;
    /// let comm = symmem::Comm::init_rank(&device, 2, rank, &id)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Deadline`] naming ranks that did not come, [`crate::ErrorKind::Unsupported`] for ranks on
    /// different hosts, [`crate::ErrorKind::InvalidArgument`] for two on one device, [`crate::ErrorKind::RankFailed`] for
    /// one that failed or died, and what the machine answers. Nothing is left behind.
    pub fn init_rank(device: &Device, n_ranks: u32, rank: u32, id: &UniqueId) -> Result<Self> {
        Self::init_rank_with(device, n_ranks, rank, id, &CommConfig::from_env()?)
    }

    /// As [`Self::init_rank`], with settings that do not come from the environment.
    ///
    /// # Errors
    ///
    /// As [`Self::init_rank`].
    pub fn init_rank_with(
        device: &Device,
        n_ranks: u32,
        rank: u32,
        id: &UniqueId,
        config: &CommConfig,
    ) -> Result<Self> {
        Self::join(device, n_ranks, rank, id, config)
            .map_err(|error| error.context(format!("rank {rank} of {n_ranks}, making a communicator")))
    }

    /// This process's part of a communicator of all processes that a launcher started: torchrun, Slurm or Open MPI. The
    /// device is the one of its rank on the host, or the only one that it sees. The other ranks are found by what the
    /// launcher says, or by `SYMMEM_RENDEZVOUS` (`tcp://HOST:PORT` or `dir:/PATH`).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::InvalidArgument`] naming the variable that cannot be read,
    /// [`crate::ErrorKind::Unsupported`] without a launcher; otherwise as [`Self::init_rank`].
    pub fn from_env() -> Result<Self> {
        let number = N_FROM_ENV.fetch_add(1, Ordering::Relaxed);
        let place = with_variables(|set| Place::from_variables(set, number))?;
        let machine = Machine::open()?;
        let index = if machine.backend().device_count() == 1 { 0 } else { place.local_rank };
        Self::init_rank(&machine.device(index)?, place.n_ranks, place.rank, &place.id)
    }

    fn join(device: &Device, n_ranks: u32, rank: u32, id: &UniqueId, config: &CommConfig) -> Result<Self> {
        let timeout = config.host_timeout(device.machine().kind());
        let seat = processes::join(id, n_ranks, rank, timeout)?;
        let comm_id = NEXT_COMM_ID.fetch_add(1, Ordering::Relaxed);
        let process = Arc::new(Process::new(comm_id, vec![device.index()], n_ranks));
        let (worker, started) =
            Worker::start(device.clone(), process.clone(), Arc::new(seat), config.clone())?;
        Self::finish(rank, device, worker, &started, process)
    }
}
