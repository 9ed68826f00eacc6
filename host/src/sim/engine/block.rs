//! Grids and blocks in flight.

use super::barrier::{Barriers, Released};
use super::poll::PollTable;
use super::probe::Probe;
use super::warp::{self, LANES, Requests};
use crate::sim::driver::module::Launch;
use crate::sim::driver::task::TaskId;
use crate::sim::interface::{BlockBarrier, Fault, WarpRequest};
use crate::sim::ptx::Kernel;
use crate::sim::thread::{ThreadState, resume_with};
use std::sync::Arc;

/// A launch that has begun.
#[derive(Debug)]
pub(super) struct Grid<P: Probe> {
    pub(super) task: TaskId,
    pub(super) launch: Arc<Launch>,
    /// Numbers of blocks that have not started.
    pub(super) waiting: Vec<u32>,
    /// Blocks that are resident.
    pub(super) n_resident: u32,
    /// What its threads start with, and then what those that exited knew, joined.
    pub(super) probed: P::Thread,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activity {
    /// It may run.
    Runs,
    /// It waits at a block barrier.
    Barrier(BlockBarrier),
    /// It waits for lanes of its warp.
    Warp(WarpRequest),
    /// It sleeps until the clock shows so much.
    Sleeps(u64),
    /// It is done.
    Exited,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Lane<P: Probe> {
    pub(super) state: ThreadState,
    pub(super) activity: Activity,
    pub(super) polls: PollTable,
    /// Bursts in a row that did not touch memory, while it counts as polling.
    pub(super) n_neutral: u8,
    pub(super) probed: P::Thread,
}

/// A resident block.
#[derive(Debug)]
pub(super) struct Block<P: Probe> {
    pub(super) grid: usize,
    pub(super) kernel: Arc<Kernel>,
    pub(super) number: u32,
    pub(super) multiprocessor: u32,
    pub(super) n_live: u32,
    pub(super) lanes: Vec<Lane<P>>,
    /// `n_registers` for each thread.
    pub(super) registers: Vec<u64>,
    pub(super) shared: Vec<u8>,
    barriers: Barriers,
}

/// Threads that may run again.
pub(super) type Woken = Vec<u32>;

impl<P: Probe> Block<P> {
    /// Block `number` of a grid, all of its threads at the first instruction.
    pub(super) fn new(grid_index: usize, grid: &Grid<P>, number: u32, multiprocessor: u32) -> Self {
        let launch = &grid.launch;
        let kernel = launch.function.kernel.clone();
        let n_threads = launch.shape.threads;
        let n_registers = kernel.n_registers as usize;
        let mut registers = vec![0; n_registers * n_threads as usize];
        let lanes = (0..n_threads as usize)
            .map(|thread| Lane {
                state: ThreadState::new(&kernel, &mut registers[thread * n_registers..][..n_registers]),
                activity: Activity::Runs,
                polls: PollTable::default(),
                n_neutral: 0,
                probed: grid.probed.clone(),
            })
            .collect();
        let shared = vec![0; (kernel.shared_bytes + launch.shape.shared_bytes) as usize];
        let barriers = Barriers::new();
        Self {
            grid: grid_index,
            kernel,
            number,
            multiprocessor,
            n_live: n_threads,
            lanes,
            registers,
            shared,
            barriers,
        }
    }

    /// A thread has come to a block barrier.
    pub(super) fn arrive(
        &mut self,
        thread: u32,
        request: BlockBarrier,
        probe: &mut P,
    ) -> Result<Woken, Fault> {
        let released = self.barriers.arrive(thread, request, self.n_live)?;
        if request.arrive_only {
            self.resume(thread, [0; 2]);
        } else {
            self.lanes[thread as usize].activity = Activity::Barrier(request);
        }
        let mut woken = released.map_or_else(Vec::new, |released| self.release(released, probe));
        if request.arrive_only {
            woken.push(thread);
        }
        Ok(woken)
    }

    /// A thread has come to an exchange in its warp.
    pub(super) fn exchange(
        &mut self,
        thread: u32,
        request: WarpRequest,
        probe: &mut P,
    ) -> Result<Woken, Fault> {
        self.lanes[thread as usize].activity = Activity::Warp(request);
        self.complete_exchange(thread, probe)
    }

    /// A thread has exited. Others may have waited for nobody else.
    pub(super) fn exit(&mut self, thread: u32, probe: &mut P) -> Result<Woken, Fault> {
        self.lanes[thread as usize].activity = Activity::Exited;
        self.n_live -= 1;
        let mut woken = Vec::new();
        for released in self.barriers.after_exit(self.n_live) {
            woken.extend(self.release(released, probe));
        }
        let first = thread / LANES * LANES;
        for other in first..(first + LANES).min(self.lanes.len() as u32) {
            if matches!(self.lanes[other as usize].activity, Activity::Warp(_)) {
                woken.extend(self.complete_exchange(other, probe)?);
            }
        }
        Ok(woken)
    }

    /// Lets a thread go on behind what it waited at, with the results that the instruction gives.
    pub(super) fn resume(&mut self, thread: u32, results: [u64; 2]) {
        let n_registers = self.kernel.n_registers as usize;
        let lane = &mut self.lanes[thread as usize];
        lane.activity = Activity::Runs;
        let registers = &mut self.registers[thread as usize * n_registers..][..n_registers];
        resume_with(&self.kernel, &mut lane.state, registers, results);
    }

    fn release(&mut self, released: Released, probe: &mut P) -> Woken {
        self.meet(&released.threads, &released.gone_on, probe);
        for &thread in &released.threads {
            self.resume(thread, [released.result.unwrap_or(0), 0]);
        }
        released.threads
    }

    fn complete_exchange(&mut self, thread: u32, probe: &mut P) -> Result<Woken, Fault> {
        let first = thread / LANES * LANES;
        let (live, requests) = self.warp(first);
        let Some(here) = warp::complete(thread - first, live, &requests)? else { return Ok(Vec::new()) };
        let woken: Woken = warp::lanes(here).map(|lane| first + lane).collect();
        self.meet(&woken, &[], probe);
        for lane in warp::lanes(here) {
            let words = warp::result(lane, here, &requests)?;
            self.resume(first + lane, words);
        }
        Ok(woken)
    }

    /// Live lanes of the warp that begins at thread `first`, and what they wait with.
    fn warp(&self, first: u32) -> (u32, Requests) {
        let mut live = 0;
        let mut requests = [None; LANES as usize];
        for (index, lane) in self.lanes[first as usize..].iter().take(LANES as usize).enumerate() {
            live |= u32::from(lane.activity != Activity::Exited) << index;
            if let Activity::Warp(request) = lane.activity {
                requests[index] = Some(request);
            }
        }
        (live, requests)
    }

    /// Each of these threads learns what the others know, and what those that have gone on know.
    fn meet(&mut self, threads: &[u32], gone_on: &[u32], probe: &mut P) {
        if size_of::<P::Thread>() == 0 {
            return;
        }
        let Some(&first) = threads.first() else { return };
        let mut together = self.lanes[first as usize].probed.clone();
        for &thread in threads.iter().chain(gone_on) {
            probe.join(&mut together, &self.lanes[thread as usize].probed);
        }
        for &thread in threads {
            probe.join(&mut self.lanes[thread as usize].probed, &together);
        }
    }
}
