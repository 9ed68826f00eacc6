//! The memory model of the simulated machine (PTX ISA 8, "Memory Consistency Model").

mod agent;
mod clocks;
mod launches;
mod messages;
mod race;
mod shadow;

use crate::sim::config::SimConfig;
use crate::sim::driver::task;
use crate::sim::engine::probe::{ALL_WRITTEN, Actor, Begun, HostAccess, Meeting, Place, Probe, Who, Written};
use crate::sim::interface::{Fault, Fence, Lanes, MemoryAccess, Order};
use agent::{Agent, Joined, reach};
use launches::Launches;
use messages::{Message, Messages};
use race::Detector;
use std::collections::HashMap;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub(crate) struct Model {
    launches: Launches,
    detector: Detector,
    /// By allocation, or by block for shared memory.
    messages: HashMap<Memory, Messages>,
    fences: Vec<ScFence>,
}

/// Memory in which messages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Memory {
    Physical(u32),
    Block(u32),
}

/// What the threads of a block, or of a device, knew at their `fence.sc` of a scope.
#[derive(Clone, Debug)]
struct ScFence {
    block: u32,
    device: u32,
    reach: usize,
    know: Arc<clocks::Know>,
}

fn memory(agent: &Agent, place: Place) -> Memory {
    if place.physical == Place::SHARED {
        Memory::Block(agent.block)
    } else {
        Memory::Physical(place.physical)
    }
}

fn elements(access: MemoryAccess, place: Place) -> impl Iterator<Item = u64> {
    let width_bytes = u64::from(access.width_bytes);
    (0..u64::from(access.lanes)).map(move |lane| place.offset + lane * width_bytes)
}

impl Model {
    /// A strong read acquires what the last write of each element released.
    #[inline]
    fn read_messages(&self, agent: &mut Agent, access: MemoryAccess, place: Place) {
        let Some(reach) = reach(access.scope) else { return };
        let Some(messages) = self.messages.get(&memory(agent, place)) else { return };
        for offset in elements(access, place) {
            let Some(message) = messages.get(offset) else { continue };
            if is_observed(agent, message, reach, access, place) {
                agent.acquire(access.order, access.scope, &message.releases);
            }
        }
    }

    /// A write replaces the messages of its elements. `is_atomic`: it hands on what was there.
    #[inline]
    fn write_messages(&mut self, agent: &mut Agent, access: MemoryAccess, place: Place, is_atomic: bool) {
        let memory = memory(agent, place);
        let width_bytes = u64::from(access.width_bytes);
        let release = reach(access.scope).and_then(|_| agent.release(access.order, access.scope));
        let Some(reach) = reach(access.scope).filter(|_| release.is_some() || is_atomic) else {
            if let Some(messages) = self.messages.get_mut(&memory) {
                messages.clear(place.offset, width_bytes * u64::from(access.lanes));
            }
            return;
        };
        let messages = self.messages.entry(memory).or_default();
        for offset in elements(access, place) {
            let mut releases: Vec<_> = release.clone().into_iter().collect();
            if is_atomic
                && let Some(before) = messages.get(offset)
                && is_observed(agent, before, reach, access, place)
            {
                let others = before
                    .releases
                    .iter()
                    .filter(|other| release.as_ref().is_none_or(|own| own.block != other.block));
                releases.extend(others.cloned());
                if let (Some(own), Some(same)) = (
                    &mut releases.first_mut(),
                    before.releases.iter().find(|other| other.block == agent.block),
                ) && release.is_some()
                {
                    own.add(same);
                }
            }
            let (block, device, mapping) = (agent.block, agent.device, place.mapping);
            if releases.is_empty() {
                messages.clear(offset, width_bytes);
            } else {
                messages.set(offset, Message { block, device, reach, width_bytes, mapping, releases });
            }
        }
    }

    /// `fence.sc` comes before or behind every other one in whose scope it is (PTX ISA 8.9.1 and 8.9.2).
    fn fence_sc(&mut self, agent: &mut Agent, reach: usize) {
        for other in &self.fences {
            let distance = agent.distance(other.block, other.device);
            if distance <= reach.min(other.reach) {
                agent.learn(&other.know);
            }
        }
        let know = agent.fence_release(reach);
        let same = |other: &&mut ScFence| other.block == agent.block && other.reach == reach;
        match self.fences.iter_mut().find(same) {
            Some(own) => own.know = know,
            None => self.fences.push(ScFence { block: agent.block, device: agent.device, reach, know }),
        }
    }
}

/// Whether a strong read of a thread and the write that left a message are morally strong (PTX ISA 8.7).
fn is_observed(agent: &Agent, message: &Message, reach: usize, access: MemoryAccess, place: Place) -> bool {
    message.width_bytes == u64::from(access.width_bytes)
        && message.mapping == place.mapping
        && agent.distance(message.block, message.device) <= reach.min(message.reach)
}

impl Probe for Model {
    type Thread = Agent;
    type Joined = Joined;

    fn new(_: &SimConfig) -> Self {
        Self {
            launches: Launches::new(),
            detector: Detector::default(),
            messages: HashMap::new(),
            fences: Vec::new(),
        }
    }

    fn order(&mut self, order: task::Order) {
        self.launches.order(order);
        if self.launches.forget_if_quiet() {
            self.detector.forget_all();
            self.messages.clear();
            self.fences.clear();
        }
    }

    fn begin(&mut self, begun: &Begun) {
        self.launches.begin(begun);
    }

    fn begin_block(&mut self, who: Who, n_threads: u32) -> Agent {
        let block = self.launches.begin_block(who.launch, who.block);
        let info = self.launches.launch(who.launch);
        Agent::new(info.start.clone(), block, info.place, (who.launch, who.device), n_threads)
    }

    fn begin_thread(&mut self, first: &Agent, thread: u32) -> Agent {
        first.sibling(thread as u16)
    }

    fn end_block(&mut self, thread: &Agent) {
        self.detector.end_block(thread.block);
        self.messages.remove(&Memory::Block(thread.block));
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
        _: &mut Lanes,
    ) -> Result<(), Fault> {
        let noted =
            self.detector.note(&self.launches, (actor.state, actor.who), access, place, (true, false));
        noted.map_err(Fault::Race)?;
        self.read_messages(actor.state, access, place);
        Ok(())
    }

    #[inline]
    fn store(
        &mut self,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        _: &Lanes,
    ) -> Result<Written, Fault> {
        let noted =
            self.detector.note(&self.launches, (actor.state, actor.who), access, place, (false, true));
        noted.map_err(Fault::Race)?;
        self.write_messages(actor.state, access, place, false);
        Ok(ALL_WRITTEN)
    }

    fn atomic(
        &mut self,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        _: u64,
        _: u64,
    ) -> Result<(), Fault> {
        let noted = self.detector.note(&self.launches, (actor.state, actor.who), access, place, (true, true));
        noted.map_err(Fault::Race)?;
        self.read_messages(actor.state, access, place);
        self.write_messages(actor.state, access, place, true);
        Ok(())
    }

    fn fence(&mut self, actor: Actor<'_, Agent>, fence: Fence) {
        match fence {
            Fence::ProxyAlias => actor.state.fence_alias(),
            Fence::Thread(order, scope) => {
                let Some(reach) = reach(scope) else { return };
                actor.state.fence_acquire(reach);
                if order == Order::SeqCst {
                    self.fence_sc(actor.state, reach);
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
        self.detector.note_host(&self.launches, access)
    }

    fn forget(&mut self, physical: u32) {
        self.detector.forget(physical);
        self.messages.remove(&Memory::Physical(physical));
    }

    fn clear(&mut self) {
        self.launches.clear();
    }

    fn hops(&self) -> u64 {
        0
    }
}
