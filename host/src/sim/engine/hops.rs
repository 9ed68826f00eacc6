//! Longest chains of dependent link crossings.
//!
//! Every thread and every 4 bytes of device memory carry a depth: crossings on the longest chain that led there. A
//! store to another device adds 1, a load from another device 2 (there and back), or 1 to what was stored there (the
//! way back alone). Accesses that a thread issues one after another overlap on hardware, so the depth of a load passes
//! to the thread's stores at once, but to its later loads only at a fence, a barrier or a warp exchange; and what was
//! stored before a fence or a release has arrived when a later store leaves. A kernel starts at the depth of all
//! finished work. Host memory has no depth.

use super::probe::{ALL_WRITTEN, Actor, Begun, HostAccess, Meeting, Place, Probe, Who, Written};
use crate::sim::config::SimConfig;
use crate::sim::driver::task;
use crate::sim::interface::{Fault, Fence, Lanes, MemoryAccess, Order};
use crate::sim::memory::address_map::HOST;

/// Bytes that share one depth.
const UNIT_BYTES: u64 = 4;

/// Depths of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Of what it issues.
    issued: u32,
    /// Of what has arrived at it.
    arrived: u32,
    /// Of what it has sent.
    sent: u32,
}

impl Depth {
    /// All that it has sent has arrived.
    fn wait_for_stores(&mut self) {
        self.arrived = self.arrived.max(self.sent);
    }
}

/// Keeps the depths.
#[derive(Debug, Default)]
pub(crate) struct HopProbe {
    /// By physical allocation; made when it is first stored to. Zeroed memory costs no page until it is written.
    shadows: Vec<Vec<u32>>,
    finished: u32,
    deepest: u32,
}

impl HopProbe {
    fn units(access: MemoryAccess, place: Place) -> std::ops::RangeInclusive<usize> {
        let len_bytes = u64::from(access.width_bytes) * u64::from(access.lanes);
        (place.offset / UNIT_BYTES) as usize..=((place.offset + len_bytes - 1) / UNIT_BYTES) as usize
    }

    #[inline(always)]
    fn stored_depth(&self, access: MemoryAccess, place: Place) -> u32 {
        let Some(shadow) = self.shadows.get(place.physical as usize) else { return 0 };
        Self::units(access, place).map(|unit| shadow.get(unit).copied().unwrap_or(0)).max().unwrap_or(0)
    }

    #[inline(always)]
    fn set_depth(&mut self, access: MemoryAccess, place: Place, depth: u32) {
        if self.shadows.get(place.physical as usize).is_none_or(Vec::is_empty) {
            self.make_shadow(place);
        }
        self.shadows[place.physical as usize][Self::units(access, place)].fill(depth);
        self.deepest = self.deepest.max(depth);
    }

    #[cold]
    fn make_shadow(&mut self, place: Place) {
        let physical = place.physical as usize;
        if self.shadows.len() <= physical {
            self.shadows.resize_with(physical + 1, Vec::new);
        }
        self.shadows[physical] = vec![0; place.physical_len_bytes.div_ceil(UNIT_BYTES) as usize];
    }
}

impl HopProbe {
    /// What a kernel's threads start with.
    fn start(&self) -> Depth {
        Depth { issued: self.finished, arrived: self.finished, sent: self.finished }
    }

    #[inline(always)]
    fn loaded(&mut self, thread: &mut Depth, access: MemoryAccess, place: Place) {
        let stored = self.stored_depth(access, place);
        let depth = if place.remote { (stored + 1).max(thread.issued + 2) } else { stored };
        if depth > thread.arrived {
            thread.arrived = depth;
            self.deepest = self.deepest.max(depth);
        }
    }

    #[inline(always)]
    fn stored(&mut self, thread: &mut Depth, access: MemoryAccess, place: Place) {
        if access.order == Order::Release {
            thread.wait_for_stores();
        }
        let depth = thread.arrived + u32::from(place.remote);
        thread.sent = thread.sent.max(depth);
        self.set_depth(access, place, depth);
    }

    #[inline(always)]
    fn modified(&mut self, thread: &mut Depth, access: MemoryAccess, place: Place) {
        if matches!(access.order, Order::Release | Order::AcqRel) {
            thread.wait_for_stores();
        }
        let crossing = u32::from(place.remote);
        let there = self.stored_depth(access, place).max(thread.arrived + crossing);
        thread.sent = thread.sent.max(there);
        self.set_depth(access, place, there);
        thread.arrived = thread.arrived.max(there + crossing);
        self.deepest = self.deepest.max(thread.arrived);
    }

    fn fenced(thread: &mut Depth) {
        thread.wait_for_stores();
        thread.issued = thread.arrived;
    }
}

/// Memory that has depths: that of devices.
#[inline(always)]
fn is_deep(place: Place) -> bool {
    place.owner != HOST && place.physical != Place::SHARED
}

impl Probe for HopProbe {
    type Thread = Depth;
    type Joined = Depth;

    fn new(_: &SimConfig) -> Self {
        Self::default()
    }

    fn order(&mut self, _: task::Order) {}

    fn begin(&mut self, _: &Begun) {}

    fn begin_block(&mut self, _: Who, _: u32) -> Depth {
        self.start()
    }

    fn begin_thread(&mut self, first: &Depth, _: u32) -> Depth {
        *first
    }

    fn end_block(&mut self, _: &Depth) {}

    fn end(&mut self, _: &Begun, joined: Depth) {
        self.finished = self.finished.max(joined.arrived).max(joined.sent);
    }

    #[inline(always)]
    fn load(
        &mut self,
        actor: Actor<'_, Depth>,
        access: MemoryAccess,
        place: Place,
        _: &mut Lanes,
    ) -> Result<(), Fault> {
        if is_deep(place) {
            self.loaded(actor.state, access, place);
        }
        Ok(())
    }

    #[inline(always)]
    fn store(
        &mut self,
        actor: Actor<'_, Depth>,
        access: MemoryAccess,
        place: Place,
        _: (&Lanes, &Lanes),
    ) -> Result<Written, Fault> {
        if is_deep(place) {
            self.stored(actor.state, access, place);
        }
        Ok(ALL_WRITTEN)
    }

    fn atomic(
        &mut self,
        actor: Actor<'_, Depth>,
        access: MemoryAccess,
        place: Place,
        _: (u64, u64),
    ) -> Result<(), Fault> {
        if is_deep(place) {
            self.modified(actor.state, access, place);
        }
        Ok(())
    }

    fn fence(&mut self, actor: Actor<'_, Depth>, fence: Fence) {
        // Kernels start behind finished work even where they could be launched before its end.
        if fence != Fence::GridDependency {
            Self::fenced(actor.state);
        }
    }

    fn gather(&mut self, _: Meeting, joined: &mut Depth, thread: &Depth) {
        joined.arrived = joined.arrived.max(thread.arrived);
        joined.sent = joined.sent.max(thread.sent);
    }

    fn close(&mut self, _: Meeting, _: &mut Depth, _: &Depth) {}

    fn learn(&mut self, _: Meeting, thread: &mut Depth, joined: &Depth) {
        thread.arrived = thread.arrived.max(joined.arrived);
        thread.issued = thread.arrived;
        thread.sent = thread.sent.max(joined.sent);
    }

    fn host_access(&mut self, _: HostAccess) -> Result<(), String> {
        Ok(())
    }

    fn forget(&mut self, physical: u32) {
        if let Some(shadow) = self.shadows.get_mut(physical as usize) {
            *shadow = Vec::new();
        }
    }

    fn clear(&mut self) {}

    fn hops(&self) -> u64 {
        self.deepest.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::interface::{Scope, Space};

    const WORD: MemoryAccess = MemoryAccess {
        space: Space::Global,
        order: Order::Relaxed,
        scope: Scope::Sys,
        width_bytes: 4,
        lanes: 1,
    };

    fn at(offset: u64, remote: bool) -> Place {
        Place {
            address: offset,
            physical: 0,
            physical_len_bytes: 2 << 20,
            offset,
            mapping: 0,
            owner: 0,
            remote,
        }
    }

    #[test]
    fn a_message_is_one_hop_and_its_answer_two() {
        let mut probe = HopProbe::default();
        let (mut ping, mut pong) = (probe.start(), probe.start());
        probe.stored(&mut ping, WORD, at(0, true));
        probe.loaded(&mut pong, WORD, at(0, false));
        probe.stored(&mut pong, WORD, at(8, true));
        probe.loaded(&mut ping, WORD, at(8, false));
        assert_eq!((pong.arrived, ping.arrived, probe.hops()), (1, 2, 2));
    }

    #[test]
    fn a_flag_comes_behind_the_data_that_it_releases() {
        let release = MemoryAccess { order: Order::Release, ..WORD };
        for (flag, expect) in [(WORD, 1), (release, 2)] {
            let mut probe = HopProbe::default();
            let mut thread = probe.start();
            probe.stored(&mut thread, WORD, at(0, true));
            probe.stored(&mut thread, flag, at(8, true));
            assert_eq!(probe.stored_depth(WORD, at(8, false)), expect);
        }
    }

    #[test]
    fn loads_overlap_until_a_fence() {
        let mut probe = HopProbe::default();
        let mut thread = probe.start();
        (0..10).for_each(|word| probe.loaded(&mut thread, WORD, at(word * 8, true)));
        assert_eq!(thread.arrived, 2);
        HopProbe::fenced(&mut thread);
        probe.loaded(&mut thread, WORD, at(0, true));
        assert_eq!(thread.arrived, 4);
    }

    #[test]
    fn a_kernel_starts_behind_finished_work() {
        let mut probe = HopProbe::default();
        let mut thread = probe.start();
        probe.stored(&mut thread, WORD, at(0, true));
        probe.finished = probe.finished.max(thread.sent);
        assert_eq!(probe.start().issued, 1);
    }

    #[test]
    fn neighbours_in_the_shadow_stay_apart() {
        let mut probe = HopProbe::default();
        let mut thread = Depth { issued: 5, arrived: 5, sent: 5 };
        probe.stored(&mut thread, WORD, at(1 << 20, true));
        for (offset, expect) in [((1 << 20) - 4, 0), (1 << 20, 6), ((1 << 20) + 4, 0)] {
            assert_eq!(probe.stored_depth(WORD, at(offset, false)), expect, "{offset}");
        }
        probe.forget(0);
        assert_eq!(probe.stored_depth(WORD, at(1 << 20, false)), 0);
    }
}
