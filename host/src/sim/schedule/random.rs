//! Threads and bursts drawn from a seed.

use super::draw::{Draw, below, burst};
use super::{Candidates, POLL_BURST, POLL_SHARE, Pick, Scheduler};

/// Draws uniformly among the active threads.
#[derive(Debug)]
pub(super) struct Random {
    draw: Draw,
    sweep: usize,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { draw: Draw::new(seed), sweep: 0 }
    }
}

impl Scheduler for Random {
    fn pick(&mut self, candidates: Candidates<'_>) -> Pick {
        let random = self.draw.bits();
        let Candidates { active, polling, .. } = candidates;
        if active.is_empty() {
            // Random picks would need many more polls until each thread had one.
            self.sweep = (self.sweep + 1) % polling.len();
            return Pick { polling: true, index: self.sweep, burst: POLL_BURST };
        }
        if !polling.is_empty() && random.is_multiple_of(POLL_SHARE) {
            return Pick { polling: true, index: below(random, polling.len()), burst: POLL_BURST };
        }
        Pick { polling: false, index: below(random, active.len()), burst: burst(random) }
    }

    fn pick_grid(&mut self, n_waiting: usize) -> usize {
        self.draw.below(n_waiting)
    }

    fn pick_block(&mut self, n_waiting: usize) -> usize {
        self.draw.below(n_waiting)
    }

    fn choose(&mut self, n: usize) -> usize {
        self.draw.below(n)
    }
}
