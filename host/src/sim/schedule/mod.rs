//! Choosing, apart from running: which thread goes next, and how far.

//!
//! | module | what |
//! |---|---|
//! | `name` | the kinds, and schedules as text |
//! | `round_robin`, `random` | fair ones |
//! | `pct`, `unfair` | those that look for mistakes |
//! | `choices` | all of them, one by one |

mod choices;
mod draw;
mod name;
mod pct;
mod random;
mod round_robin;
#[cfg(test)]
mod tests;
mod unfair;

pub use choices::{Choice, Exhaustive};
pub use name::{NoSchedule, Schedule, ScheduleKind};
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
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'a> {
    /// Threads that do something new.
    pub(crate) active: &'a [ThreadId],
    /// Threads that lately only saw again what they had seen before.
    pub(crate) polling: &'a [ThreadId],
    /// Whether the next instruction of a thread touches memory that others see.
    pub(crate) touches_memory: &'a dyn Fn(ThreadId) -> bool,
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
    /// A block of that device has got that place.
    fn block_starts(&mut self, _place: u32, _device: u32) {}
    /// The choices made so far, of a schedule that is a list of them.
    fn choices(&self) -> &[Choice] {
        &[]
    }
    /// Chooses one of `n` (at least 2) behaviours that the memory model leaves open; 0 is what a machine without weak
    /// memory does.
    fn choose(&mut self, n: usize) -> usize;
}

/// Instructions of a burst of a thread that polls: a few rounds of its loop.
const POLL_BURST: u32 = 24;
/// While other threads are active, one pick in so many goes to a thread that polls.
const POLL_SHARE: u64 = 16;

/// Makes a scheduler.
pub(crate) fn scheduler(kind: &ScheduleKind, seed: u64) -> Box<dyn Scheduler> {
    match kind {
        ScheduleKind::Random => Box::new(random::Random::new(seed)),
        ScheduleKind::RoundRobin => Box::new(round_robin::RoundRobin::default()),
        ScheduleKind::Pct { n_changes, n_steps } => Box::new(pct::Pct::new(seed, *n_changes, *n_steps)),
        ScheduleKind::Unfair => Box::new(unfair::Unfair::new(seed)),
        ScheduleKind::Choices(list) => Box::new(choices::Choices::new(list.clone())),
    }
}
