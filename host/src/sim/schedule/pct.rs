//! Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with
//! Probabilistic Guarantees of Finding Bugs, ASPLOS 2010).
//!
//! Every thread gets a random priority and the highest one runs. At `n_changes` random steps the running thread falls
//! below all others. A bug that needs `d` ordering constraints is found with probability at least 1 / (n · k^(d−1)) for
//! n threads, k steps and d − 1 changes. A thread that only polls yields, whatever its priority: else it would starve
//! the one that it waits for.

use super::draw::Draw;
use super::{Candidates, POLL_BURST, POLL_SHARE, Pick, Scheduler, ThreadId};

/// Longest burst, so that threads that poll get their share.
const BURST_MAX: u64 = 128;
/// Priorities from here on are those that threads start with; fallen threads are below.
const START: u64 = 1 << 63;

/// See the module.
#[derive(Debug)]
pub(super) struct Pct {
    draw: Draw,
    /// By place of the block and number of the thread.
    priorities: Vec<Vec<u64>>,
    /// Steps at which the running thread falls, the next one last.
    changes: Vec<u64>,
    /// Instructions granted so far.
    n_steps: u64,
    /// Threads that have fallen.
    n_fallen: u64,
    sweep: usize,
}

impl Pct {
    /// With `n_changes` changes within the first `n_steps` instructions.
    pub(super) fn new(seed: u64, n_changes: u32, n_steps: u64) -> Self {
        let mut draw = Draw::new(seed);
        let mut changes: Vec<u64> = (0..n_changes).map(|_| 1 + draw.bits() % n_steps.max(1)).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        let priorities = Vec::new();
        Self { draw, priorities, changes, n_steps: 0, n_fallen: 0, sweep: 0 }
    }

    fn priority(&mut self, who: ThreadId) -> u64 {
        let (block, thread) = (who.block as usize, who.thread as usize);
        if self.priorities.len() <= block {
            self.priorities.resize_with(block + 1, Vec::new);
        }
        while self.priorities[block].len() <= thread {
            let priority = self.draw.bits() | START;
            self.priorities[block].push(priority);
        }
        self.priorities[block][thread]
    }

    fn highest(&mut self, active: &[ThreadId]) -> usize {
        let best = (0..active.len()).max_by_key(|&index| self.priority(active[index]));
        best.expect("there is an active thread")
    }

    /// Lets the running thread fall as often as it is time to.
    fn change(&mut self, active: &[ThreadId]) {
        while self.changes.last().is_some_and(|&change| change <= self.n_steps) {
            self.changes.pop();
            self.n_fallen += 1;
            let ThreadId { block, thread } = active[self.highest(active)];
            self.priorities[block as usize][thread as usize] = START - self.n_fallen;
        }
    }
}

impl Scheduler for Pct {
    fn pick(&mut self, candidates: Candidates<'_>) -> Pick {
        let Candidates { active, polling, .. } = candidates;
        if active.is_empty() {
            self.sweep = (self.sweep + 1) % polling.len();
            return Pick { polling: true, index: self.sweep, burst: POLL_BURST };
        }
        let random = self.draw.bits();
        if !polling.is_empty() && random.is_multiple_of(POLL_SHARE) {
            let index = self.draw.below(polling.len());
            return Pick { polling: true, index, burst: POLL_BURST };
        }
        self.change(active);
        let index = self.highest(active);
        let until_change = self.changes.last().map_or(u64::MAX, |change| change - self.n_steps);
        let burst = until_change.min(BURST_MAX);
        self.n_steps += burst;
        Pick { polling: false, index, burst: burst as u32 }
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

    fn block_starts(&mut self, place: u32, _device: u32) {
        if let Some(priorities) = self.priorities.get_mut(place as usize) {
            priorities.clear();
        }
    }
}
