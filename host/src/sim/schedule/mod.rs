//! Choosing, apart from running: which thread goes next, and how far.

mod random;
mod round_robin;

use crate::sim::config::ScheduleKind;
use std::fmt::Debug;

/// A thread: place of its block in the machine, and its number in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadId {
    /// Place of the block.
    pub(crate) block: u32,
    /// Number of the thread in its block.
    pub(crate) thread: u32,
}

/// Threads that may go on. Not both lists are empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a> {
    /// Threads that do something new.
    pub(crate) active: &'a [ThreadId],
    /// Threads that lately only saw again what they had seen before.
    pub(crate) polling: &'a [ThreadId],
}

/// Who goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The thread is one of the polling ones.
    pub(crate) polling: bool,
    /// Its index in that list.
    pub(crate) index: usize,
    /// Instructions that it runs at most.
    pub(crate) burst: u32,
}

/// A strategy. Its choices depend on nothing but its seed and what it was asked so far.
pub(crate) trait Scheduler: Debug + Send {
    /// Chooses the next thread. A waiting thread must get its turn after a bounded number of picks.
    fn pick(&mut self, candidates: Candidates<'_>) -> Pick;
    /// Chooses which of `n_waiting` (at least 1) grids starts a block next.
    fn pick_grid(&mut self, n_waiting: usize) -> usize;
    /// Chooses which of `n_waiting` (at least 1) blocks of a grid starts next; the last one has the lowest number unless
    /// others were chosen before.
    fn pick_block(&mut self, n_waiting: usize) -> usize;
    /// Chooses one of `n` (at least 2) behaviours that the memory model leaves open; 0 is what a machine without weak
    /// memory does.
    fn choose(&mut self, n: usize) -> usize;
}

/// Instructions of a burst of a thread that polls: a few rounds of its loop.
const POLL_BURST: u32 = 24;
/// While other threads are active, one pick in so many goes to a thread that polls.
const POLL_SHARE: u64 = 16;

/// Makes a scheduler.
pub(crate) fn scheduler(kind: ScheduleKind, seed: u64) -> Box<dyn Scheduler> {
    match kind {
        ScheduleKind::Random => Box::new(random::Random::new(seed)),
        ScheduleKind::RoundRobin => Box::new(round_robin::RoundRobin::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(n: u32) -> Vec<ThreadId> {
        (0..n).map(|thread| ThreadId { block: 0, thread }).collect()
    }

    fn each(check: impl Fn(Box<dyn Scheduler>)) {
        check(scheduler(ScheduleKind::Random, 7));
        check(scheduler(ScheduleKind::RoundRobin, 7));
    }

    #[test]
    fn picks_lie_in_the_lists_and_reach_every_thread() {
        each(|mut scheduler| {
            for (n_active, n_polling) in [(1, 0), (0, 1), (5, 0), (0, 5), (3, 4)] {
                let (active, polling) = (threads(n_active), threads(n_polling));
                let mut seen = [vec![false; active.len()], vec![false; polling.len()]];
                for _ in 0..2000 {
                    let pick = scheduler.pick(Candidates { active: &active, polling: &polling });
                    assert!(pick.burst > 0);
                    seen[usize::from(pick.polling)][pick.index] = true;
                }
                assert!(seen.iter().flatten().all(|&seen| seen), "{scheduler:?} {n_active} {n_polling}");
            }
        });
    }

    #[test]
    fn a_sweep_gives_each_polling_thread_its_turn() {
        each(|mut scheduler| {
            let polling = threads(9);
            let mut turns = [0; 9];
            for _ in 0..90 {
                turns[scheduler.pick(Candidates { active: &[], polling: &polling }).index] += 1;
            }
            assert_eq!(turns, [10; 9]);
        });
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let run = |seed| {
            let mut scheduler = scheduler(ScheduleKind::Random, seed);
            let active = threads(100);
            (0..50).map(|_| scheduler.pick(Candidates { active: &active, polling: &[] })).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn blocks_are_chosen_among_those_that_wait() {
        each(|mut scheduler| {
            for n in 1..50 {
                assert!(scheduler.pick_block(n) < n && scheduler.pick_grid(n) < n);
            }
        });
    }
}
