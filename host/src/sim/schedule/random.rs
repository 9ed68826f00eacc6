//! Threads and bursts drawn from a seed.

use super::{Candidates, POLL_BURST, POLL_SHARE, Pick, Scheduler};

/// Draws uniformly among the active threads. Most bursts are long, for speed; one in eight is only a few instructions
/// long, so that close interleavings occur too.
#[derive(Debug)]
pub(super) struct Random {
    state: u64,
    sweep: usize,
}

impl Random {
    /// Any seed is as good as any other.
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed, sweep: 0 }
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Maps the high half of a random word to 0..n.
fn below(random: u64, n: usize) -> usize {
    (((random >> 32) * n as u64) >> 32) as usize
}

impl Scheduler for Random {
    fn pick(&mut self, candidates: Candidates<'_>) -> Pick {
        let random = self.next();
        let Candidates { active, polling } = candidates;
        if active.is_empty() {
            // Random picks would need many more polls until each thread had one.
            self.sweep = (self.sweep + 1) % polling.len();
            return Pick { polling: true, index: self.sweep, burst: POLL_BURST };
        }
        if !polling.is_empty() && random.is_multiple_of(POLL_SHARE) {
            return Pick { polling: true, index: below(random, polling.len()), burst: POLL_BURST };
        }
        let length = (random >> 16) as u32;
        let burst = if random >> 4 & 7 == 0 { 1 + length % 8 } else { 64 + length % 128 };
        Pick { polling: false, index: below(random, active.len()), burst }
    }

    fn pick_grid(&mut self, n_waiting: usize) -> usize {
        let random = self.next();
        below(random, n_waiting)
    }

    fn pick_block(&mut self, n_waiting: usize) -> usize {
        let random = self.next();
        below(random, n_waiting)
    }

    fn choose(&mut self, n: usize) -> usize {
        let random = self.next();
        below(random, n)
    }
}
