//! Which blocks can be resident at once (CUDA programming guide, "Hardware multithreading").

use crate::sim::config::SimConfig;

/// Shared memory of a multiprocessor in bytes (compute capability 9.0).
const SHARED_BYTES: u32 = 228 << 10;
/// Shared memory that the system takes of each block in bytes.
const RESERVED_SHARED_BYTES: u32 = 1 << 10;
const WARP: u32 = 32;

/// What a block takes of a multiprocessor, or what is left of one.
#[derive(Clone, Copy, Debug)]
struct Room {
    threads: u32,
    blocks: u32,
    shared_bytes: u32,
}

impl Room {
    fn of_block(threads: u32, shared_bytes: u32) -> Self {
        Self {
            // What is beyond all numbers fits nowhere.
            threads: threads.max(1).checked_next_multiple_of(WARP).unwrap_or(u32::MAX),
            blocks: 1,
            shared_bytes: shared_bytes.saturating_add(RESERVED_SHARED_BYTES),
        }
    }

    fn of_multiprocessor(config: &SimConfig) -> Self {
        Self {
            threads: config.threads_per_multiprocessor,
            blocks: config.blocks_per_multiprocessor,
            shared_bytes: SHARED_BYTES,
        }
    }

    /// How many of `block` fit.
    fn fits(self, block: Self) -> u32 {
        (self.threads / block.threads).min(self.blocks).min(self.shared_bytes / block.shared_bytes)
    }
}

/// Blocks of a shape that fit on one multiprocessor.
pub(crate) fn resident_blocks(config: &SimConfig, threads: u32, shared_bytes: u32) -> u32 {
    Room::of_multiprocessor(config).fits(Room::of_block(threads, shared_bytes))
}

/// The multiprocessors of one device.
#[derive(Debug)]
pub(crate) struct Occupancy {
    left: Vec<Room>,
    next: usize,
}

impl Occupancy {
    /// All free.
    pub(crate) fn new(config: &SimConfig) -> Self {
        Self { left: vec![Room::of_multiprocessor(config); config.n_multiprocessors as usize], next: 0 }
    }

    /// Finds room for a block; gives the multiprocessor.
    pub(crate) fn place(&mut self, threads: u32, shared_bytes: u32) -> Option<u32> {
        let block = Room::of_block(threads, shared_bytes);
        let n = self.left.len();
        let found = (self.next..self.next + n)
            .map(|index| index % n)
            .find(|&index| self.left[index].fits(block) > 0)?;
        let left = &mut self.left[found];
        left.threads -= block.threads;
        left.blocks -= 1;
        left.shared_bytes -= block.shared_bytes;
        self.next = found + 1;
        Some(found as u32)
    }

    /// Gives the room of a block back.
    pub(crate) fn leave(&mut self, multiprocessor: u32, threads: u32, shared_bytes: u32) {
        let block = Room::of_block(threads, shared_bytes);
        let left = &mut self.left[multiprocessor as usize];
        left.threads += block.threads;
        left.blocks += 1;
        left.shared_bytes += block.shared_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcest_resource_decides() {
        let config = SimConfig::default();
        let check = |threads, shared, expect| assert_eq!(resident_blocks(&config, threads, shared), expect);
        check(1, 0, 32);
        check(64, 0, 32);
        check(65, 0, 21);
        check(512, 0, 4);
        check(1024, 0, 2);
        check(32, 100 << 10, 2);
        check(32, 227 << 10, 1);
        for (threads, shared) in [(u32::MAX, u32::MAX), (u32::MAX, 0), (1, u32::MAX), (u32::MAX - 31, 0)] {
            check(threads, shared, 0);
        }
        check(0, 0, 32);
    }

    #[test]
    fn places_as_many_as_fit_and_again_after_one_left() {
        let config = SimConfig { n_multiprocessors: 3, ..SimConfig::default() };
        let mut device = Occupancy::new(&config);
        let placed: Vec<_> = (0..6).map(|_| device.place(1000, 0).unwrap()).collect();
        assert_eq!(placed, [0, 1, 2, 0, 1, 2]);
        assert_eq!(device.place(1000, 0), None);
        device.leave(1, 1000, 0);
        assert_eq!(device.place(1000, 0), Some(1));
    }
}
