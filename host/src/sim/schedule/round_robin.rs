//! Each thread in turn.

use super::{Candidates, POLL_BURST, POLL_SHARE, Pick, Scheduler};

const BURST: u32 = 64;

/// Equal bursts; blocks start in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    active: usize,
    polling: usize,
    grid: usize,
    picks: u64,
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, candidates: Candidates<'_>) -> Pick {
        self.picks += 1;
        let Candidates { active, polling, .. } = candidates;
        if active.is_empty() || (!polling.is_empty() && self.picks.is_multiple_of(POLL_SHARE)) {
            self.polling = (self.polling + 1) % polling.len();
            return Pick { polling: true, index: self.polling, burst: POLL_BURST };
        }
        self.active = (self.active + 1) % active.len();
        Pick { polling: false, index: self.active, burst: BURST }
    }

    fn pick_grid(&mut self, n_waiting: usize) -> usize {
        self.grid += 1;
        self.grid % n_waiting
    }

    fn pick_block(&mut self, n_waiting: usize) -> usize {
        n_waiting - 1
    }

    fn choose(&mut self, _: usize) -> usize {
        0
    }
}
