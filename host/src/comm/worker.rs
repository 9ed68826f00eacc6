//! Each communicator's worker: a thread that makes the rank ready and then registers memory, one task at a time.

use crate::Result;
use crate::comm::DROP_PATIENCE;
use crate::comm::bootstrap::Bootstrap;
use crate::comm::config::CommConfig;
use crate::comm::init::{Process, Ready, init};
use crate::comm::order::StreamOrder;
use crate::machine::Device;
use crate::symmetric::{Registrar, Request, WindowInner};
use crate::{Error, ErrorKind};
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// A registration to carry out, and where its result goes.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) request: Request,
    pub(crate) result: Sender<Result<Arc<WindowInner>>>,
}

/// What the worker shares with its communicator.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) order: Mutex<StreamOrder>,
    /// Windows registered and not yet dropped, for look-up by address.
    pub(crate) windows: Mutex<Vec<Weak<WindowInner>>>,
    pub(crate) host_timeout: Duration,
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
                Ok((started_rank, registrar)) => {
                    let shared = started_rank.shared.clone();
                    drop(started.send(Ok(started_rank)));
                    let registrar = serve(registrar, &shared, &queue);
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

    /// Queues a registration.
    pub(crate) fn submit(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // A worker that has ended drops the task, and with it the sender of its result.
            drop(tasks.send(task));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The exchange that the worker may be in ends soon; then its queue is closed and it returns.
        self.seat.hurry(DROP_PATIENCE);
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
) -> Result<(Started, Registrar)> {
    let (ready, registrar, event) = init(device, process, seat, config)?;
    let shared = Shared {
        order: Mutex::new(StreamOrder::new(event)),
        windows: Mutex::new(Vec::new()),
        host_timeout: config.host_timeout(device.machine().kind()),
        lost: Mutex::new(None),
        lost_changed: Condvar::new(),
    };
    let shared = Arc::new(shared);
    watch(&registrar, &ready, &shared);
    Ok((Started { ready, shared }, registrar))
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

fn serve(mut registrar: Registrar, shared: &Shared, queue: &Receiver<Task>) -> Registrar {
    for task in queue {
        let span =
            tracing::info_span!("register", rank = registrar.bootstrap.rank(), request = ?task.request);
        let _entered = span.enter();
        let quiesce = || lock(&shared.order).quiesce(shared.host_timeout);
        let result = registrar.register(&task.request, quiesce);
        match &result {
            Ok(window) => {
                tracing::debug!(flat = %window.backing.flat(), len_bytes = window.len_bytes, "registered");
                lock(&shared.windows).push(Arc::downgrade(window));
            }
            Err(error) => tracing::warn!(%error, "not registered"),
        }
        // A caller that no longer waits drops the window with the channel.
        drop(task.result.send(result));
    }
    registrar
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
