//! Starting blocks where there is room, and taking finished ones away.

use super::Engine;
use super::block::{Block, Grid};
use super::probe::Probe;
use crate::sim::schedule::ThreadId;

impl<P: Probe> Engine<P> {
    pub(super) fn grid(&self, place: usize) -> &Grid<P> {
        self.grids[place].as_ref().expect("a named grid is in flight")
    }

    /// Starts blocks of the waiting grids, oldest grid first, while there is room. CUDA promises no order of a grid's
    /// blocks; the scheduler chooses.
    pub(super) fn start_blocks(&mut self) {
        self.room_changed = false;
        let starting = std::mem::take(&mut self.starting);
        for &place in &starting {
            while self.start_block(place) {}
        }
        self.starting = starting;
        self.starting.retain(|&place| {
            let grid = self.grids[place].as_ref().expect("a starting grid is in flight");
            !grid.waiting.is_empty()
        });
    }

    /// Starts one block of a grid; `false` when none waits or there is no room.
    fn start_block(&mut self, place: usize) -> bool {
        let grid = self.grids[place].as_mut().expect("a starting grid is in flight");
        if grid.waiting.is_empty() {
            return false;
        }
        let shape = grid.launch.shape;
        let device = &mut self.devices[grid.launch.function.device as usize];
        let shared_bytes = grid.launch.function.kernel.shared_bytes + shape.shared_bytes;
        let Some(multiprocessor) = device.occupancy.place(shape.threads, shared_bytes) else { return false };
        let chosen = self.scheduler.pick_block(grid.waiting.len());
        // `remove` keeps the rest in order, which is what a strategy that starts blocks by number asks for.
        let number = grid.waiting.remove(chosen);
        grid.n_resident += 1;
        let block = Block::new(place, grid, number, multiprocessor);
        self.n_live += u64::from(block.n_live);
        self.admit(block);
        true
    }

    fn admit(&mut self, block: Block<P>) {
        let n_threads = block.lanes.len() as u32;
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
        self.active.extend((0..n_threads).map(|thread| ThreadId { block: place, thread }));
    }

    /// Takes a block away whose threads have all exited, and its grid with the last block.
    pub(super) fn remove_block(&mut self, place: u32) {
        let block = self.blocks[place as usize].take().expect("a named block is resident");
        self.free_blocks.push(place);
        let grid = self.grids[block.grid].as_mut().expect("a resident block has a grid");
        let launch = &grid.launch;
        let shared_bytes = launch.function.kernel.shared_bytes + launch.shape.shared_bytes;
        let device = &mut self.devices[launch.function.device as usize];
        device.occupancy.leave(block.multiprocessor, launch.shape.threads, shared_bytes);
        for lane in &block.lanes {
            self.probe.join(&mut grid.probed, &lane.probed);
        }
        self.room_changed = !self.starting.is_empty();
        grid.n_resident -= 1;
        if grid.n_resident == 0 && grid.waiting.is_empty() {
            self.probe.exit(&grid.probed);
            self.finished.push(grid.task);
            self.grids[block.grid] = None;
        }
    }
}
