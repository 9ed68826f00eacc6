//! What every thread waits for, for reports.

use super::Engine;
use super::block::Activity;
use super::poll::Seen;
use super::probe::Probe;
use crate::sim::driver::module::Launch;
use std::sync::Arc;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WaitKind {
    /// A word to change.
    Poll(Seen),
    /// The threads of its block, at a barrier of that number; so many have come.
    Barrier { number: u32, n_here: u32, n_live: u32 },
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
            let launch = &self.grid(block.grid).launch;
            for (thread, lane) in block.lanes.iter().enumerate() {
                if lane.activity == Activity::Exited {
                    continue;
                }
                let kind = self.wait_kind(block, lane);
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

    fn wait_kind(&self, block: &super::block::Block<P>, lane: &super::block::Lane<P>) -> WaitKind {
        match lane.activity {
            Activity::Barrier(request) => {
                let at =
                    |other: &Activity| matches!(other, Activity::Barrier(b) if b.barrier == request.barrier);
                let n_here = block.lanes.iter().filter(|other| at(&other.activity)).count() as u32;
                WaitKind::Barrier { number: request.barrier, n_here, n_live: block.n_live }
            }
            Activity::Warp(request) => WaitKind::Warp { mask: request.mask },
            _ => lane.polls.last().map_or(WaitKind::Nothing, WaitKind::Poll),
        }
    }
}
