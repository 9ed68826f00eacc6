//! Loads and stores of weak memory: an element at a time, in histories.

use super::agent::{Agent, Release, reach};
use super::history::{Access, Histories, Performed, Value};
use super::launches::Launches;
use crate::sim::engine::probe::{Actor, HostAccess, Place, Written};
use crate::sim::interface::{Lanes, MemoryAccess};
use std::collections::HashMap;

/// What weak memory needs.
#[derive(Debug, Default)]
pub(super) struct Weak {
    /// By physical allocation.
    histories: HashMap<u32, Histories>,
    performed: Performed,
}

/// Offset and value of each element.
fn elements(access: MemoryAccess, offset: u64) -> impl Iterator<Item = (usize, u64)> {
    let width_bytes = usize::from(access.width_bytes);
    (0..usize::from(access.lanes)).map(move |lane| (lane, offset + (lane * width_bytes) as u64))
}

fn element(access: MemoryAccess, values: &Lanes, lane: usize) -> Value {
    if access.width_bytes == 16 { [values[2 * lane], values[2 * lane + 1]] } else { [values[lane], 0] }
}

fn set_element(access: MemoryAccess, values: &mut Lanes, lane: usize, value: Value) {
    if access.width_bytes == 16 {
        values[2 * lane..2 * lane + 2].copy_from_slice(&value);
    } else {
        values[lane] = value[0];
    }
}

/// The bits of a register that a store of that width writes.
fn cut(access: MemoryAccess, value: Value) -> Value {
    match access.width_bytes {
        8 | 16 => value,
        width_bytes => [value[0] & ((1 << (8 * width_bytes)) - 1), 0],
    }
}

/// What a strong write of a thread releases.
fn release(agent: &mut Agent, access: MemoryAccess) -> Option<Release> {
    reach(access.scope).and_then(|_| agent.release(access.order, access.scope))
}

impl Weak {
    /// Replaces what memory holds by what the thread reads; gives whether all of it is the newest.
    pub(super) fn load(
        &mut self,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        values: &mut Lanes,
    ) -> bool {
        let Some(histories) = self.histories.get_mut(&place.physical) else { return true };
        let mut at = Access::new((actor.state, actor.scheduler), &mut self.performed, access, place);
        let mut all_newest = true;
        for (lane, offset) in elements(access, place.offset) {
            let (value, is_newest) = histories.load(offset, element(access, values, lane), &mut at);
            set_element(access, values, lane, value);
            all_newest &= is_newest;
        }
        all_newest
    }

    /// Stores `values` where memory holds `old`; gives the elements that memory shall hold.
    pub(super) fn store(
        &mut self,
        launches: &mut Launches,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        (old, values): (&Lanes, &Lanes),
    ) -> Written {
        self.perform_before(launches, &actor);
        let release = release(actor.state, access);
        let histories = self.histories.entry(place.physical).or_default();
        let mut at = Access::new((actor.state, actor.scheduler), &mut self.performed, access, place);
        let mut written = 0;
        for (lane, offset) in elements(access, place.offset) {
            let change = (element(access, old, lane), cut(access, element(access, values, lane)));
            if histories.store(offset, change, release.clone(), &mut at) {
                written |= 1 << lane;
            }
        }
        written
    }

    /// An atomic has replaced `old` by `new`.
    pub(super) fn atomic(
        &mut self,
        launches: &mut Launches,
        actor: Actor<'_, Agent>,
        access: MemoryAccess,
        place: Place,
        (old, new): (u64, u64),
    ) {
        self.perform_before(launches, &actor);
        let histories = self.histories.entry(place.physical).or_default();
        let Actor { state, scheduler, .. } = actor;
        let mut at = Access::new((&mut *state, &mut *scheduler), &mut self.performed, access, place);
        histories.observe_newest(place.offset, [old, 0], &mut at);
        let release = release(at.agent, access);
        histories.atomic(place.offset, ([old, 0], [new, 0]), release, &mut at);
    }

    /// H2: what the launches before this one stored is performed before its first store.
    fn perform_before(&mut self, launches: &mut Launches, actor: &Actor<'_, Agent>) {
        if actor.state.has_waited()
            && let Some(before) = launches.begin_storing(actor.who.launch)
        {
            self.performed.launches.learn_launches(&before.seen);
        }
    }

    /// The host has written.
    pub(super) fn host_access(&mut self, access: HostAccess) {
        if let Some(histories) = self.histories.get_mut(&access.physical).filter(|_| access.write) {
            histories.clear(access.offset, access.len_bytes);
        }
    }

    /// An allocation is gone.
    pub(super) fn forget(&mut self, physical: u32) {
        self.histories.remove(&physical);
    }

    /// All that was written is known to all that will run.
    pub(super) fn forget_all(&mut self) {
        self.histories.clear();
    }
}
