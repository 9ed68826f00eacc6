//! Every schedule of a small program: a run follows a list of choices, and the list of the next run follows from what
//! this one could have chosen instead.

use super::{Candidates, POLL_BURST, Pick, Scheduler, ThreadId};
use std::sync::Arc;

/// A point at which a run had a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What was chosen.
    pub taken: u32,
    /// Number of options.
    pub n_options: u32,
    /// The first so many options cost nothing; each other one preempts a thread that could have gone on.
    pub n_free: u32,
}

impl Choice {
    fn cost(self) -> u32 {
        u32::from(self.taken >= self.n_free)
    }
}

/// Walks through all schedules with at most so many preemptions, depth first (Musuvathi, Qadeer: Iterative Context
/// Bounding for Systematic Testing of Multithreaded Programs, PLDI 2007).
///
/// ```
/// # use symmem::sim::{Choice, Exhaustive};
/// let mut search = Exhaustive::new(1);
/// let mut runs = Vec::new();
/// while let Some(prefix) = search.next_prefix() {
///     // A run would have two choices of two options each, the second of which preempts.
///     let taken = |at: usize| prefix.get(at).copied().unwrap_or(0);
///     let choices = [0, 1].map(|at| Choice { taken: taken(at), n_options: 2, n_free: 1 });
///     runs.push(choices.map(|choice| choice.taken));
///     search.ran(&choices);
/// }
/// assert_eq!(runs, [[0, 0], [0, 1], [1, 0]]);
/// ```
#[derive(Clone, Debug)]
pub struct Exhaustive {
    preemptions_max: u32,
    next: Option<Arc<[u32]>>,
}

impl Exhaustive {
    /// A search over schedules with at most `preemptions_max` preemptions.
    pub fn new(preemptions_max: u32) -> Self {
        Self { preemptions_max, next: Some(Arc::new([])) }
    }

    /// The choices that the next run follows; behind them it takes the first option. `None` when all have been run.
    pub fn next_prefix(&self) -> Option<Arc<[u32]>> {
        self.next.clone()
    }

    /// Notes the choices of the run.
    pub fn ran(&mut self, choices: &[Choice]) {
        let mut cost_before = choices.iter().map(|choice| choice.cost()).sum::<u32>();
        self.next = None;
        for at in (0..choices.len()).rev() {
            cost_before -= choices[at].cost();
            let other = Choice { taken: choices[at].taken + 1, ..choices[at] };
            if other.taken < other.n_options && cost_before + other.cost() <= self.preemptions_max {
                let before = choices[..at].iter().map(|choice| choice.taken);
                self.next = Some(before.chain([other.taken]).collect());
                return;
            }
        }
    }
}

/// Follows a list, one instruction at a time. A thread may be interrupted before each access to memory; what lies
/// between two of them no other thread can notice. Blocks start in the order of their numbers.
#[derive(Debug)]
pub(super) struct Choices {
    prefix: Arc<[u32]>,
    made: Vec<Choice>,
    running: Option<ThreadId>,
    sweep: usize,
}

impl Choices {
    pub(super) fn new(prefix: Arc<[u32]>) -> Self {
        Self { prefix, made: Vec::new(), running: None, sweep: 0 }
    }

    fn choice(&mut self, n_options: usize, n_free: usize) -> usize {
        if n_options == 1 {
            return 0;
        }
        let (n_options, n_free) = (n_options as u32, n_free as u32);
        let wanted = self.prefix.get(self.made.len()).copied().unwrap_or(0);
        // A list that was made for another program may name more than there is.
        let taken = wanted.min(n_options - 1);
        self.made.push(Choice { taken, n_options, n_free });
        taken as usize
    }
}

impl Scheduler for Choices {
    fn pick(&mut self, candidates: Candidates<'_>) -> Pick {
        let Candidates { active, polling, touches_memory } = candidates;
        if active.is_empty() {
            self.running = None;
            self.sweep = (self.sweep + 1) % polling.len();
            return Pick { polling: true, index: self.sweep, burst: POLL_BURST };
        }
        let running = self.running.and_then(|running| active.iter().position(|&who| who == running));
        let index = match running {
            Some(index) if !touches_memory(active[index]) => index,
            Some(index) => {
                let option = self.choice(active.len() + polling.len(), 1);
                // The running thread is the first option; the others keep their order.
                if option == 0 { index } else { option - usize::from(option <= index) }
            }
            None => self.choice(active.len() + polling.len(), active.len()),
        };
        if let Some(&who) = active.get(index) {
            self.running = Some(who);
            return Pick { polling: false, index, burst: 1 };
        }
        let index = index - active.len();
        self.running = Some(polling[index]);
        Pick { polling: true, index, burst: POLL_BURST }
    }

    fn pick_grid(&mut self, n_waiting: usize) -> usize {
        n_waiting - 1
    }

    fn pick_block(&mut self, n_waiting: usize) -> usize {
        n_waiting - 1
    }

    fn choose(&mut self, n: usize) -> usize {
        self.choice(n, n)
    }

    fn choices(&self) -> &[Choice] {
        &self.made
    }
}
