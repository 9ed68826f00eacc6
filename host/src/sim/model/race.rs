//! Which accesses are ordered, which are strong enough not to need it, and the rest: data races.

use super::agent::Agent;
use super::cell::{Conflict, Judge};
use super::clocks::Know;
use super::launches::Launches;
use super::record::{HOST_BLOCK, Record};
use super::shadow::Shadow;
use crate::sim::engine::probe::{HostAccess, Place, Who};
use crate::sim::interface::{MemoryAccess, Order, Race};
use crate::sim::memory::address_map::HOST;
use std::collections::HashMap;

/// Copies and fills of the host of more bytes, while kernels run or wait, are checked and not noted.
const HOST_BYTES_NOTED_MAX: u64 = 16 << 20;

/// What an access does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Touch {
    /// It gives the last write, or something older.
    Load {
        observes: bool,
    },
    Store,
    Atomic,
}

/// Judges for a thread.
struct ThreadJudge<'a> {
    agent: &'a Agent,
    record: Record,
    launches: &'a Launches,
}

/// Judges for the host.
struct HostJudge<'a> {
    know: &'a Know,
    launches: &'a Launches,
}

impl ThreadJudge<'_> {
    fn is_known(&self, earlier: Record, same_proxy: bool) -> bool {
        if earlier.block == HOST_BLOCK {
            return self.agent.know.seen.knows_host(earlier.time);
        }
        self.agent.knows(self.launches.event(earlier.block, earlier.thread, earlier.time), same_proxy)
    }
}

impl Judge for ThreadJudge<'_> {
    #[inline]
    fn is_before(&self, earlier: Record) -> bool {
        let same_proxy = earlier.proxy() == self.record.proxy();
        let own = earlier.block == self.agent.block && earlier.thread == self.agent.thread;
        (own && same_proxy) || self.is_known(earlier, same_proxy)
    }

    #[inline]
    fn is_harmless(&self, earlier: Record) -> bool {
        if !earlier.may_be_morally_strong(self.record) {
            return false;
        }
        let least = earlier.strength().min(self.record.strength());
        if least == 3 {
            return true;
        }
        let device = self.launches.device_of(earlier.block);
        usize::from(least) > self.agent.distance(earlier.block, device)
    }

    fn are_strong(&self, one: Record, two: Record) -> bool {
        are_strong(self.launches, one, two)
    }
}

impl Judge for HostJudge<'_> {
    fn is_before(&self, earlier: Record) -> bool {
        earlier.block == HOST_BLOCK
            || self.know.seen.knows(self.launches.event(earlier.block, earlier.thread, earlier.time))
    }

    fn is_harmless(&self, _: Record) -> bool {
        false
    }

    fn are_strong(&self, one: Record, two: Record) -> bool {
        are_strong(self.launches, one, two)
    }
}

/// Whether two accesses of threads are morally strong (PTX ISA 8.7).
fn are_strong(launches: &Launches, one: Record, two: Record) -> bool {
    let distance = if one.block == two.block {
        0
    } else if launches.device_of(one.block) == launches.device_of(two.block) {
        1
    } else {
        2
    };
    one.may_be_morally_strong(two) && one.strength().min(two.strength()) > distance
}

/// Shadows of all memory.
#[derive(Debug, Default)]
pub(super) struct Detector {
    /// By physical allocation.
    global: Vec<Shadow>,
    /// Shared memory, by block.
    shared: HashMap<u32, Shadow>,
}

impl Detector {
    fn shadow(&mut self, physical: u32) -> &mut Shadow {
        let index = physical as usize;
        if self.global.len() <= index {
            self.global.resize_with(index + 1, Shadow::default);
        }
        &mut self.global[index]
    }

    /// Notes an access of a thread.
    ///
    /// # Errors
    ///
    /// The race that it makes.
    #[inline]
    pub(super) fn note(
        &mut self,
        launches: &Launches,
        (agent, who): (&Agent, Who),
        access: MemoryAccess,
        place: Place,
        touch: Touch,
    ) -> Result<(), Box<Race>> {
        let shadow = if place.physical == Place::SHARED {
            self.shared.entry(agent.block).or_default()
        } else {
            self.shadow(place.physical)
        };
        let proxy = shadow.proxy(place.mapping);
        let record = Record::new((agent.block, agent.thread, agent.time), who.pc, proxy, access);
        let (reads, writes, observes) = match touch {
            Touch::Load { observes } => (true, false, observes),
            Touch::Store => (false, true, false),
            Touch::Atomic => (true, true, true),
        };
        let record = record.that_observes(observes).behind_alias_fence(agent.has_passed_alias_fence());
        let judge = ThreadJudge { agent, record, launches };
        let len_bytes = u64::from(access.width_bytes) * u64::from(access.lanes);
        shadow
            .note(place.offset, len_bytes, record, (reads, writes), &judge)
            .map_err(|conflict| Box::new(race(&judge, conflict, place, writes)))
    }

    /// Notes an access of the host.
    ///
    /// # Errors
    ///
    /// The race that it makes, in words.
    pub(super) fn note_host(&mut self, launches: &Launches, access: HostAccess) -> Result<(), String> {
        let (know, time) = launches.host();
        let (judge, record) = (HostJudge { know, launches }, Record::host(time));
        let HostAccess { physical, offset, len_bytes, write, .. } = access;
        let is_idle = launches.is_idle();
        let shadow = self.shadow(physical);
        // Where no work is under way all later work comes behind the host, so that only what was touched matters.
        let parts = if is_idle || len_bytes > HOST_BYTES_NOTED_MAX {
            shadow.touched(offset, len_bytes)
        } else {
            vec![(offset, offset + len_bytes)]
        };
        for (start, end) in parts {
            shadow
                .note(start, end - start, record, (!write, write), &judge)
                .map_err(|conflict| host_race(launches, conflict, access))?;
        }
        Ok(())
    }

    /// A block is done.
    pub(super) fn end_block(&mut self, block: u32) {
        self.shared.remove(&block);
    }

    /// An allocation is gone.
    pub(super) fn forget(&mut self, physical: u32) {
        *self.shadow(physical) = Shadow::default();
    }

    /// Nothing that was noted matters any more.
    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }
}

fn verb(writes: bool) -> &'static str {
    if writes { "store" } else { "load" }
}

/// An access in words: `weak store of 8-byte elements`.
fn kind(record: Record, writes: bool) -> String {
    let order = match record.order() {
        Order::Weak => "weak",
        Order::Volatile => "volatile",
        Order::Relaxed => "relaxed",
        Order::Acquire => "acquiring",
        Order::Release => "releasing",
        Order::AcqRel | Order::SeqCst => "acquiring and releasing",
    };
    let scope = match record.strength() {
        0 => "",
        1 => " at .cta",
        2 => " at .gpu",
        _ => " at .sys",
    };
    let width = record.width_bytes();
    let plural = if width == 1 { "" } else { "s" };
    format!("{order} {} of {width} byte{plural}{scope}", verb(writes))
}

fn describe(launches: &Launches, record: Record, writes: bool) -> String {
    if record.block == HOST_BLOCK {
        return format!("copy or fill by the host, which {}", if writes { "writes" } else { "reads" });
    }
    let block = launches.block(record.block);
    let launch = &launches.launch(block.launch).launch;
    let function = &launch.function;
    format!(
        "{} by kernel {} (launch {}) on device {}, block {}, thread {}\n  at {}",
        kind(record, writes),
        function.kernel.name,
        block.launch,
        function.device,
        block.number,
        record.thread,
        function.kernel.location(record.pc())
    )
}

fn bytes(place: Place) -> String {
    let memory = if place.physical == Place::SHARED {
        "shared memory of the block".into()
    } else if place.owner == HOST {
        "host memory".into()
    } else {
        format!("memory of device {}", place.owner)
    };
    format!("{:#x}, offset {:#x} in {memory}", place.address, place.offset)
}

fn race(judge: &ThreadJudge<'_>, conflict: Conflict, place: Place, writes: bool) -> Race {
    let Conflict { earlier, earlier_writes } = conflict;
    Race {
        bytes: bytes(place),
        access: kind(judge.record, writes),
        earlier: describe(judge.launches, earlier, earlier_writes),
        remedy: remedy(judge, conflict, writes),
    }
}

/// What would have ordered two accesses.
fn remedy(judge: &ThreadJudge<'_>, conflict: Conflict, writes: bool) -> String {
    let Conflict { earlier, earlier_writes } = conflict;
    if earlier.block == HOST_BLOCK {
        return "launch the kernel behind the host's access".into();
    }
    if earlier.proxy() != judge.record.proxy() && judge.is_known(earlier, true) {
        return "the accesses are ordered, but go by two addresses of one memory: put fence.proxy.alias on the way from \
                one to the other"
            .into();
    }
    let (first, second) = (verb(earlier_writes), verb(writes));
    let other = judge.launches.block(earlier.block);
    if earlier.block == judge.agent.block {
        return format!("a barrier of the block between the {first} and the {second}");
    }
    let device = judge.launches.device_of(earlier.block);
    let scope = if device == judge.agent.device { ".gpu" } else { ".sys" };
    let mut remedy = format!(
        "a release at {scope} by the first thread behind its {first}, and an acquire at {scope} by the second before its \
         {second}, of one word"
    );
    if other.launch != judge.agent.launch {
        remedy += "; or an order of the launches: one stream, an event, a wait of the host";
    }
    if earlier.strength() > 0 && judge.record.strength() > 0 {
        if earlier.width_bytes() != judge.record.width_bytes() {
            remedy += "; or accesses of one width";
        } else {
            remedy += &format!("; or scope {scope} on both");
        }
    }
    remedy
}

fn host_race(launches: &Launches, conflict: Conflict, access: HostAccess) -> String {
    let HostAccess { offset, len_bytes, write, .. } = access;
    format!(
        "the host {} {len_bytes:#x} bytes at offset {offset:#x} of an allocation\n  and nothing orders that \
         behind an earlier {}\n  would be ordered by: a wait of the host for the stream or an event behind the kernel",
        if write { "writes" } else { "reads" },
        describe(launches, conflict.earlier, conflict.earlier_writes),
    )
}
