//! Grids and blocks in flight.

use super::barrier::{Barriers, Released};
use super::poll::PollTable;
use super::probe::{Begun, Meeting, Probe, Who};
use super::warp::{self, LANES, Warp};
use crate::sim::interface::{BlockBarrier, Fault, WarpOp, WarpRequest};
use crate::sim::ptx::Kernel;
use crate::sim::ptx::instruction::Instruction;
use crate::sim::thread::{ThreadState, resume_with};
use std::sync::Arc;

/// A launch that has begun.
#[derive(Debug)]
pub(super) struct Grid<P: Probe> {
    pub(super) begun: Begun,
    /// Numbers of blocks that have not started.
    pub(super) waiting: Vec<u32>,
    /// Blocks that are resident.
    pub(super) n_resident: u32,
    /// What the threads that exited knew.
    pub(super) joined: P::Joined,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activity {
    /// It may run, or sleeps.
    Runs,
    /// It waits at a block barrier of that number.
    Barrier(u32),
    /// It waits for lanes of its warp.
    Warp,
    /// It is done.
    Exited,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Lane<P: Probe> {
    pub(super) state: ThreadState,
    pub(super) probed: P::Thread,
    pub(super) activity: Activity,
    /// Bursts in a row that did not touch memory, while it counts as polling.
    pub(super) n_neutral: u8,
    pub(super) polls: PollTable,
}

/// Memory of a block, kept for the next one: making it anew costs more than running a small kernel.
#[derive(Debug)]
pub(super) struct Storage<P: Probe> {
    pub(super) lanes: Vec<Lane<P>>,
    /// `n_registers` for each thread.
    pub(super) registers: Vec<u64>,
    pub(super) shared: Vec<u8>,
}

/// A resident block.
#[derive(Debug)]
pub(super) struct Block<P: Probe> {
    pub(super) grid: usize,
    pub(super) kernel: Arc<Kernel>,
    pub(super) number: u32,
    pub(super) multiprocessor: u32,
    pub(super) n_live: u32,
    pub(super) storage: Storage<P>,
    pub(super) barriers: Barriers,
    pub(super) warps: Vec<Warp>,
}

impl<P: Probe> Storage<P> {
    pub(super) fn new() -> Self {
        Self { lanes: Vec::new(), registers: Vec::new(), shared: Vec::new() }
    }

    /// Makes it the memory of a block that has not begun.
    fn reset(&mut self, grid: &Grid<P>, number: u32, probe: &mut P) {
        let launch = &grid.begun.launch;
        let (kernel, shape) = (&launch.function.kernel, launch.shape);
        let n_registers = kernel.n_registers as usize;
        // Registers that are there already are overwritten when the threads start.
        self.registers.resize(n_registers * shape.threads as usize, 0);
        self.shared.clear();
        self.shared.resize((kernel.shared_bytes + shape.shared_bytes) as usize, 0);
        let who = Who {
            launch: grid.begun.number,
            device: launch.function.device,
            block: number,
            thread: 0,
            pc: 0,
        };
        let first = probe.begin_block(who, shape.threads);
        self.lanes.clear();
        self.lanes.extend((0..shape.threads as usize).map(|thread| Lane {
            state: ThreadState::new(kernel, &mut self.registers[thread * n_registers..][..n_registers]),
            probed: probe.begin_thread(&first, thread as u32),
            activity: Activity::Runs,
            n_neutral: 0,
            polls: PollTable::default(),
        }));
    }
}

impl<P: Probe> Block<P> {
    /// Block `number` of a grid, all of its threads at the first instruction.
    pub(super) fn new(
        grid_place: usize,
        grid: &Grid<P>,
        number: u32,
        multiprocessor: u32,
        mut storage: Storage<P>,
        probe: &mut P,
    ) -> Self {
        storage.reset(grid, number, probe);
        let n_threads = grid.begun.launch.shape.threads;
        Self {
            grid: grid_place,
            kernel: grid.begun.launch.function.kernel.clone(),
            number,
            multiprocessor,
            n_live: n_threads,
            storage,
            barriers: Barriers::new(),
            warps: Warp::of_block(n_threads),
        }
    }

    /// Whether the next instruction of a thread touches memory that other threads see.
    pub(super) fn touches_memory(&self, thread: u32) -> bool {
        let pc = self.storage.lanes[thread as usize].state.pc as usize;
        matches!(
            self.kernel.code[pc],
            Instruction::Load { .. } | Instruction::Store { .. } | Instruction::Atomic { .. }
        )
    }

    /// A thread has come to a block barrier. Adds the threads that may go on to `woken`.
    pub(super) fn arrive(
        &mut self,
        thread: u32,
        request: BlockBarrier,
        probe: &mut P,
        woken: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        let released = self.barriers.arrive(thread, request, self.n_live)?;
        if request.arrive_only {
            self.resume(thread, [0; 2]);
            woken.push(thread);
        } else {
            self.storage.lanes[thread as usize].activity = Activity::Barrier(request.barrier);
        }
        if let Some(released) = released {
            self.release(released, probe, woken);
        }
        Ok(())
    }

    /// A thread has come to an exchange in its warp. Adds the threads that may go on to `woken`.
    pub(super) fn exchange(
        &mut self,
        thread: u32,
        request: WarpRequest,
        probe: &mut P,
        woken: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        self.storage.lanes[thread as usize].activity = Activity::Warp;
        self.warps[(thread / LANES) as usize].arrive(thread % LANES, request);
        self.complete_exchange(thread, probe, woken)
    }

    /// A thread has exited. Adds the threads that had waited for nobody else to `woken`.
    pub(super) fn exit(&mut self, thread: u32, probe: &mut P, woken: &mut Vec<u32>) -> Result<(), Fault> {
        self.storage.lanes[thread as usize].activity = Activity::Exited;
        self.n_live -= 1;
        for released in self.barriers.after_exit(self.n_live) {
            self.release(released, probe, woken);
        }
        let waiting = self.warps[(thread / LANES) as usize].exit(thread % LANES);
        for other in warp::lanes(waiting) {
            self.complete_exchange(thread / LANES * LANES + other, probe, woken)?;
        }
        Ok(())
    }

    /// Lets a thread go on behind what it waited at, with the results that the instruction gives.
    pub(super) fn resume(&mut self, thread: u32, results: [u64; 2]) {
        let n_registers = self.kernel.n_registers as usize;
        let lane = &mut self.storage.lanes[thread as usize];
        lane.activity = Activity::Runs;
        let registers = &mut self.storage.registers[thread as usize * n_registers..][..n_registers];
        resume_with(&self.kernel, &mut lane.state, registers, results);
    }

    fn release(&mut self, released: Released, probe: &mut P, woken: &mut Vec<u32>) {
        self.meet(Meeting::Block, released.threads.iter().copied(), released.gone_on.iter().copied(), probe);
        for &thread in &released.threads {
            self.resume(thread, [released.result.unwrap_or(0), 0]);
        }
        woken.extend(&released.threads);
    }

    fn complete_exchange(&mut self, thread: u32, probe: &mut P, woken: &mut Vec<u32>) -> Result<(), Fault> {
        let first = thread / LANES * LANES;
        let warp = &mut self.warps[(thread / LANES) as usize];
        let how = match warp.op(thread % LANES) {
            Some(WarpOp::Sync) => Meeting::Warp,
            _ => Meeting::Exchange,
        };
        let Some((here, results)) = warp.complete(thread % LANES)? else { return Ok(()) };
        let threads = warp::lanes(here).map(move |lane| first + lane);
        self.meet(how, threads.clone(), [].into_iter(), probe);
        for lane in warp::lanes(here) {
            self.resume(first + lane, results[lane as usize]);
        }
        woken.extend(threads);
        Ok(())
    }

    /// Each of these threads learns what the others know, and what those that have gone on know.
    fn meet(
        &mut self,
        how: Meeting,
        threads: impl Iterator<Item = u32> + Clone,
        gone_on: impl Iterator<Item = u32>,
        probe: &mut P,
    ) {
        if size_of::<P::Thread>() == 0 {
            return;
        }
        let lanes = &mut self.storage.lanes;
        let mut joined = P::Joined::default();
        for thread in threads.clone().chain(gone_on) {
            probe.gather(how, &mut joined, &lanes[thread as usize].probed);
        }
        if let Some(first) = threads.clone().next() {
            probe.close(how, &mut joined, &lanes[first as usize].probed);
        }
        for thread in threads {
            probe.learn(how, &mut lanes[thread as usize].probed, &joined);
        }
    }
}
