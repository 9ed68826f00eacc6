//! Runs kernels: independent threads, warps of 32 lanes, blocks, on all devices of the machine at once.
//!
//! One scheduler interleaves all threads, so that a run is the same whenever seed and host calls are. A thread runs in
//! bursts; between two bursts anything may happen. A thread that only polls gets short and rare bursts.

mod atomic;
mod barrier;
pub(crate) mod block;
mod burst;
mod clock;
pub(crate) mod environment;
mod hops;
mod inspect;
mod multimem;
mod occupancy;
pub(crate) mod poll;
pub(crate) mod probe;
mod reduction;
mod residency;
mod trace;
mod warp;

use crate::backend::WorkCounters;
use crate::sim::config::{ProbeKind, SimConfig};
use crate::sim::driver::module::Launch;
use crate::sim::driver::task::{Order, TaskId};
use crate::sim::interface::Fault;
use crate::sim::memory::address_map::{AddressMap, View};
use crate::sim::model::Model;
use crate::sim::schedule::{Choice, Scheduler, ThreadId, scheduler};
use crate::sim::trace::Trace;
use block::{Block, Grid, Storage};
use clock::Clock;
pub(crate) use inspect::{WaitKind, WaitingThread};
use occupancy::Occupancy;
pub(crate) use occupancy::resident_blocks;
pub(crate) use probe::HostAccess;
use probe::{Begun, NoProbe, Probe};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Debug;
use std::sync::Arc;

/// Polls of each waiting thread when it looks again whether something outside the machine has changed.
const POLLS_PER_LOOK: u64 = 64;

/// Why the engine stopped running.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// Kernels finished; take them.
    Finished,
    /// So many instructions were run.
    Budget,
    /// There is nothing to run.
    Idle,
    /// Every thread waits for something that no thread will change.
    Stalled,
    /// A thread did what the machine forbids.
    Fault(Box<FaultSite>),
}

/// Who did what.
#[derive(Debug)]
pub(crate) struct FaultSite {
    /// The launch.
    pub(crate) launch: Arc<Launch>,
    /// Number of the block in the grid.
    pub(crate) block: u32,
    /// Number of the thread in the block.
    pub(crate) thread: u32,
    /// The instruction.
    pub(crate) pc: u32,
    /// What it did.
    pub(crate) fault: Fault,
}

/// An engine, whatever its probe.
pub(crate) trait Run: Debug + Send {
    /// Starts a kernel.
    fn submit(&mut self, task: TaskId, launch: Arc<Launch>);
    /// Runs about so many instructions, or until something else ends it.
    fn run(&mut self, map: &AddressMap, budget: u64) -> RunEnd;
    /// Kernels that finished since the last call, in order.
    fn take_finished(&mut self) -> Vec<TaskId>;
    /// Work counted so far.
    fn counters(&self) -> WorkCounters;
    /// Grows whenever a thread does something new.
    fn n_progress(&self) -> u64;
    /// Lets time pass in a stall; `false` when that makes no sense any more.
    fn jump_clock(&mut self) -> bool;
    /// Gives every thread that polls a few more polls before the machine counts as stalled again: something outside the
    /// machine may have changed.
    fn look_again(&mut self);
    /// What every thread waits for, in the order of devices, kernels, blocks and threads.
    fn waiting(&self) -> Vec<WaitingThread>;
    /// Blocks that have not started, with their kernels.
    fn waiting_blocks(&self) -> Vec<(Arc<Launch>, usize)>;
    /// The choices of the schedule so far, if it is a list of them.
    fn choices(&self) -> &[Choice];
    /// What has happened, if that is what the probe keeps.
    fn trace(&self) -> Trace;
    /// Drops all kernels.
    fn clear(&mut self);
    /// A physical allocation is gone; its number may be used again.
    fn forget(&mut self, physical: u32);
    /// The host has put in work, or knows that some is done.
    fn order(&mut self, order: Order);
    /// The host copies or fills.
    ///
    /// # Errors
    ///
    /// What is wrong with that, in words.
    fn host_access(&mut self, access: HostAccess) -> Result<(), String>;
}

/// Makes the engine that a configuration asks for.
pub(crate) fn engine(config: &SimConfig) -> Box<dyn Run> {
    match config.probe {
        ProbeKind::None => Box::new(Engine::<NoProbe>::new(config)),
        ProbeKind::Trace => Box::new(Engine::<trace::TraceProbe>::new(config)),
        ProbeKind::Hops => Box::new(Engine::<hops::HopProbe>::new(config)),
        ProbeKind::Races | ProbeKind::Weak { .. } => Box::new(Engine::<Model>::new(config)),
    }
}

/// See the module.
#[derive(Debug)]
struct Engine<P: Probe> {
    config: SimConfig,
    clock: Clock,
    scheduler: Box<dyn Scheduler>,
    probe: P,
    /// By device.
    devices: Vec<Device>,
    /// By place; a place is used again.
    grids: Vec<Option<Grid<P>>>,
    /// Places of grids with blocks that have not started.
    starting: Vec<usize>,
    /// By place; a place is used again.
    blocks: Vec<Option<Block<P>>>,
    free_blocks: Vec<u32>,
    spares: Vec<Storage<P>>,
    /// Threads that the burst let go on; empty between bursts.
    woken: Vec<u32>,
    /// Threads that do something new.
    active: Vec<ThreadId>,
    /// Threads that only see again what they have seen.
    polling: Vec<ThreadId>,
    /// Threads that sleep, by the time they wake; the number keeps equals in order.
    sleeping: BinaryHeap<Reverse<(u64, u64, ThreadId)>>,
    n_sleeps: u64,
    n_live: u64,
    /// Polls since any thread last did something new.
    quiet_polls: u64,
    n_progress: u64,
    /// There may be room for a block that waits.
    may_start: bool,
    finished: Vec<TaskId>,
    n_launches: u32,
    instructions: u64,
    link_bytes: u64,
}

#[derive(Debug)]
struct Device {
    occupancy: Occupancy,
    /// The mapping that the device touched last, valid during one [`Run::run`].
    view: View,
}

impl<P: Probe> Engine<P> {
    fn new(config: &SimConfig) -> Self {
        let device = || Device { occupancy: Occupancy::new(config), view: View::NOWHERE };
        Self {
            config: config.clone(),
            clock: Clock::new(),
            scheduler: scheduler(&config.schedule, config.seed),
            probe: P::new(config),
            n_launches: 0,
            devices: (0..config.n_devices).map(|_| device()).collect(),
            grids: Vec::new(),
            starting: Vec::new(),
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            spares: Vec::new(),
            woken: Vec::new(),
            active: Vec::new(),
            polling: Vec::new(),
            sleeping: BinaryHeap::new(),
            n_sleeps: 0,
            n_live: 0,
            quiet_polls: 0,
            n_progress: 0,
            may_start: false,
            finished: Vec::new(),
            instructions: 0,
            link_bytes: 0,
        }
    }

    /// Whether every thread that waits has polled long enough without any change.
    fn is_quiet(&self) -> bool {
        self.active.is_empty() && self.quiet_polls >= self.quiet_polls_max()
    }

    fn n_pollers(&self) -> u64 {
        (self.polling.len() + self.sleeping.len()) as u64
    }

    fn quiet_polls_max(&self) -> u64 {
        self.n_pollers() * u64::from(self.config.stall_polls)
    }

    /// Makes sure that a thread can run; `Err` tells why none can.
    fn find_work(&mut self) -> Result<(), RunEnd> {
        if self.may_start && self.active.len() < residency::ACTIVE_TARGET {
            self.start_blocks();
        }
        if !self.sleeping.is_empty() {
            self.wake_sleepers();
        }
        if !self.active.is_empty() || !self.polling.is_empty() {
            return Ok(());
        }
        match self.sleeping.peek() {
            Some(Reverse((wake_ns, ..))) => {
                self.clock.jump_to(*wake_ns);
                self.wake_sleepers();
                Ok(())
            }
            None if self.n_live == 0 => Err(RunEnd::Idle),
            // Only barriers and exchanges that nobody can complete.
            None => Err(RunEnd::Stalled),
        }
    }
}

impl<P: Probe> Run for Engine<P> {
    fn submit(&mut self, task: TaskId, launch: Arc<Launch>) {
        let waiting = (0..launch.shape.blocks).rev().collect();
        let begun = Begun { number: self.n_launches, task, launch };
        self.n_launches += 1;
        self.probe.begin(&begun);
        let grid = Grid { begun, waiting, n_resident: 0, joined: P::Joined::default() };
        let place = self.keep_grid(grid);
        self.starting.push(place);
        self.may_start = true;
        self.quiet_polls = 0;
    }

    fn run(&mut self, map: &AddressMap, budget: u64) -> RunEnd {
        // The host may have changed mappings since the last run.
        self.devices.iter_mut().for_each(|device| device.view = View::NOWHERE);
        let end = self.instructions + budget;
        loop {
            if let Err(end) = self.find_work() {
                return end;
            }
            if let Err(site) = self.burst(map) {
                return RunEnd::Fault(site);
            }
            if !self.finished.is_empty() {
                return RunEnd::Finished;
            }
            if self.active.is_empty() && self.is_quiet() && self.n_live > 0 {
                return RunEnd::Stalled;
            }
            if self.instructions >= end {
                return RunEnd::Budget;
            }
        }
    }

    fn take_finished(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.finished)
    }

    fn counters(&self) -> WorkCounters {
        WorkCounters { instructions: self.instructions, link_bytes: self.link_bytes, hops: self.probe.hops() }
    }

    fn n_progress(&self) -> u64 {
        self.n_progress
    }

    fn jump_clock(&mut self) -> bool {
        self.quiet_polls = 0;
        self.n_pollers() > 0 && self.clock.jump_in_stall()
    }

    fn look_again(&mut self) {
        self.quiet_polls = self.quiet_polls_max().saturating_sub(self.n_pollers() * POLLS_PER_LOOK);
    }

    fn waiting(&self) -> Vec<WaitingThread> {
        self.inspect()
    }

    fn waiting_blocks(&self) -> Vec<(Arc<Launch>, usize)> {
        let grids = self.starting.iter().map(|&place| self.grid(place));
        grids.map(|grid| (grid.begun.launch.clone(), grid.waiting.len())).collect()
    }

    fn choices(&self) -> &[Choice] {
        self.scheduler.choices()
    }

    fn trace(&self) -> Trace {
        self.probe.trace()
    }

    fn clear(&mut self) {
        self.devices.iter_mut().for_each(|device| device.occupancy = Occupancy::new(&self.config));
        self.grids.clear();
        self.starting.clear();
        self.blocks.clear();
        self.free_blocks.clear();
        self.woken.clear();
        self.active.clear();
        self.polling.clear();
        self.sleeping.clear();
        self.finished.clear();
        self.n_live = 0;
        self.quiet_polls = 0;
        self.may_start = false;
        self.clock.end_stall();
        self.probe.clear();
    }

    fn forget(&mut self, physical: u32) {
        self.probe.forget(physical);
    }

    fn order(&mut self, order: Order) {
        self.probe.order(order);
    }

    fn host_access(&mut self, access: HostAccess) -> Result<(), String> {
        self.probe.host_access(access)
    }
}
