//! Communicators.

pub(crate) mod bootstrap;
mod config;
mod identity;
mod init;
mod launcher;
mod order;
mod processes;
mod ranks;
mod record;
mod rendezvous;
mod unique_id;
mod worker;

pub use config::CommConfig;
pub(crate) use init::Agreed;
pub(crate) use order::StreamOrder;
pub use unique_id::UniqueId;
pub(crate) use worker::lock;

use crate::kernels::Kernels;
use crate::machine::Device;
use crate::stream::Stream;
use crate::symmetric::{Registration, Request, SymmetricSpace, WindowInner};
use crate::{Error, ErrorKind, Result};
use bytemuck::Pod;
use crossbeam::channel::Receiver;
use init::Process;
use record::Record;
use rendezvous::Rendezvous;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use worker::{Shared, Started, Task, Worker};

/// How many host deadlines a caller waits for its worker: a registration is a handful of exchanges with one each.
const EXCHANGES_MAX: u32 = 12;
/// How long a destructor waits: for operations in flight before it ends their waits, and for the other ranks.
pub(crate) const DROP_PATIENCE: Duration = Duration::from_secs(2);

static NEXT_COMM_ID: AtomicU64 = AtomicU64::new(1);

/// One rank's part of a communicator.
///
/// One operation is in flight at a time: launches on different streams are ordered one behind the other. All ranks call
/// the same operations in the same order with equal arguments (offsets, counts, types), one call after the other.
#[derive(Debug)]
pub struct Comm {
    id: u64,
    rank: u32,
    device: Device,
    agreed: Agreed,
    poisoned: Option<Error>,
    // From here on in the order in which it must go: worker, kernels, record, space, memory of all ranks.
    worker: Worker,
    shared: Arc<Shared>,
    kernels: Kernels,
    record: Arc<Record>,
    space: Arc<SymmetricSpace>,
    /// Held for its destructor: `DevBase` of all ranks of this process.
    _process: Arc<Process>,
}

impl Comm {
    /// One communicator over `devices`, all driven by this process; gives each rank's part, in rank order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DeviceCount`] for no devices, [`ErrorKind::InvalidArgument`] for a device named twice,
    /// [`ErrorKind::NoPeerAccess`] for two that cannot reach each other, [`ErrorKind::DriverTooOld`], and what the
    /// machine answers. Nothing is left behind.
    pub fn init_all(devices: &[Device]) -> Result<Vec<Self>> {
        Self::init_all_with(devices, &CommConfig::from_env()?)
    }

    /// As [`Self::init_all`], with settings that do not come from the environment.
    ///
    /// # Errors
    ///
    /// As [`Self::init_all`].
    pub fn init_all_with(devices: &[Device], config: &CommConfig) -> Result<Vec<Self>> {
        check_devices(devices)?;
        let id = NEXT_COMM_ID.fetch_add(1, Ordering::Relaxed);
        let n_ranks = devices.len() as u32;
        let process = Arc::new(Process::new(id, devices.iter().map(Device::index).collect(), n_ranks));
        let seats = Rendezvous::seats(n_ranks, config.host_timeout(devices[0].machine().kind()));
        let start = |(device, seat): (&Device, _)| {
            Worker::start(device.clone(), process.clone(), Arc::new(seat), config.clone())
        };
        let workers = devices.iter().zip(seats).map(start).collect::<Result<Vec<_>>>()?;
        let made = devices.iter().zip(workers).enumerate().map(|(rank, (device, (worker, started)))| {
            Self::finish(rank as u32, device, worker, &started, process.clone())
        });
        // Every rank is waited for before the first error is returned, so that all of it is undone.
        let made: Vec<Result<Self>> = made.collect();
        made.into_iter().collect::<Result<_>>().map_err(|error| error.context("making a communicator"))
    }

    /// Takes the result of a rank's worker.
    fn finish(
        rank: u32,
        device: &Device,
        worker: Worker,
        started: &Receiver<Result<Started>>,
        process: Arc<Process>,
    ) -> Result<Self> {
        let lost = || Err(ErrorKind::RankFailed { rank, reason: "its worker ended".into() }.into());
        let started = started.recv().unwrap_or_else(|_| lost())?;
        Ok(Self::new(rank, device, worker, started, process))
    }

    fn new(rank: u32, device: &Device, worker: Worker, started: Started, process: Arc<Process>) -> Self {
        let Started { ready, shared } = started;
        Self {
            id: process.comm_id,
            rank,
            device: device.clone(),
            agreed: ready.agreed,
            poisoned: None,
            worker,
            shared,
            kernels: ready.kernels,
            record: ready.record,
            space: ready.space,
            _process: process,
        }
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the communicator.
    pub fn n_ranks(&self) -> u32 {
        self.agreed.n_ranks
    }

    /// The device of this rank.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The space in which all ranks' memory appears.
    pub fn space(&self) -> &SymmetricSpace {
        &self.space
    }

    /// Allocates symmetric memory for `count` elements. Collective: every rank asks for the same; none waits in this
    /// call, so that one thread can ask for all ranks and then wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a count of 0, [`ErrorKind::SizeOverflow`],
    /// [`ErrorKind::Capture`] while an operation is being captured.
    pub fn alloc<T: Pod>(&self, count: usize) -> Result<Registration<T>> {
        let len_bytes = self.window_bytes::<T>(count)?;
        self.submit(Request::Allocate { len_bytes })
    }

    /// Registers `count` elements at `address`, memory of this rank's device that the caller has mapped (`cuMemMap`).
    /// Collective: every rank registers as much, at the same offset of an allocation of its own. The caller keeps its
    /// mapping; the memory appears in the symmetric space as well.
    ///
    /// # Errors
    ///
    /// As [`Self::alloc`]. What is wrong with the memory is told to all ranks, by [`Registration::wait`].
    pub fn register<T: Pod>(&self, address: u64, count: usize) -> Result<Registration<T>> {
        let len_bytes = self.window_bytes::<T>(count)?;
        self.submit(Request::Existing { address, len_bytes })
    }

    /// Waits for `stream`, then says whether all went well: what a kernel of this rank reported by then is returned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`], [`ErrorKind::Poisoned`], [`ErrorKind::Aborted`]; on the simulated machine also
    /// [`ErrorKind::Deadlock`] and [`ErrorKind::Fault`]. Every later call returns the same.
    pub fn synchronize(&mut self, stream: &Stream) -> Result<()> {
        if let Err(error) = stream.synchronize() {
            self.poisoned.get_or_insert(error);
        }
        self.check()
    }

    /// Says whether the communicator is still good. Waits for nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::synchronize`]; also what a destructor could not return.
    pub fn check(&mut self) -> Result<()> {
        if self.poisoned.is_none()
            && let Some(error) = &*lock(&self.shared.lost)
        {
            self.poisoned = Some(error.clone());
        }
        if self.poisoned.is_none()
            && let Err(error) = self.record.fault(self.rank)
        {
            self.poisoned = Some(error);
        }
        match &self.poisoned {
            Some(error) => Err(error.clone()),
            None => self.device.machine().take_deferred(),
        }
    }

    /// Ends every wait of this rank's kernels; they and their peers' end with an error.
    pub fn abort(&self) {
        self.record.abort();
    }

    /// The live window that covers a range of addresses, by its symmetric or by the caller's address.
    pub(crate) fn window_at(&self, address: u64, len_bytes: u64) -> Result<Arc<WindowInner>> {
        let mut windows = lock(&self.shared.windows);
        windows.retain(|window| window.strong_count() > 0);
        let live: Vec<_> = windows.iter().filter_map(std::sync::Weak::upgrade).collect();
        if let Some(found) = live.iter().find(|window| window.find(address, len_bytes).is_some()) {
            return Ok(found.clone());
        }
        let starts = live.iter().map(|window| {
            let start = self.space.address(self.rank, window.flat(Default::default()));
            (start.abs_diff(address), format!("{} bytes at {start:#x}", window.len_bytes))
        });
        let nearest = starts.min().map_or("none".into(), |(_, text)| text);
        Err(ErrorKind::OutsideWindow { address, len_bytes, nearest }.into())
    }

    pub(crate) fn agreed(&self) -> Agreed {
        self.agreed
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn record_address(&self) -> u64 {
        self.record.device_address()
    }

    pub(crate) fn order(&self) -> std::sync::MutexGuard<'_, StreamOrder> {
        lock(&self.shared.order)
    }

    fn window_bytes<T>(&self, count: usize) -> Result<u64> {
        if count == 0 || size_of::<T>() == 0 {
            let allowed = "at least 1 element of at least 1 byte".into();
            let what = "size of a window";
            return Err(ErrorKind::InvalidArgument { what, found: "0 bytes".into(), allowed }.into());
        }
        (count as u64).checked_mul(size_of::<T>() as u64).ok_or_else(|| {
            let what = format!("a window of {count} elements of {} bytes", size_of::<T>());
            ErrorKind::SizeOverflow { what }.into()
        })
    }

    fn submit<T: Pod>(&self, request: Request) -> Result<Registration<T>> {
        self.order().refuse_in_capture("a window cannot be registered")?;
        let (result, receiver) = crossbeam::channel::bounded(1);
        self.worker.submit(Task { request, result });
        let deadline = self.shared.host_timeout.saturating_mul(EXCHANGES_MAX);
        Ok(Registration { result: receiver, deadline, element: PhantomData })
    }
}

/// Waits for the operations in flight, a bounded time, so that nothing is unmapped under them.
impl Drop for Comm {
    fn drop(&mut self) {
        let waited = self.order().quiesce(DROP_PATIENCE);
        let Err(error) = waited else { return };
        self.record.abort();
        let machine = self.device.machine();
        machine.defer(Err(error.context(format!("waiting for the operations of rank {}", self.rank))));
        machine.defer(self.order().quiesce(DROP_PATIENCE));
    }
}

fn check_devices(devices: &[Device]) -> Result<()> {
    let Some(first) = devices.first() else {
        return Err(ErrorKind::DeviceCount { asked: 0, found: 0 }.into());
    };
    for (n, device) in devices.iter().enumerate() {
        if !device.machine().is_same(first.machine()) {
            let (what, detail) = (format!("device {}", device.index()), "all must be of one machine".into());
            return Err(ErrorKind::Foreign { what, detail }.into());
        }
        for peer in &devices[..n] {
            check_pair(device, peer)?;
        }
    }
    Ok(())
}

fn check_pair(device: &Device, peer: &Device) -> Result<()> {
    if device.index() == peer.index() {
        let (found, allowed) = (format!("{} twice", device.index()), "each device once".into());
        return Err(ErrorKind::InvalidArgument { what: "list of devices", found, allowed }.into());
    }
    let backend = device.machine().backend();
    for (from, to) in [(device.index(), peer.index()), (peer.index(), device.index())] {
        if !backend.can_access_peer(from, to)? {
            return Err(ErrorKind::NoPeerAccess { device: from, peer: to }.into());
        }
    }
    Ok(())
}
