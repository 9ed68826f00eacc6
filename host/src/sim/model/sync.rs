//! Synchronisation through memory that always gives the newest value: what the last write of a location released.

use super::agent::{Agent, Reach, Release, reach};
use super::clocks::Know;
use super::messages::{Message, Messages};
use crate::sim::engine::probe::Place;
use crate::sim::interface::MemoryAccess;
use std::collections::HashMap;
use std::sync::Arc;

/// Memory in which messages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Memory {
    Physical(u32),
    /// Shared memory of a block.
    Block(u32),
}

/// What the threads of a block knew at their last `fence.sc` of a scope.
#[derive(Clone, Debug)]
struct ScFence {
    block: u32,
    device: u32,
    reach: Reach,
    know: Arc<Know>,
}

/// All messages, and all `fence.sc`.
#[derive(Debug, Default)]
pub(super) struct Sync {
    messages: HashMap<Memory, Messages>,
    fences: Vec<ScFence>,
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

/// Whether a strong read of a thread and the write that left a message are morally strong (PTX ISA 8.7).
fn is_observed(agent: &Agent, message: &Message, reach: Reach, access: MemoryAccess, place: Place) -> bool {
    message.width_bytes == u64::from(access.width_bytes)
        && (message.mapping == place.mapping || agent.has_passed_alias_fence())
        && agent.distance(message.block, message.device) <= reach.min(message.reach)
}

impl Sync {
    /// A strong read acquires what the last write of each element released.
    #[inline]
    pub(super) fn read(&self, agent: &mut Agent, access: MemoryAccess, place: Place) {
        let Some(reach) = reach(access.scope) else { return };
        let Some(messages) = self.messages.get(&memory(agent, place)) else { return };
        for offset in elements(access, place) {
            let Some(message) = messages.get(offset) else { continue };
            if is_observed(agent, message, reach, access, place) {
                agent.acquire(access.order, access.scope, &message.releases);
            }
        }
    }

    /// A write replaces the messages of its elements. `is_atomic`: it hands on what was released there.
    #[inline]
    pub(super) fn write(&mut self, agent: &mut Agent, access: MemoryAccess, place: Place, is_atomic: bool) {
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
                Release::hand_on(&mut releases, &before.releases);
            }
            let (block, device, mapping) = (agent.block, agent.device, place.mapping);
            if releases.is_empty() {
                messages.clear(offset, width_bytes);
            } else {
                messages.set(offset, Message { block, device, reach, width_bytes, mapping, releases });
            }
        }
    }

    /// `fence.sc` comes behind every earlier one in whose scope it is and which is in its own (PTX ISA 8.9.1 and 8.9.2).
    pub(super) fn fence_sc(&mut self, agent: &mut Agent, reach: Reach) {
        for other in &self.fences {
            let distance = agent.distance(other.block, other.device);
            if distance <= reach.min(other.reach) {
                agent.learn(&other.know);
            }
        }
        let know = agent.fence_release(reach);
        let same = |other: &&mut ScFence| other.block == agent.block && other.reach == reach;
        match self.fences.iter_mut().find(same) {
            // A later one of the block has learnt what the earlier one knew.
            Some(own) => own.know = know,
            None => self.fences.push(ScFence { block: agent.block, device: agent.device, reach, know }),
        }
    }

    /// A block is done: its shared memory is gone.
    pub(super) fn end_block(&mut self, block: u32) {
        self.messages.remove(&Memory::Block(block));
    }

    /// An allocation is gone.
    pub(super) fn forget(&mut self, physical: u32) {
        self.messages.remove(&Memory::Physical(physical));
    }

    /// All that was released is known to all that will run.
    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }
}
