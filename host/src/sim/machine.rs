//! The machine: memory, driver and engine under one lock, and who lets it run.
//!
//! Work runs only while a host thread waits: in [`Backend::stream_synchronize`] until the stream is done, in
//! [`Backend::stream_is_done`] and [`Backend::event_is_done`] for one slice. Everything of the machine runs then, not
//! the one stream alone. The lock is free between slices, so that other host threads can put in more work.
//!
//! When nothing moves, the one who waits first gives others time to change something: another host thread, or another
//! process. A host thread that is the only one ever to have used the machine gives none when it synchronises.
//!
//! [`Backend::stream_synchronize`]: crate::backend::Backend::stream_synchronize
//! [`Backend::stream_is_done`]: crate::backend::Backend::stream_is_done
//! [`Backend::event_is_done`]: crate::backend::Backend::event_is_done

use super::config::{OnStall, SimConfig};
use super::driver::Driver;
use super::engine::{self, Run, RunEnd};
use super::interface::Fault;
use super::memory::Memory;
use super::multicast::TeamWait;
use super::report;
use super::schedule::Schedule;
use crate::backend::{PhysicalHandle, StreamHandle};
use crate::{ErrorKind, Result};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Instructions between two chances for other host threads.
const SLICE_INSTRUCTIONS: u64 = 1 << 18;
/// How often a stalled machine looks again whether the host or another process changed a word.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The same while memory is shared with other processes: each step of theirs is waited for so.
const LOOK_AGAIN_SHARED: Duration = Duration::from_micros(200);
/// Times that a host thread steps back for another one which wants the lock.
const YIELDS_MAX: u32 = 1000;

/// A simulated machine with any number of GPUs.
///
/// After a fault or a deadlock all work in flight is dropped. Each stream that had some returns the error from its next
/// synchronisation, once; the machine stays usable for new work.
#[derive(Debug)]
pub struct SimMachine {
    pub(super) config: SimConfig,
    core: Mutex<Core>,
    /// Signalled when work is put in or dropped, and when a team grows.
    pub(super) changed: Condvar,
    /// Host threads that want the lock.
    n_waiting: AtomicUsize,
    /// How often the lock was taken.
    n_taken: AtomicU64,
}

/// What the lock guards.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) memory: Memory,
    pub(super) driver: Driver,
    pub(super) engine: Box<dyn Run>,
    /// Host threads that have used the machine.
    host_threads: HashSet<ThreadId>,
    /// Calls of the host after which waiting threads may have something to do.
    n_changes: u64,
    /// Nothing has moved since.
    stall: Option<Stall>,
    /// Instructions counted when a kernel last began or ended.
    instructions_at_milestone: u64,
    /// Host threads that wait for the team of a multicast object.
    pub(super) team_waits: Vec<TeamWait>,
    /// How often [`SimConfig::multicast_fault`] still comes to pass.
    pub(super) multicast_faults_left: u32,
}

/// When the machine stalled, and what would show that it has moved since.
#[derive(Debug)]
struct Stall {
    since: Instant,
    n_changes: u64,
    n_progress: u64,
}

/// Numbers of live objects, for tests that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Handles of physical allocations that are referenced.
    pub physical_handles: usize,
    /// Mappings.
    pub mappings: usize,
    /// Reservations.
    pub reservations: usize,
    /// Host allocations.
    pub host_allocations: usize,
    /// Plain allocations of device memory.
    pub plain_allocations: usize,
    /// Memory bound to multicast objects.
    pub multicast_bindings: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules.
    pub modules: usize,
    /// Graphs.
    pub graphs: usize,
    /// Executable graphs.
    pub graph_execs: usize,
}

/// What a slice led to.
#[derive(Debug, PartialEq, Eq)]
enum SliceEnd {
    Going,
    Stalled,
}

impl SimMachine {
    /// Starts a machine.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] names a field of the configuration that makes no machine.
    pub fn new(config: SimConfig) -> Result<Arc<Self>> {
        config.check()?;
        let core = Core {
            memory: Memory::new(config.n_devices, config.device_memory_bytes),
            driver: Driver::default(),
            engine: engine::engine(&config),
            host_threads: HashSet::new(),
            n_changes: 0,
            stall: None,
            instructions_at_milestone: 0,
            team_waits: Vec::new(),
            multicast_faults_left: config.multicast_fault.map_or(0, |fault| fault.n_times),
        };
        Ok(Arc::new(Self {
            config,
            core: Mutex::new(core),
            changed: Condvar::new(),
            n_waiting: AtomicUsize::new(0),
            n_taken: AtomicU64::new(0),
        }))
    }

    /// The configuration.
    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    /// Makes memory as a program does that asks for no handle type: it can be mapped, not exported.
    ///
    /// # Errors
    ///
    /// As [`crate::backend::Backend::mem_create`].
    pub fn create_unexportable(&self, device: u32, len_bytes: u64) -> Result<PhysicalHandle> {
        self.check_device(device)?;
        self.lock().memory.create(device, len_bytes, false)
    }

    /// Numbers of live objects.
    pub fn live(&self) -> LiveCounts {
        let core = self.lock();
        let (memory, driver) = (core.memory.counts(), core.driver.counts());
        LiveCounts {
            physical_handles: memory.physical_handles,
            mappings: memory.mappings,
            reservations: memory.reservations,
            host_allocations: memory.host_allocations,
            plain_allocations: memory.plain_allocations,
            multicast_bindings: memory.multicast_bindings,
            streams: driver.streams,
            events: driver.events,
            modules: driver.modules,
            graphs: driver.graphs,
            graph_execs: driver.graph_execs,
        }
    }

    /// Takes the lock for a call of the host.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        let mut core = self.take();
        core.host_threads.insert(std::thread::current().id());
        core
    }

    fn take(&self) -> MutexGuard<'_, Core> {
        self.n_waiting.fetch_add(1, Ordering::Relaxed);
        let core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        self.n_waiting.fetch_sub(1, Ordering::Relaxed);
        self.n_taken.fetch_add(1, Ordering::Relaxed);
        core
    }

    /// Takes the lock for a call after which waiting threads may have something to do.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Core) -> Result<T>) -> Result<T> {
        let mut core = self.lock();
        core.n_changes += 1;
        let result = change(&mut core);
        drop(core);
        self.changed.notify_all();
        result
    }

    /// Runs one slice and then asks whether something is done.
    pub(super) fn poll(&self, is_done: impl Fn(&mut Core) -> Result<bool>) -> Result<bool> {
        let mut core = self.lock();
        if is_done(&mut core)? {
            return Ok(true);
        }
        // Between two polls even a lone host thread may put in what the machine waits for.
        if core.slice(&self.config) == SliceEnd::Stalled {
            if self.config.on_stall == OnStall::Report && core.stalled_for() >= self.grace(&core) {
                self.end_stall(&mut core);
            } else {
                core.engine.look_again();
            }
        }
        is_done(&mut core)
    }

    /// Runs until all work of a stream is done.
    pub(super) fn synchronize(&self, stream: StreamHandle) -> Result<()> {
        let mut core = self.lock();
        while !core.driver.stream_is_done(stream, "cuStreamSynchronize")? {
            core = match core.slice(&self.config) {
                SliceEnd::Going => self.step_back(core),
                SliceEnd::Stalled => self.bear(core),
            };
        }
        Ok(())
    }

    /// Lets other host threads have the lock.
    fn step_back<'m>(&'m self, core: MutexGuard<'m, Core>) -> MutexGuard<'m, Core> {
        if self.n_waiting.load(Ordering::Relaxed) == 0 {
            return core;
        }
        // The lock alone is not fair: whoever gave it back would mostly have it again.
        let before = self.n_taken.load(Ordering::Relaxed);
        drop(core);
        for _ in 0..YIELDS_MAX {
            if self.n_taken.load(Ordering::Relaxed) != before {
                break;
            }
            std::thread::yield_now();
        }
        self.take()
    }

    /// Waits a little for a change from outside; acts on the stall when that has not come in time.
    fn bear<'m>(&'m self, mut core: MutexGuard<'m, Core>) -> MutexGuard<'m, Core> {
        let is_shared = core.memory.is_shared();
        if (is_shared || core.host_threads.len() > 1) && core.stalled_for() < self.grace(&core) {
            let pause = if is_shared { LOOK_AGAIN_SHARED } else { LOOK_AGAIN };
            let wait = self.changed.wait_timeout(core, pause);
            core = wait.unwrap_or_else(PoisonError::into_inner).0;
            core.engine.look_again();
        } else {
            self.end_stall(&mut core);
        }
        core
    }

    /// How long others are given. Another process may be slow to be scheduled, and says by closing its sockets that it
    /// has died.
    pub(super) fn grace(&self, core: &Core) -> Duration {
        let SimConfig { stall_grace_ms, stall_grace_shared_ms, .. } = self.config;
        Duration::from_millis(if core.memory.is_shared() { stall_grace_shared_ms } else { stall_grace_ms })
    }

    /// What is known of others that could have put in what the machine waits for.
    fn why_stalled(&self, core: &Core) -> String {
        let who = if core.memory.is_shared() {
            "other process changed anything within SYMMEM_SIM_STALL_SHARED_MS"
        } else if core.host_threads.len() > 1 {
            "other host thread put anything in within SYMMEM_SIM_STALL_MS"
        } else {
            return "no thread can go on".into();
        };
        format!("no thread can go on, and no {who} ({} ms)", self.grace(core).as_millis())
    }

    /// Lets time pass, or reports the deadlock.
    fn end_stall(&self, core: &mut Core) {
        if self.config.on_stall != OnStall::AdvanceClock || !core.engine.jump_clock() {
            let why = self.why_stalled(core);
            core.report_deadlock(&why);
            self.changed.notify_all();
        }
    }
}

/// Which run it was.
fn in_run(config: &SimConfig) -> String {
    let schedule = Schedule { kind: config.schedule.clone(), seed: config.seed };
    format!("\n  under schedule {schedule}")
}

impl Core {
    /// Runs a slice of all work.
    fn slice(&mut self, config: &SimConfig) -> SliceEnd {
        self.tell();
        if let Err(error) = self.memory.refresh_multicast() {
            self.fail(error.kind().clone());
            return SliceEnd::Going;
        }
        let mut budget = SLICE_INSTRUCTIONS;
        loop {
            while let Some((task, launch)) = self.driver.tasks.take_ready() {
                self.instructions_at_milestone = self.instructions();
                self.engine.submit(task, launch);
            }
            let before = self.instructions();
            match self.engine.run(self.memory.map(), budget) {
                RunEnd::Finished => self.finish_tasks(),
                RunEnd::Budget => break,
                RunEnd::Idle => return SliceEnd::Going,
                RunEnd::Stalled => return SliceEnd::Stalled,
                RunEnd::Fault(site) => {
                    let report = report::fault(self.memory.map(), &site);
                    self.fail(match site.fault {
                        Fault::Race(_) => ErrorKind::Race { report: report + &in_run(config) },
                        _ => ErrorKind::Fault { report },
                    });
                    return SliceEnd::Going;
                }
            }
            budget = budget.saturating_sub(self.instructions() - before);
        }
        if self.instructions() - self.instructions_at_milestone > config.instructions_max {
            self.report_deadlock(&format!(
                "no kernel began or ended in {} instructions",
                config.instructions_max
            ));
        }
        SliceEnd::Going
    }

    /// Puts an engine that has run nothing in the place of the one there is, which is idle.
    pub(super) fn set_engine(&mut self, engine: Box<dyn Run>) {
        self.tell();
        self.engine = engine;
        self.stall = None;
        self.instructions_at_milestone = 0;
    }

    /// Tells the engine what the host has done since the last call.
    fn tell(&mut self) {
        for physical in self.memory.take_gone() {
            self.engine.forget(physical);
        }
        for order in self.driver.tasks.take_order() {
            self.engine.order(order);
        }
    }

    /// Tells the engine of a copy or a fill that the host makes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Race`] where it races with a kernel.
    pub(super) fn host_access(
        &mut self,
        config: &SimConfig,
        address: u64,
        len_bytes: u64,
        write: bool,
    ) -> Result<()> {
        self.tell();
        for access in self.memory.parts(address, len_bytes, write) {
            self.engine
                .host_access(access)
                .map_err(|report| ErrorKind::Race { report: report + &in_run(config) })?;
        }
        Ok(())
    }

    fn instructions(&self) -> u64 {
        self.engine.counters().instructions
    }

    fn finish_tasks(&mut self) {
        self.instructions_at_milestone = self.instructions();
        for task in self.engine.take_finished() {
            self.driver.tasks.finish(task);
        }
    }

    /// How long nothing has moved.
    fn stalled_for(&mut self) -> Duration {
        let (n_changes, n_progress) = (self.n_changes, self.engine.n_progress());
        self.stall.take_if(|stall| stall.n_changes != n_changes || stall.n_progress != n_progress);
        let stall = self.stall.get_or_insert_with(|| Stall { since: Instant::now(), n_changes, n_progress });
        stall.since.elapsed()
    }

    fn report_deadlock(&mut self, why: &str) {
        let (waiting, blocks) = (self.engine.waiting(), self.engine.waiting_blocks());
        let report = report::deadlock(self.memory.map(), why, &waiting, &blocks);
        self.fail(ErrorKind::Deadlock { report });
    }

    fn fail(&mut self, kind: ErrorKind) {
        self.engine.clear();
        self.driver.fail(&kind.into());
    }
}
