//! Each communicator's worker: a thread that makes the rank ready and then registers and deregisters memory, one task at a
//! time.

use crate::Result;
use crate::comm::config::CommConfig;
use crate::comm::init::{Process, Ready, init};
use crate::comm::operations::Operations;
use crate::comm::order::StreamOrder;
use crate::comm::rendezvous::Seat;
use crate::machine::Device;
use crate::stream::Event;
use crate::symmetric::{IntervalIndex, Promise, Registrar, Request, WindowInner};
use crate::{ErrorKind, comm::bootstrap::Bootstrap};
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Something to carry out, and where its result goes.
#[derive(Debug)]
pub(crate) enum Task {
    Register { request: Request, promise: Promise<Arc<WindowInner>> },
    Deregister { window: Arc<WindowInner>, promise: Promise<bool> },
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
}

/// The thread, and the queue of its tasks.
#[derive(Debug)]
pub(crate) struct Worker {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
    seat: Arc<Seat>,
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
        seat: Seat,
        config: CommConfig,
    ) -> Result<(Self, Receiver<Result<Started>>)> {
        let seat = Arc::new(seat);
        let (tasks, queue) = unbounded();
        let (started, result) = bounded(1);
        let (name, its_seat) = (format!("symmem rank {}", seat.rank()), seat.clone());
        let run = move || {
            let made = make(&device, &process, its_seat.clone(), &config);
            match made {
                Ok((started_rank, registrar, event)) => {
                    let shared = started_rank.shared.clone();
                    drop(started.send(Ok(started_rank)));
                    serve(registrar, &process, &shared, &event, &queue);
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
        // Leaving ends the exchange that the worker may be in, on all ranks; then its queue is closed and it returns.
        self.seat.leave();
        self.tasks = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a registration worker panicked");
        }
    }
}

fn make(
    device: &Device,
    process: &Process,
    seat: Arc<Seat>,
    config: &CommConfig,
) -> Result<(Started, Registrar, Event)> {
    let _entered = tracing::info_span!("init", rank = seat.rank(), device = device.index()).entered();
    let order = StreamOrder::new(Event::new(device)?);
    let event = Event::new(device)?;
    let (ready, registrar) = init(device, process, seat, config)?;
    let (base, stride_bytes) = (ready.space.base_uc(), ready.space.stride_bytes());
    tracing::debug!(n_ranks = ready.agreed.n_ranks, base, stride_bytes, "ready");
    let shared = Shared {
        order: Mutex::new(order),
        windows: Mutex::default(),
        host_timeout: config.host_timeout(),
        is_cut_short: AtomicBool::new(false),
    };
    Ok((Started { ready, shared: Arc::new(shared) }, registrar, event))
}

fn serve(
    mut registrar: Registrar,
    process: &Process,
    shared: &Shared,
    event: &Event,
    queue: &Receiver<Task>,
) {
    let operations = Operations { shared, event };
    for task in queue {
        match task {
            Task::Register { request, promise } => {
                promise.keep(register(&mut registrar, &request, &operations))
            }
            Task::Deregister { window, promise } => {
                promise.keep(deregister(&mut registrar, window, &operations));
            }
        }
    }
    if shared.is_cut_short.load(Ordering::Acquire) {
        process.keep(std::mem::take(&mut registrar.backings));
    }
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

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
