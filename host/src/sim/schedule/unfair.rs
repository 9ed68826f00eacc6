//! Schedules that leave some threads far behind the others.
//!
//! All threads of a rank, of a block or of a warp, or one thread, form a group. A group that is delayed runs only when
//! everyone else has nothing left to do but to wait for it. So one rank may be whole kernels ahead of another: what is
//! missing at the end of a kernel, or between two uses of the same memory, shows there and not where all go at one pace.

use super::draw::{Draw, burst, mix};
use super::{Candidates, POLL_BURST, POLL_SHARE, Pick, Scheduler, ThreadId};

/// Rounds of polls of those that wait, without any effect, after which the next group may run.
const ROUNDS_PER_FLOOR: usize = 2;
/// Least instructions before other groups are delayed, as a power of two.
const STRETCH_LOG2_MIN: u32 = 12;
/// Number of such powers to draw from.
const STRETCH_LOG2_RANGE: usize = 12;
const WARP: u32 = 32;

/// What runs or is delayed together.
#[derive(Clone, Copy, Debug)]
enum Grain {
    Device,
    Block,
    Warp,
    Thread,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Unfair {
    draw: Draw,
    grain: Grain,
    /// Key of the groups' priorities.
    key: u64,
    /// Every group has its own priority; else a quarter of them is delayed.
    is_total: bool,
    /// Instructions left until groups and priorities are drawn anew.
    n_left: u64,
    /// By place of the block.
    devices: Vec<u32>,
    /// While nobody is active: the least priority that may poll, and polls left until it sinks.
    floor: Option<(u64, usize)>,
    sweep: usize,
}

impl Unfair {
    pub(super) fn new(seed: u64) -> Self {
        let (draw, devices) = (Draw::new(seed), Vec::new());
        let grain = Grain::Device;
        let mut unfair =
            Self { draw, grain, key: 0, is_total: false, n_left: 0, devices, floor: None, sweep: 0 };
        unfair.redraw();
        unfair
    }

    fn redraw(&mut self) {
        self.grain = [Grain::Device, Grain::Device, Grain::Block, Grain::Warp, Grain::Thread, Grain::Thread]
            [self.draw.below(6)];
        self.key = self.draw.bits();
        self.is_total = self.draw.below(2) == 0;
        self.n_left = 1 << (STRETCH_LOG2_MIN + self.draw.below(STRETCH_LOG2_RANGE) as u32);
    }

    /// Priority of a thread's group.
    fn priority(&self, who: ThreadId) -> u64 {
        let (block, thread) = (u64::from(who.block), u64::from(who.thread));
        let group = match self.grain {
            Grain::Device => self.devices.get(who.block as usize).copied().unwrap_or(0).into(),
            Grain::Block => block,
            Grain::Warp => (block << 32) | (thread / u64::from(WARP)),
            Grain::Thread => block << 32 | thread,
        };
        let priority = mix(self.key ^ mix(group + 1));
        if self.is_total { priority } else { u64::from(!priority.is_multiple_of(4)) }
    }

    /// One of the active threads of the first group.
    fn foremost(&mut self, active: &[ThreadId]) -> usize {
        let (mut best, mut n_equal) = (0, 0);
        let mut highest = 0;
        for (index, &who) in active.iter().enumerate() {
            let priority = self.priority(who);
            if n_equal == 0 || priority > highest {
                (best, highest, n_equal) = (index, priority, 1);
            } else if priority == highest {
                n_equal += 1;
                if self.draw.below(n_equal) == 0 {
                    best = index;
                }
            }
        }
        best
    }

    /// The next poll while nobody is active: of the first group alone, then of all in the upper half of its priority,
    /// and so on, so that even the last of many groups has its turn before the machine takes the wait for a deadlock.
    fn next_poll(&mut self, polling: &[ThreadId]) -> usize {
        let below = |limit: u64| polling.iter().map(|&who| self.priority(who)).filter(|&p| p <= limit).max();
        let (mut floor, mut n_left) = self.floor.unwrap_or_else(|| (below(u64::MAX).unwrap_or(0), 0));
        if self.floor.is_none() || n_left == 0 {
            if self.floor.is_some() {
                floor = below(floor / 2).unwrap_or(0);
            }
            n_left = ROUNDS_PER_FLOOR * polling.len();
        }
        self.floor = Some((floor, n_left - 1));
        for _ in 0..polling.len() {
            self.sweep = (self.sweep + 1) % polling.len();
            if self.priority(polling[self.sweep]) >= floor {
                break;
            }
        }
        self.sweep
    }
}

impl Scheduler for Unfair {
    fn pick(&mut self, candidates: Candidates<'_>) -> Pick {
        let Candidates { active, polling, .. } = candidates;
        if active.is_empty() {
            return Pick { polling: true, index: self.next_poll(polling), burst: POLL_BURST };
        }
        self.floor = None;
        let index = self.foremost(active);
        let random = self.draw.bits();
        if !polling.is_empty() && random.is_multiple_of(POLL_SHARE) {
            let polls = self.draw.below(polling.len());
            if self.priority(polling[polls]) >= self.priority(active[index]) {
                return Pick { polling: true, index: polls, burst: POLL_BURST };
            }
        }
        let burst = burst(random);
        self.n_left = self.n_left.saturating_sub(burst.into());
        if self.n_left == 0 {
            self.redraw();
        }
        Pick { polling: false, index, burst }
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

    fn block_starts(&mut self, place: u32, device: u32) {
        if self.devices.len() <= place as usize {
            self.devices.resize(place as usize + 1, 0);
        }
        self.devices[place as usize] = device;
    }
}
