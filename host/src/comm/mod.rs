//! Communicators.

pub(crate) mod bootstrap;
mod config;
mod devices;
mod fork;
mod group;
mod identity;
mod init;
mod launcher;
mod operations;
mod order;
mod picture;
mod prepare;
mod processes;
mod ranks;
mod record;
mod rendezvous;
mod requests;
mod unique_id;
mod worker;

pub use config::CommConfig;
pub use group::{Group, group};
pub(crate) use init::Agreed;
pub(crate) use operations::Operations;
pub(crate) use order::StreamOrder;
pub use unique_id::UniqueId;
pub(crate) use worker::lock;

use crate::backend::{CaptureState, Token};
use crate::collectives::{Asked, Calls, Plan, TuningTable};
use crate::kernels::Kernels;
use crate::machine::Device;
use crate::stream::Stream;
use crate::symmetric::{FlatOffset, Found, Multicast, SymmetricSpace, WindowInner};
use crate::{Error, ErrorKind, Result};
use crossbeam::channel::Receiver;
use fork::Forks;
use init::Process;
use operations::{Touched, keep};
use record::Record;
use rendezvous::Rendezvous;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use symmem_device::kernels::Algorithm;
use worker::{Shared, Started};
pub(crate) use worker::{Task, Worker};

/// How many host deadlines a caller waits for its worker: a registration is a handful of exchanges with one each.
const EXCHANGES_MAX: u32 = 20;
/// How long a destructor waits: for operations in flight before it ends their waits, and for the other ranks.
pub(crate) const DROP_PATIENCE: Duration = Duration::from_secs(2);

/// How long the news of a peer's death may take to arrive.
pub(crate) const NEWS_PATIENCE: Duration = Duration::from_millis(500);

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
    tuning: Arc<TuningTable>,
    poisoned: Option<Error>,
    last_plan: Option<(Asked, Plan)>,
    /// How often one kernel does each collective, if it does so again and again.
    pub(crate) repeats: Option<NonZeroU32>,
    forks: Mutex<Forks>,
    // From here on in the order in which it must go: worker, kernels, record, space, memory of all ranks.
    worker: Worker,
    shared: Arc<Shared>,
    kernels: Arc<Kernels>,
    record: Arc<Record>,
    space: Arc<SymmetricSpace>,
    multicast: Multicast,
    /// `DevBase` of all ranks of this process.
    process: Arc<Process>,
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
        devices::check(devices, config.ranks_per_device)?;
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
            tuning: ready.tuning,
            poisoned: None,
            last_plan: None,
            repeats: None,
            forks: Mutex::default(),
            worker,
            shared,
            kernels: ready.kernels,
            record: ready.record,
            space: ready.space,
            multicast: ready.multicast,
            process,
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

    /// Address of the multicast space, in which the byte at an offset stands for the byte of every rank at that offset of
    /// its part; `None` without multicast, which is the same on all ranks ([`Self::describe`] says why).
    pub fn multicast_base(&self) -> Option<u64> {
        self.multicast.space().map(|space| space.address(FlatOffset::new(0)))
    }

    /// Waits for `stream`, then says whether all went well: what a kernel of this rank reported by then is returned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`], [`ErrorKind::Poisoned`], [`ErrorKind::Aborted`]; where calls are checked
    /// ([`CommConfig::check`]), [`ErrorKind::Mismatched`] and [`ErrorKind::Concurrent`]; on the simulated machine also
    /// [`ErrorKind::Deadlock`] and [`ErrorKind::Fault`]. Every later call returns the same. [`ErrorKind::Capture`] for a
    /// stream that is being captured, which leaves the communicator as it is.
    pub fn synchronize(&mut self, stream: &Stream) -> Result<()> {
        if let Err(error) = stream.synchronize() {
            // A mistake of the caller, which breaks the capture but not the communicator.
            if matches!(stream.capture_state(), Ok(state) if state != CaptureState::None) {
                let what = "a stream cannot be waited for while it is being captured; end the capture first";
                return Err(ErrorKind::Capture { what: what.into() }.into());
            }
            self.poisoned.get_or_insert(error);
        }
        self.check()
    }

    /// Says whether the communicator is still good. Waits for nothing, but a moment for the news which process died where
    /// one may have.
    ///
    /// # Errors
    ///
    /// As [`Self::synchronize`]; also what a destructor could not return.
    pub fn check(&mut self) -> Result<()> {
        self.check_usable()?;
        self.device.machine().take_error()
    }

    /// As [`Self::check`], without what destructors had to say: another communicator's must not keep one rank from a
    /// launch that its peers make.
    pub(crate) fn check_usable(&mut self) -> Result<()> {
        if self.poisoned.is_none() {
            self.poisoned = self.shared.lost(Duration::ZERO).or_else(|| self.fault());
        }
        self.poisoned.clone().map_or(Ok(()), Err)
    }

    /// What a kernel reported. Where it was told to give up, by the host or by a peer, the reason may be the death of a
    /// process, of which this rank hears a little later than others.
    fn fault(&self) -> Option<Error> {
        let error = self.record.fault(self.rank, &self.process.calls).err()?;
        let may_be_loss = matches!(error.kind(), ErrorKind::Poisoned { .. } | ErrorKind::Aborted { .. });
        let lost = if may_be_loss && self.process.spans_processes() {
            self.shared.lost(NEWS_PATIENCE)
        } else {
            None
        };
        Some(lost.unwrap_or(error))
    }

    /// Ends every wait of this rank's kernels, with an error there and at their peers, and the use of the communicator on
    /// this rank: every later operation and [`Self::check`] return [`ErrorKind::Aborted`].
    pub fn abort(&self) {
        self.record.abort();
    }

    /// The live window that covers a range of addresses, by its symmetric or by the caller's address.
    pub(crate) fn window_at(&self, address: u64, len_bytes: u64) -> Result<Arc<WindowInner>> {
        match lock(&self.shared.windows).find(address, len_bytes) {
            Found::Owner(window) => Ok(window),
            Found::SeveralPlaces(places) => {
                let what =
                    format!("address {address:#x}, which windows cover at offsets {places:x?} of the space,");
                let hint = "use the window, or the address that it has in the space".into();
                Err(ErrorKind::Unsupported { what, hint }.into())
            }
            Found::Nothing(nearest) => {
                let text = |(start, len_bytes)| format!("{len_bytes} bytes at {start:#x}");
                let nearest = nearest.map_or("none".into(), text);
                Err(ErrorKind::OutsideWindow { address, len_bytes, nearest }.into())
            }
        }
    }

    pub(crate) fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// What rank 0 wanted at init is replaced, and so is what was planned by it.
    pub(crate) fn set_wishes(&mut self, algorithm: Option<Algorithm>, ctas: Option<u32>) {
        (self.agreed.algorithm, self.agreed.ctas, self.last_plan) = (algorithm, ctas, None);
    }

    pub(crate) fn tuning(&self) -> &TuningTable {
        &self.tuning
    }

    pub(crate) fn last_plan(&self) -> Option<(Asked, Plan)> {
        self.last_plan
    }

    pub(crate) fn keep_plan(&mut self, asked: Asked, plan: Plan) {
        self.last_plan = Some((asked, plan));
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// What ranks of this process have called.
    pub(crate) fn calls(&self) -> &Calls {
        &self.process.calls
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn record_address(&self) -> u64 {
        self.record.device_address()
    }

    /// What a graph keeps of an operation on these windows.
    pub(crate) fn kept(&self, windows: &[&Arc<WindowInner>]) -> Token {
        let touched = Touched::new(windows, &self.kernels, &self.record, &self.process);
        keep(self.device().machine().released(), touched)
    }

    pub(crate) fn order(&self) -> MutexGuard<'_, StreamOrder> {
        lock(&self.shared.order)
    }

    pub(crate) fn forks(&self) -> MutexGuard<'_, Forks> {
        lock(&self.forks)
    }

    /// Whether there are ranks that this process's group does not drive.
    pub(crate) fn spans_processes(&self) -> bool {
        self.process.spans_processes()
    }

    pub(crate) fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Longer than what the worker itself waits, so that its error arrives.
    fn patience(&self) -> Duration {
        self.shared.host_timeout.saturating_mul(EXCHANGES_MAX)
    }

    /// What is still in use stays for good: unmapping it under a kernel would break the whole process.
    fn leak(&self) {
        tracing::error!(rank = self.rank, "operations do not end; what they may touch is never unmapped");
        std::mem::forget((
            self.kernels.clone(),
            self.record.clone(),
            self.space.clone(),
            self.process.clone(),
        ));
    }
}

/// Waits for the operations in flight, so that nothing is unmapped under them: 2 seconds. Those that have not ended by
/// then are ended as by [`Comm::abort`], which peers that are in the same operation get as an error, and are given 2
/// seconds more; what they may touch stays mapped for good if even that does not end them. Both are told by the next
/// [`crate::Machine::take_deferred`]. Whoever has operations that take longer waits for them before:
/// [`Comm::synchronize`].
impl Drop for Comm {
    fn drop(&mut self) {
        let waited = self.order().quiesce(DROP_PATIENCE);
        // A kernel that gave up has ended, but its peers may still touch this rank's memory.
        if !self.record.is_clean() {
            self.shared.is_cut_short.store(true, Ordering::Release);
        }
        let Err(error) = waited else { return };
        self.record.abort();
        self.shared.is_cut_short.store(true, Ordering::Release);
        let machine = self.device.machine().clone();
        machine.defer(Err(error.context(format!("waiting for the operations of rank {}", self.rank))));
        let ended = self.order().quiesce(DROP_PATIENCE);
        let is_open =
            |kind: &ErrorKind| matches!(kind, ErrorKind::Deadline { .. } | ErrorKind::Capture { .. });
        if ended.as_ref().is_err_and(|error| is_open(error.kind())) {
            self.leak();
        }
        machine.defer(ended);
    }
}
