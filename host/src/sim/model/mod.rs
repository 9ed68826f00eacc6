//! The memory model of the simulated machine (PTX ISA 8, "Memory Consistency Model"): data races and weak behaviours.
//!
//! # What it cannot produce
//!
//! - **Load buffering.** A load gives what has been stored, never what will be: a store does not become visible before
//!   the loads in front of it have returned. PTX allows that where no dependency forbids it; no run here shows it. (For
//!   stores that depend on the loads this is H1, which the flag-in-data protocols assume.)
//! - **Old values for long.** Of each element the last four writes are kept, and after a dozen old values the newest is
//!   given, so that a thread which polls gets on.
//! - **Old values of atomics.** An atomic reads the newest write.
//! - **Weakness between accesses of different width.** They see the newest bytes; unless they are ordered they are a
//!   race, which is found.
//! - **Weakness of shared memory.** It is sequentially consistent; races in it are found.
//! - **Weakness of host memory and of other processes.** What the host writes by its own address, and what other
//!   processes write, is there at once, and no race with it is found.
//! - A releasing write that is followed by a relaxed one of the same thread to the same location is no release pattern
//!   with the second one (PTX ISA 8.8 says it is): a thread that reads the second acquires nothing.
//! - **Races with large copies of the host.** One of more than 16 MiB while kernels run races with what they did, not
//!   with what they do later.
//! - A thread behind `bar.arrive` may be taken to have arrived with what it did since.
//!
//! # What is assumed beyond PTX
//!
//! - **H1.** A store comes, in coherence order, behind all that had been released to a value which its thread, or at
//!   `.sys` any thread, has read, acquired or not.
//! - **H2.** The stores of a kernel are performed everywhere before the first store of a kernel that launch order puts
//!   behind it.
//!
//! Both hold of values only. They order nothing for the race detector, so that no barrier kernel passes by them.
//!
//! # How it works
//!
//! Every thread has a clock of what happened before ([`clocks`], [`agent`]), which grows by release and acquire patterns
//! within scopes, by barriers of the block and the warp, by the end of kernels and the order of launches ([`launches`]),
//! and by the host's waits. Two accesses to the same bytes, one of them a write, that are neither ordered by the clocks
//! nor morally strong are a race ([`race`], [`shadow`]). In weak memory the same clocks say which writes of a location a
//! load may give ([`history`], [`weak`]); which of them, the scheduler chooses, so that a seed is a run. Proxies: each
//! mapping of an allocation is one, that of a multicast object another, and what went by another is known only behind
//! `fence.proxy.alias` or the end of the kernel that did it. Strong accesses by two addresses count as morally strong
//! if one of the two threads has passed an alias fence in its kernel: PTX does not say so (8.7 asks for one proxy), but
//! a barrier that counts by `multimem.red` and waits by a plain address could not be written without.

mod agent;
mod cell;
mod clocks;
mod history;
mod launches;
mod messages;
mod race;
mod record;
mod shadow;
mod sync;
mod weak;

use crate::sim::config::{ProbeKind, SimConfig};
use crate::sim::driver::task;
use crate::sim::engine::probe::{ALL_WRITTEN, Actor, Begun, HostAccess, Meeting, Place, Probe, Who, Written};
use crate::sim::interface::{Fault, Fence, Lanes, MemoryAccess, Order};
use agent::{Agent, Joined, reach};
use launches::Launches;
use race::{Detector, Touch};
use sync::Sync;
use weak::Weak;

/// See the module.
#[derive(Debug)]
pub(crate) struct Model {
    launches: Launches,
    /// Where races are looked for.
    detector: Option<Detector>,
    /// Where memory is weak.
    weak: Option<Weak>,
    sync: Sync,
}

impl Model {
    #[inline]
    fn note(
        &mut self,
        who: Who,
        agent: &Agent,
        access: MemoryAccess,
        place: Place,
        touch: Touch,
    ) -> Result<(), Fault> {
        let Some(detector) = &mut self.detector else { return Ok(()) };
        let noted = detector.note(&self.launches, (agent, who), access, place, touch);
        noted.map_err(Fault::Race)
    }
}

impl Probe for Model {
    type Thread = Agent;
    type Joined = Joined;

    const ANSWERS: bool = true;

    fn new(config: &SimConfig) -> Self {
        let (is_weak, looks_for_races) = match config.probe {
            ProbeKind::Weak { races } => (true, races),
            _ => (false, true),
        };
        Self {
            launches: Launches::new(),
            detector: looks_for_races.then(Detector::default),
            weak: is_weak.then(Weak::default),
            sync: Sync::default(),
        }
    }

    fn order(&mut self, order: task::Order) {
        self.launches.order(order);
        if !self.launches.is_quiet() {
            return;
        }
        if let Some(weak) = &mut self.weak {
            weak.forget_all();
        }
        if self.launches.forget_if_many() {
            if let Some(detector) = &mut self.detector {
                detector.forget_all();
            }
            self.sync.forget_all();
        }
    }

    fn begin(&mut self, begun: &Begun) {
        self.launches.begin(begun);
    }

    fn begin_block(&mut self, who: Who, n_threads: u32) -> Agent {
        let block = self.launches.begin_block(who.launch, who.block);
        let info = self.launches.launch(who.launch);
        let (place, waits) = (info.place, info.launch.shape.waits_itself);
        let know = self.launches.early(who.launch).clone();
        Agent::new(know, block, place, (who.launch, who.device), (n_threads, waits))
    }

    fn begin_thread(&mut self, first: &Agent, thread: u32) -> Agent {
        first.sibling(thread as u16)
    }

    fn end_block(&mut self, thread: &Agent) {
        if let Some(detector) = &mut self.detector {
            detector.end_block(thread.block);
        }
        self.sync.end_block(thread.block);
    }

    fn end(&mut self, begun: &Begun, joined: Joined) {
        self.launches.end(begun, joined.know);
    }

    #[inline]
    fn load(
        &mut self,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        values: &mut Lanes,
    ) -> Result<(), Fault> {
        let Actor { who, state, scheduler } = actor;
        let mut observes = true;
        if let Some(weak) = &mut self.weak
            && place.physical != Place::SHARED
        {
            observes = weak.load(Actor { who, state, scheduler }, access, place, values);
        } else {
            self.sync.read(state, access, place);
        }
        self.note(who, state, access, place, Touch::Load { observes })
    }

    #[inline]
    fn store(
        &mut self,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        (old, values): (&Lanes, &Lanes),
    ) -> Result<Written, Fault> {
        self.note(actor.who, actor.state, access, place, Touch::Store)?;
        match &mut self.weak {
            Some(weak) if place.physical != Place::SHARED => {
                Ok(weak.store(&mut self.launches, actor, access, place, (old, values)))
            }
            _ => {
                self.sync.write(actor.state, access, place, false);
                Ok(ALL_WRITTEN)
            }
        }
    }

    fn atomic(
        &mut self,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        old_new: (u64, u64),
    ) -> Result<(), Fault> {
        self.note(actor.who, actor.state, access, place, Touch::Atomic)?;
        match &mut self.weak {
            Some(weak) if place.physical != Place::SHARED => {
                weak.atomic(&mut self.launches, actor, access, place, old_new);
            }
            _ => {
                self.sync.read(actor.state, access, place);
                self.sync.write(actor.state, access, place, true);
            }
        }
        Ok(())
    }

    fn fence(&mut self, actor: Actor<'_, Agent>, fence: Fence) {
        match fence {
            Fence::ProxyAlias => actor.state.fence_alias(),
            Fence::GridDependency => {
                let launch = actor.who.launch;
                actor.state.wait(self.launches.early(launch), self.launches.start(launch));
            }
            Fence::Thread(order, scope) => {
                let Some(reach) = reach(scope) else { return };
                actor.state.fence_acquire(reach);
                if order == Order::SeqCst {
                    self.sync.fence_sc(actor.state, reach);
                } else {
                    actor.state.fence_release(reach);
                }
            }
        }
    }

    fn gather(&mut self, how: Meeting, joined: &mut Joined, thread: &Agent) {
        match how {
            Meeting::Block | Meeting::Warp => joined.add(thread),
            Meeting::Exit => joined.add_exited(thread),
            Meeting::Exchange => {}
        }
    }

    fn close(&mut self, how: Meeting, joined: &mut Joined, thread: &Agent) {
        if how != Meeting::Exchange {
            joined.close(thread);
        }
    }

    fn learn(&mut self, how: Meeting, thread: &mut Agent, joined: &Joined) {
        if how != Meeting::Exchange {
            joined.tell(thread);
        }
    }

    fn host_access(&mut self, access: HostAccess) -> Result<(), String> {
        if let Some(weak) = &mut self.weak {
            weak.host_access(access);
        }
        match &mut self.detector {
            Some(detector) => detector.note_host(&self.launches, access),
            None => Ok(()),
        }
    }

    fn forget(&mut self, physical: u32) {
        if let Some(detector) = &mut self.detector {
            detector.forget(physical);
        }
        if let Some(weak) = &mut self.weak {
            weak.forget(physical);
        }
        self.sync.forget(physical);
    }

    fn clear(&mut self) {
        self.launches.clear();
    }

    fn hops(&self) -> u64 {
        0
    }
}
