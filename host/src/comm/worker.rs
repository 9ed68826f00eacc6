//! Each communicator's worker: a thread that makes the rank ready and then registers and deregisters memory, one task at a
//! time.

use crate::Result;
use crate::comm::bootstrap::Bootstrap;
use crate::comm::config::CommConfig;
use crate::comm::init::{Process, Ready, init};
use crate::comm::operations::Operations;
use crate::comm::order::StreamOrder;
use crate::comm::prepare::{Pause, load_when_idle};
use crate::comm::{DROP_PATIENCE, NEWS_PATIENCE};
use crate::kernels::Kernels;
use crate::kernels_ptx::KernelSet;
use crate::machine::Device;
use crate::stream::Event;
use crate::symmetric::{IntervalIndex, Kind, Promise, Registrar, Request, WindowInner};
use crate::{Error, ErrorKind};
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Something to carry out, and where its result goes.
#[derive(Debug)]
pub(crate) enum Task {
    Register {
        request: Request,
        promise: Promise<Arc<WindowInner>>,
    },
    Deregister {
        window: Arc<WindowInner>,
        promise: Promise<bool>,
    },
    Prepare {
        sets: Vec<KernelSet>,
        pause: Pause,
        promise: Promise<()>,
    },
    /// What the caller was refused: the other ranks, which may come for it, are told.
    Refused {
        kind: Kind,
        why: Error,
    },
}

/// What the worker shares with its communicator.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) order: Mutex<StreamOrder>,
    /// Windows registered and not yet dropped, for look-up by address.
    pub(crate) windows: Mutex<IntervalIndex<WindowInner>>,
    pub(crate) host_timeout: Duration,
    /// An operation did not end by itself: peers may still touch this rank's memory when the worker has gone.
    pub(crate) is_cut_short: AtomicBool,
    /// The peer of another process that died, if one did.
    lost: Mutex<Option<Error>>,
    /// Signalled when one did.
    lost_changed: Condvar,
}

impl Shared {
    /// The error that names the peer of another process that died; waits for the news at most `patience`.
    pub(crate) fn lost(&self, patience: Duration) -> Option<Error> {
        let lost = lock(&self.lost);
        let waited = self.lost_changed.wait_timeout_while(lost, patience, |lost| lost.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// The thread, and the queue of its tasks.
#[derive(Debug)]
pub(crate) struct Worker {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    seat: Arc<dyn Bootstrap>,
}

/// What a worker hands back when its rank is ready.
pub(crate) struct Started {
    pub(crate) ready: Ready,
    pub(crate) shared: Arc<Shared>,
}

impl Worker {
    /// Starts to make a rank ready; the result comes through the channel.
    pub(crate) fn start(
        device: Device,
        process: Arc<Process>,
        seat: Arc<dyn Bootstrap>,
        config: CommConfig,
    ) -> Result<(Self, Receiver<Result<Started>>)> {
        let (tasks, queue) = unbounded();
        let (started, result) = bounded(1);
        let (name, its_seat) = (format!("symmem rank {}", seat.rank()), seat.clone());
        let run = move || {
            let made = make(&device, &process, its_seat.clone(), &config);
            match made {
                Ok((started_rank, registrar, event)) => {
                    let (shared, kernels) = (started_rank.shared.clone(), started_rank.ready.kernels.clone());
                    drop(started.send(Ok(started_rank)));
                    let registrar = serve(
                        registrar,
                        &process,
                        &Operations { shared: &shared, event: &event },
                        &kernels,
                        &queue,
                    );
                    part(registrar, &process);
                }
                Err(error) => drop(started.send(Err(error))),
            }
            its_seat.leave();
        };
        let spawned = std::thread::Builder::new().name(name).spawn(run);
        let thread = spawned.map_err(|error| {
            let what = "starting a registration worker".to_owned();
            ErrorKind::Io { what, reason: error.to_string() }
        })?;
        Ok((Self { tasks: Some(tasks), thread: Some(thread), seat }, result))
    }

    /// Queues a task.
    pub(crate) fn submit(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // A worker that has ended drops the task, and with it the promise of its result.
            drop(tasks.send(task));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The exchange that the worker may be in ends soon; then its queue is closed and it returns.
        if std::thread::panicking() {
            self.seat.break_off();
        } else {
            self.seat.hurry(DROP_PATIENCE);
        }
        self.tasks = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a registration worker panicked");
        }
    }
}

fn make(
    device: &Device,
    process: &Process,
    seat: Arc<dyn Bootstrap>,
    config: &CommConfig,
) -> Result<(Started, Registrar, Event)> {
    let _entered = tracing::info_span!("init", rank = seat.rank(), device = device.index()).entered();
    let (ready, registrar, [order_event, event]) = init(device, process, seat, config)?;
    let (base, stride_bytes) = (ready.space.base_uc(), ready.space.stride_bytes());
    tracing::debug!(n_ranks = ready.agreed.n_ranks, base, stride_bytes, "ready");
    let shared = Shared {
        order: Mutex::new(StreamOrder::new(order_event)),
        windows: Mutex::default(),
        host_timeout: config.host_timeout(device.machine().kind()),
        lost: Mutex::new(None),
        lost_changed: Condvar::new(),
        is_cut_short: AtomicBool::new(false),
    };
    let shared = Arc::new(shared);
    watch(&registrar, &ready, &shared);
    Ok((Started { ready, shared }, registrar, event))
}

/// When a peer dies, kernels that wait for it end, and every later call says so.
fn watch(registrar: &Registrar, ready: &Ready, shared: &Arc<Shared>) {
    let (record, shared) = (ready.record.clone(), shared.clone());
    registrar.bootstrap.watch(Box::new(move |error| {
        lock(&shared.lost).get_or_insert(error.clone());
        shared.lost_changed.notify_all();
        record.abort();
    }));
}

/// The end of a communicator that spans processes, whose operations are done: all ranks unmap what is not theirs before
/// any gives its memory back. Whoever does not come in time is not waited for: what a rank has mapped stays alive till it
/// unmaps it itself.
fn part(registrar: Registrar, process: &Process) {
    let bootstrap = registrar.bootstrap.clone();
    if !bootstrap.spans_processes() {
        return;
    }
    let met = bootstrap.all_gather("teardown: operations done", vec![]);
    drop(registrar);
    process.unmap_peers();
    if let Err(error) = met.and_then(|_| bootstrap.all_gather("teardown: peers unmapped", vec![])) {
        tracing::warn!(%error, "parted without the others");
    }
}

fn serve(
    mut registrar: Registrar,
    process: &Process,
    operations: &Operations<'_>,
    kernels: &Kernels,
    queue: &Receiver<Task>,
) -> Registrar {
    for task in queue {
        match task {
            Task::Register { request, promise } => {
                let made = register(&mut registrar, &request, operations);
                promise.keep(known(&registrar, operations, made));
            }
            Task::Deregister { window, promise } => {
                let dropped = deregister(&mut registrar, window, operations);
                promise.keep(known(&registrar, operations, dropped));
            }
            Task::Prepare { sets, pause, promise } => {
                let loaded = load_when_idle(kernels, &mut registrar, &sets, operations);
                drop(pause);
                promise.keep(known(&registrar, operations, loaded));
            }
            Task::Refused { kind, why } => refuse(&mut registrar, kind, why, operations),
        }
    }
    if operations.shared.is_cut_short.load(Ordering::Acquire) {
        process.keep(std::mem::take(&mut registrar.backings));
    }
    registrar
}

/// Where a request failed because a peer died, this rank shall know of the death before the caller does: the call that
/// follows says so too. A failure that a peer told of has a cause.
fn known<T>(registrar: &Registrar, operations: &Operations<'_>, result: Result<T>) -> Result<T> {
    let is_loss =
        |error: &Error| matches!(error.kind(), ErrorKind::RankFailed { .. }) && error.cause().is_none();
    if registrar.bootstrap.spans_processes() && result.as_ref().err().is_some_and(is_loss) {
        operations.shared.lost(NEWS_PATIENCE);
    }
    result
}

fn register(
    registrar: &mut Registrar,
    request: &Request,
    operations: &Operations<'_>,
) -> Result<Arc<WindowInner>> {
    let _entered = tracing::info_span!("register", rank = registrar.bootstrap.rank(), ?request).entered();
    let result = registrar.register(request, operations);
    match &result {
        Ok(window) => {
            let (flat, len_bytes) = (window.flat(Default::default()), window.len_bytes);
            tracing::debug!(number = window.number, %flat, len_bytes, "registered");
            window.enter(&mut lock(&operations.shared.windows));
        }
        Err(error) => tracing::warn!(%error, "not registered"),
    }
    result
}

fn deregister(
    registrar: &mut Registrar,
    window: Arc<WindowInner>,
    operations: &Operations<'_>,
) -> Result<bool> {
    let (rank, number, len_bytes) = (registrar.bootstrap.rank(), window.number, window.len_bytes);
    let _entered = tracing::info_span!("deregister", rank, number, len_bytes).entered();
    let result = registrar.deregister(window, operations);
    match &result {
        Ok(is_unmapped) => tracing::debug!(is_unmapped, "deregistered"),
        Err(error) => tracing::warn!(%error, "dropped, but not deregistered by all ranks"),
    }
    result
}

/// The caller has the reason already.
fn refuse(registrar: &mut Registrar, kind: Kind, why: Error, operations: &Operations<'_>) {
    let _entered = tracing::info_span!("refused", rank = registrar.bootstrap.rank(), ?kind).entered();
    if let Err(error) = registrar.refuse(kind, why, operations) {
        tracing::warn!(%error, "not asked for");
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
