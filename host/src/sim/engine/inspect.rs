//! What every thread waits for, for reports.

use super::Engine;
use super::block::{Activity, Block};
use super::poll::Seen;
use super::probe::Probe;
use super::warp::LANES;
use crate::sim::driver::module::Launch;
use std::sync::Arc;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WaitKind {
    /// A word to change.
    Poll(Seen),
    /// The threads of its block, at a barrier of that number; so many of those expected have come.
    Barrier { number: u32, n_here: u32, n_expected: u32 },
    /// Lanes of its warp.
    Warp { mask: u32 },
    /// Nothing that the machine knows of.
    Nothing,
}

/// A thread that waits.
#[derive(Clone, Debug)]
pub(crate) struct WaitingThread {
    /// The launch.
    pub(crate) launch: Arc<Launch>,
    /// Number of the block in the grid.
    pub(crate) block: u32,
    /// Number of the thread in the block.
    pub(crate) thread: u32,
    /// The instruction that it waits at.
    pub(crate) pc: u32,
    /// What for.
    pub(crate) kind: WaitKind,
}

impl<P: Probe> Engine<P> {
    pub(super) fn inspect(&self) -> Vec<WaitingThread> {
        let mut found = Vec::new();
        for block in self.blocks.iter().flatten() {
            let launch = &self.grid(block.grid).begun.launch;
            for (thread, lane) in block.storage.lanes.iter().enumerate() {
                if lane.activity == Activity::Exited {
                    continue;
                }
                let kind = wait_kind(block, thread as u32);
                let pc = match kind {
                    WaitKind::Poll(seen) => seen.pc,
                    _ => lane.state.pc,
                };
                let (launch, thread) = (launch.clone(), thread as u32);
                found.push(WaitingThread { launch, block: block.number, thread, pc, kind });
            }
        }
        found.sort_by_key(|thread| {
            let function = &thread.launch.function;
            (function.device, function.kernel.name.clone(), thread.block, thread.thread)
        });
        found
    }
}

fn wait_kind<P: Probe>(block: &Block<P>, thread: u32) -> WaitKind {
    let lane = &block.storage.lanes[thread as usize];
    match lane.activity {
        Activity::Barrier(number) => {
            let (n_here, n_expected) = block.barriers.state(number, block.n_live);
            WaitKind::Barrier { number, n_here, n_expected }
        }
        Activity::Warp => {
            let mask = block.warps[(thread / LANES) as usize].mask(thread % LANES);
            mask.map_or(WaitKind::Nothing, |mask| WaitKind::Warp { mask })
        }
        _ => lane.polls.last().map_or(WaitKind::Nothing, WaitKind::Poll),
    }
}
