//! What one thread knows, and how it comes to know it: release and acquire patterns (PTX ISA 8.8 and 8.9.2).
//!
//! A release pattern is a releasing write, or a fence and a later strong write; an acquire pattern an acquiring read, or
//! a strong read and a later fence. Scopes count on both sides: what a thread releases at `.gpu` a thread of another
//! device does not acquire.

use super::clocks::{BlockNumber, ChainPlace, Event, Know};
use crate::sim::interface::{Order, Scope};
use std::sync::Arc;

/// How far apart two threads are, and how far a scope reaches: 0 in a block, 1 on a device, 2 in the system.
pub(super) type Reach = usize;
/// Values of [`Reach`].
pub(super) const REACHES: usize = 3;

/// How far a scope reaches; `None` for weak accesses. The machine has no clusters but those of one block.
pub(super) fn reach(scope: Scope) -> Option<Reach> {
    match scope {
        Scope::None => None,
        Scope::Cta | Scope::Cluster => Some(0),
        Scope::Gpu => Some(1),
        Scope::Sys => Some(2),
    }
}

/// Knowledge by the reach of the fence or access that released it.
pub(super) type ByReach = [Option<Arc<Know>>; REACHES];

/// What a write releases to those who read it.
#[derive(Clone, Debug)]
pub(super) struct Release {
    /// Block of the thread that released.
    pub(super) block: BlockNumber,
    /// Its device.
    pub(super) device: u32,
    /// What it knew.
    pub(super) know: ByReach,
}

impl Release {
    /// Adds to what an atomic releases what it has read that was released.
    pub(super) fn hand_on(own: &mut Vec<Self>, read: &[Self]) {
        for other in read {
            match own.iter_mut().find(|release| release.block == other.block) {
                Some(release) => release.add(other),
                None => own.push(other.clone()),
            }
        }
    }

    /// Adds what another thread of the block released.
    fn add(&mut self, other: &Self) {
        for (own, theirs) in self.know.iter_mut().zip(&other.know) {
            if let Some(theirs) = theirs {
                add(own, theirs);
            }
        }
    }
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// What it knows but for itself.
    pub(super) know: Arc<Know>,
    pub(super) block: BlockNumber,
    pub(super) place: ChainPlace,
    pub(super) launch: u32,
    pub(super) device: u32,
    pub(super) n_threads: u32,
    pub(super) thread: u16,
    /// Its time now.
    pub(super) time: u32,
    /// How far it knows all threads of its block to have got.
    all: u32,
    /// It has yet to wait for the work before its launch, if it has to.
    waits: bool,
    /// What it did up to here is behind an alias fence of its own.
    alias_time: u32,
    /// What it knew at its last fence.
    fenced: ByReach,
    /// What it has read that was released, and not yet acquired.
    pending: ByReach,
}

fn add(into: &mut Option<Arc<Know>>, know: &Arc<Know>) {
    match into {
        Some(own) if Arc::ptr_eq(own, know) => {}
        Some(own) => Arc::make_mut(own).join(know),
        None => *into = Some(know.clone()),
    }
}

impl Agent {
    /// Thread 0 of a block that starts.
    pub(super) fn new(
        know: Arc<Know>,
        block: BlockNumber,
        place: ChainPlace,
        (launch, device): (u32, u32),
        (n_threads, waits): (u32, bool),
    ) -> Self {
        Self {
            know,
            block,
            place,
            launch,
            device,
            n_threads,
            thread: 0,
            time: 1,
            all: 0,
            waits,
            alias_time: 0,
            fenced: Default::default(),
            pending: Default::default(),
        }
    }

    /// Another thread of the block, as it starts.
    pub(super) fn sibling(&self, thread: u16) -> Self {
        Self { thread, ..self.clone() }
    }

    /// What it does now.
    pub(super) fn now(&self) -> Event {
        Event { block: self.block, place: self.place, thread: self.thread, time: self.time }
    }

    /// How far it is from a thread.
    #[inline]
    pub(super) fn distance(&self, block: BlockNumber, device: u32) -> Reach {
        if block == self.block {
            0
        } else if device == self.device {
            1
        } else {
            2
        }
    }

    /// Whether an event has happened before what it does now; `same_proxy`: by the same address as that.
    #[inline]
    pub(super) fn knows(&self, event: Event, same_proxy: bool) -> bool {
        if event.block == self.block {
            if event.thread == self.thread {
                return same_proxy || event.time <= self.alias_time || self.know.alias.knows(event);
            }
            if same_proxy && event.time <= self.all {
                return true;
            }
        }
        if same_proxy { self.know.seen.knows(event) } else { self.know.alias.knows(event) }
    }

    /// Whether it has read, acquired or not, what was released behind an event.
    pub(super) fn has_read_of(&self, event: Event) -> bool {
        self.pending.iter().flatten().any(|know| know.seen.knows(event))
    }

    /// Learns what another knows.
    pub(super) fn learn(&mut self, know: &Arc<Know>) {
        if !Arc::ptr_eq(&self.know, know) {
            Arc::make_mut(&mut self.know).join(know);
            self.all = self.know.seen.all_of(self.block);
        }
    }

    /// What it knows, itself included. What it does from now on is later.
    pub(super) fn snapshot(&mut self) -> Arc<Know> {
        let mut know = Know::clone(&self.know);
        know.seen.learn(self.now());
        if self.alias_time > 0 {
            know.alias.learn(Event { time: self.alias_time, ..self.now() });
        }
        self.time += 1;
        Arc::new(know)
    }

    /// What a strong write of an order and scope releases; `None` if nothing.
    pub(super) fn release(&mut self, order: Order, scope: Scope) -> Option<Release> {
        let mut know = self.fenced.clone();
        if matches!(order, Order::Release | Order::AcqRel)
            && let Some(reach) = reach(scope)
        {
            let snapshot = self.snapshot();
            know[..=reach].iter_mut().for_each(|know| *know = Some(snapshot.clone()));
        }
        let releases = know.iter().any(Option::is_some);
        releases.then_some(Release { block: self.block, device: self.device, know })
    }

    /// A strong read of an order and scope has read what was released.
    pub(super) fn acquire(&mut self, order: Order, scope: Scope, releases: &[Release]) {
        let acquires = matches!(order, Order::Acquire | Order::AcqRel);
        let reach = reach(scope).filter(|_| acquires);
        for release in releases {
            let distance = self.distance(release.block, release.device);
            let Some(know) = &release.know[distance] else { continue };
            if reach.is_some_and(|reach| reach >= distance) {
                self.learn(know);
            } else {
                add(&mut self.pending[distance], know);
            }
        }
    }

    /// A fence acquires what has been read.
    pub(super) fn fence_acquire(&mut self, reach: Reach) {
        for distance in 0..=reach {
            if let Some(know) = self.pending[distance].take() {
                self.learn(&know);
            }
        }
    }

    /// A fence releases to writes behind it; gives what.
    pub(super) fn fence_release(&mut self, reach: Reach) -> Arc<Know> {
        let snapshot = self.snapshot();
        self.fenced[..=reach].iter_mut().for_each(|know| *know = Some(snapshot.clone()));
        snapshot
    }

    /// Whether it has passed an alias fence since its kernel began.
    pub(super) fn has_passed_alias_fence(&self) -> bool {
        self.alias_time > 0
    }

    /// Whether it knows that the work before its launch is done.
    pub(super) fn has_waited(&self) -> bool {
        !self.waits
    }

    /// `griddepcontrol.wait`: what was known `early`, when the kernel could begin, becomes what was known at its `start`.
    pub(super) fn wait(&mut self, early: &Arc<Know>, start: &Arc<Know>) {
        self.waits = false;
        if Arc::ptr_eq(&self.know, early) {
            self.know = start.clone();
        } else {
            self.learn(start);
        }
    }

    /// `fence.proxy.alias`.
    pub(super) fn fence_alias(&mut self) {
        let know = Arc::make_mut(&mut self.know);
        know.alias = know.seen.clone();
        self.alias_time = self.time;
        self.time += 1;
    }
}

/// Threads that meet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    pub(super) know: Option<Arc<Know>>,
    /// Threads with their times.
    times: Vec<(u16, u32)>,
    alias_times: Vec<(u16, u32)>,
    time_max: u32,
}

impl Joined {
    /// Adds what a thread that has exited knows.
    pub(super) fn add_exited(&mut self, agent: &Agent) {
        add(&mut self.know, &agent.know);
        if agent.alias_time > 0 {
            let know = Arc::make_mut(self.know.as_mut().expect("just added"));
            know.alias.learn(Event { time: agent.alias_time, ..agent.now() });
        }
    }

    /// Adds what a thread knows.
    pub(super) fn add(&mut self, agent: &Agent) {
        add(&mut self.know, &agent.know);
        self.times.push((agent.thread, agent.time));
        self.time_max = self.time_max.max(agent.time);
        if agent.alias_time > 0 {
            self.alias_times.push((agent.thread, agent.alias_time));
        }
    }

    /// All are there: `agent` is one of them.
    pub(super) fn close(&mut self, agent: &Agent) {
        let Some(know) = &mut self.know else { return };
        let know = Arc::make_mut(know);
        if self.times.len() == agent.n_threads as usize {
            know.seen.learn_block(agent.block, agent.place, self.time_max);
        } else {
            let event = |&(thread, time): &(u16, u32)| Event { thread, time, ..agent.now() };
            self.times.iter().map(event).for_each(|event| know.seen.learn(event));
        }
        for &(thread, time) in &self.alias_times {
            know.alias.learn(Event { thread, time, ..agent.now() });
        }
    }

    /// Tells a thread what they know together.
    pub(super) fn tell(&self, agent: &mut Agent) {
        let Some(know) = &self.know else { return };
        agent.know = know.clone();
        agent.time = self.time_max + 1;
        agent.all = know.seen.all_of(agent.block);
    }
}
