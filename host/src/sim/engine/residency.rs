//! Starting blocks where there is room, and taking finished ones away.

use super::Engine;
use super::block::{Block, Grid, Storage};
use super::probe::{Meeting, Probe};
use crate::sim::schedule::ThreadId;

/// No block starts while so many threads are active: what they touch still fits in the host's caches. A block that
/// could start does so at the latest when all others wait, so nobody waits for it in vain.
pub(super) const ACTIVE_TARGET: usize = 4096;
/// Memory of finished blocks that is kept for the next ones.
const SPARES_MAX: usize = 64;

impl<P: Probe> Engine<P> {
    pub(super) fn grid(&self, place: usize) -> &Grid<P> {
        self.grids[place].as_ref().expect("a named grid is in flight")
    }

    /// Gives a grid a place.
    pub(super) fn keep_grid(&mut self, grid: Grid<P>) -> usize {
        match self.grids.iter().position(Option::is_none) {
            Some(free) => {
                self.grids[free] = Some(grid);
                free
            }
            None => {
                self.grids.push(Some(grid));
                self.grids.len() - 1
            }
        }
    }

    /// Starts blocks while there is room and few threads are active. CUDA promises no order, neither of grids nor of a
    /// grid's blocks; the scheduler chooses.
    pub(super) fn start_blocks(&mut self) {
        // invariant: there was no room for the grids behind the first `n_open`.
        let mut n_open = self.starting.len();
        while n_open > 0 && self.active.len() < ACTIVE_TARGET {
            let index = self.scheduler.pick_grid(n_open);
            let place = self.starting[index];
            if !self.start_block(place) {
                n_open -= 1;
                self.starting.swap(index, n_open);
            } else if self.grid(place).waiting.is_empty() {
                self.starting.remove(index);
                n_open -= 1;
            }
        }
        self.may_start = n_open > 0;
    }

    /// Starts one block of a grid; `false` when there is no room.
    fn start_block(&mut self, place: usize) -> bool {
        let grid = self.grids[place].as_mut().expect("a starting grid is in flight");
        let launch = grid.begun.launch.clone();
        let shape = launch.shape;
        let device = &mut self.devices[launch.function.device as usize];
        let shared_bytes = launch.function.kernel.shared_bytes + shape.shared_bytes;
        let Some(multiprocessor) = device.occupancy.place(shape.threads, shared_bytes) else { return false };
        let chosen = self.scheduler.pick_block(grid.waiting.len());
        let number = grid.waiting.swap_remove(chosen);
        grid.n_resident += 1;
        let storage = self.spares.pop().unwrap_or_else(Storage::new);
        let device = grid.begun.launch.function.device;
        let block = Block::new(place, grid, number, multiprocessor, storage, &mut self.probe);
        self.admit(block, device);
        true
    }

    fn admit(&mut self, block: Block<P>, device: u32) {
        let n_threads = block.n_live;
        self.n_live += u64::from(n_threads);
        let place = match self.free_blocks.pop() {
            Some(free) => {
                self.blocks[free as usize] = Some(block);
                free
            }
            None => {
                self.blocks.push(Some(block));
                self.blocks.len() as u32 - 1
            }
        };
        self.scheduler.block_starts(place, device);
        self.active.extend((0..n_threads).map(|thread| ThreadId { block: place, thread }));
        self.quiet_polls = 0;
    }

    /// Takes a block away whose threads have all exited, and its grid with the last block.
    pub(super) fn remove_block(&mut self, place: u32) {
        let block = self.blocks[place as usize].take().expect("a named block is resident");
        self.free_blocks.push(place);
        let grid = self.grids[block.grid].as_mut().expect("a resident block has a grid");
        let launch = &grid.begun.launch;
        let shared_bytes = launch.function.kernel.shared_bytes + launch.shape.shared_bytes;
        let device = &mut self.devices[launch.function.device as usize];
        device.occupancy.leave(block.multiprocessor, launch.shape.threads, shared_bytes);
        for lane in &block.storage.lanes {
            self.probe.gather(Meeting::Exit, &mut grid.joined, &lane.probed);
        }
        if let Some(lane) = block.storage.lanes.first() {
            self.probe.end_block(&lane.probed);
        }
        self.may_start = !self.starting.is_empty();
        grid.n_resident -= 1;
        if grid.n_resident == 0 && grid.waiting.is_empty() {
            self.finished.push(grid.begun.task);
            if let Some(Grid { begun, joined, .. }) = self.grids[block.grid].take() {
                self.probe.end(&begun, joined);
            }
        }
        if self.spares.len() < SPARES_MAX {
            self.spares.push(block.storage);
        }
    }
}
