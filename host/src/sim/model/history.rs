//! What was written to each location, in coherence order, and which of it a thread may still read.
//!
//! A load may give any of the last few writes of its element, but none that is older than one which the thread knows of:
//! because it happened before (PTX ISA 8.9.5, "causality order"), or because somebody read it strongly and that read
//! happened before. A store comes behind all writes that its thread knows of, and anywhere among the others.

use super::agent::{Agent, Reach, Release};
use super::clocks::{Clock, Event};
use crate::sim::engine::probe::Place;
use crate::sim::interface::MemoryAccess;
use crate::sim::schedule::Scheduler;
use std::collections::{HashMap, VecDeque};

/// Writes of a location that are kept.
const DEPTH: usize = 4;
/// Loads that may give something old after a write; then the newest is given, so that who polls gets on.
const STALE_LOADS_MAX: u32 = 12;
/// Bytes of a page; most pages have no history.
const PAGE_BYTES: u64 = 1024;

/// Bits of an element.
pub(super) type Value = [u64; 2];

/// A write.
#[derive(Clone, Debug)]
struct Message {
    value: Value,
    /// Who wrote it; `None` for what was there before.
    writer: Option<Writer>,
    releases: Vec<Release>,
    /// Strong reads of it, the first of each thread.
    observers: Vec<Event>,
    /// Nothing comes between it and the write before, which it has read.
    is_atomic: bool,
}

#[derive(Clone, Copy, Debug)]
struct Writer {
    event: Event,
    device: u32,
    /// `None` for a weak write.
    reach: Option<Reach>,
    mapping: u32,
}

/// What is performed everywhere: no later store comes before it.
#[derive(Debug, Default)]
pub(super) struct Performed {
    /// Launches that are done and behind which another launch has begun to store (H2); nothing older than their stores is
    /// read any more, either.
    pub(super) launches: Clock,
    /// What was released to the whole system and read (H1).
    released: Clock,
}

/// The last writes of one element.
#[derive(Clone, Debug)]
struct Location {
    width_bytes: u64,
    /// In coherence order.
    messages: VecDeque<Message>,
    stale_left: u32,
}

/// Histories in one allocation.
#[derive(Debug, Default)]
pub(super) struct Histories {
    by_offset: HashMap<u64, Location>,
    /// By page.
    counts: Vec<u32>,
    /// Bytes of the smallest element ever made; 0 if none was.
    least_bytes: u64,
}

/// A thread at an access.
pub(super) struct Access<'a> {
    pub(super) agent: &'a mut Agent,
    pub(super) scheduler: &'a mut dyn Scheduler,
    pub(super) performed: &'a mut Performed,
    pub(super) access: MemoryAccess,
    pub(super) reach: Option<Reach>,
    pub(super) mapping: u32,
}

impl<'a> Access<'a> {
    pub(super) fn new(
        (agent, scheduler): (&'a mut Agent, &'a mut dyn Scheduler),
        performed: &'a mut Performed,
        access: MemoryAccess,
        place: Place,
    ) -> Self {
        let reach = super::agent::reach(access.scope);
        Self { agent, scheduler, performed, access, reach, mapping: place.mapping }
    }

    fn width_bytes(&self) -> u64 {
        self.access.width_bytes.into()
    }

    /// Whether the thread may read nothing older than a message, and must write behind it.
    fn must_see(&self, message: &Message) -> bool {
        let Some(writer) = message.writer else { return true };
        self.agent.knows(writer.event, writer.mapping == self.mapping)
            || self.performed.launches.knows_launch(writer.event.place)
            || message.observers.iter().any(|&read| self.agent.knows(read, true))
    }

    /// Whether its store must come behind a message: it does, too, where what was released behind that has been read (H1:
    /// it had been performed by then), by the thread itself or, if released to the whole system, by anyone.
    fn must_follow(&self, message: &Message) -> bool {
        self.must_see(message)
            || message.writer.is_some_and(|writer| {
                self.agent.has_read_of(writer.event) || self.performed.released.knows(writer.event)
            })
    }

    /// Whether the thread and a writer are morally strong.
    fn is_strong_with(&self, writer: Writer) -> bool {
        let (Some(own), Some(theirs)) = (self.reach, writer.reach) else { return false };
        (writer.mapping == self.mapping || self.agent.has_passed_alias_fence())
            && self.agent.distance(writer.event.block, writer.device) <= own.min(theirs)
    }

    /// Takes note of what a read has read.
    fn observe(&mut self, message: &mut Message) {
        let Some(writer) = message.writer else { return };
        if !self.is_strong_with(writer) {
            return;
        }
        let now = self.agent.now();
        let known = message.observers.iter().any(|read| read.block == now.block && read.thread == now.thread);
        if !known {
            message.observers.push(now);
            let to_all = message.releases.iter().filter_map(|release| release.know[2].as_ref());
            to_all.for_each(|know| self.performed.released.join(&know.seen));
        }
        self.agent.acquire(self.access.order, self.access.scope, &message.releases);
    }

    fn message(&mut self, value: Value, is_atomic: bool, release: Option<Release>) -> Message {
        let (event, device) = (self.agent.now(), self.agent.device);
        let writer = Writer { event, device, reach: self.reach, mapping: self.mapping };
        let releases = release.into_iter().collect();
        Message { value, writer: Some(writer), releases, observers: Vec::new(), is_atomic }
    }
}

impl Location {
    fn new(width_bytes: u64, value: Value) -> Self {
        let before =
            Message { value, writer: None, releases: Vec::new(), observers: Vec::new(), is_atomic: false };
        Self { width_bytes, messages: VecDeque::from([before]), stale_left: 0 }
    }

    fn newest(&self) -> Value {
        self.messages.back().expect("a location has a message").value
    }

    fn load(&mut self, access: &mut Access<'_>) -> (Value, bool) {
        let n = self.messages.len();
        let oldest = self.messages.iter().rposition(|message| access.must_see(message)).unwrap_or(0);
        let mut age = 0;
        if oldest < n - 1 && self.stale_left > 0 {
            age = access.scheduler.choose(n - oldest);
            self.stale_left -= u32::from(age > 0);
        }
        let message = &mut self.messages[n - 1 - age];
        access.observe(message);
        (message.value, age == 0)
    }

    /// Puts a write among the others; gives whether it is the newest.
    fn store(&mut self, access: &mut Access<'_>, message: Message) -> bool {
        let n = self.messages.len();
        let first =
            self.messages.iter().rposition(|other| access.must_follow(other)).map_or(0, |last| last + 1);
        let is_place = |place: &usize| self.messages.get(*place).is_none_or(|next| !next.is_atomic);
        let places: Vec<usize> = (first..=n).rev().filter(is_place).collect();
        let place = if places.len() > 1 { places[access.scheduler.choose(places.len())] } else { n };
        self.put(place, message);
        place == n
    }

    fn put(&mut self, place: usize, message: Message) {
        self.messages.insert(place, message);
        self.stale_left = STALE_LOADS_MAX;
        if self.messages.len() > DEPTH {
            self.messages.pop_front();
        }
    }
}

impl Histories {
    fn has_none(&self, offset: u64) -> bool {
        self.counts.get((offset / PAGE_BYTES) as usize).is_none_or(|&count| count == 0)
    }

    /// Lets go of the history of every element that overlaps a range, but for `keep`.
    fn clear_but(&mut self, offset: u64, len_bytes: u64, keep: Option<(u64, u64)>) {
        let pages = offset / PAGE_BYTES..(offset + len_bytes).div_ceil(PAGE_BYTES);
        for page in pages.filter(|&page| !self.has_none(page * PAGE_BYTES)).collect::<Vec<_>>() {
            let first = (page * PAGE_BYTES).max(offset / 16 * 16);
            let end = ((page + 1) * PAGE_BYTES).min(offset + len_bytes);
            for start in (first..end).step_by(self.least_bytes as usize) {
                let Some(found) = self.by_offset.get(&start) else { continue };
                let kept = keep == Some((start, found.width_bytes));
                if !kept && start + found.width_bytes > offset {
                    self.by_offset.remove(&start);
                    self.counts[page as usize] -= 1;
                }
            }
        }
    }

    /// Something outside the model has written.
    pub(super) fn clear(&mut self, offset: u64, len_bytes: u64) {
        self.clear_but(offset, len_bytes, None);
    }

    /// The location of an element, made where there is none; `now` is what memory holds.
    fn location(&mut self, offset: u64, width_bytes: u64, now: Value) -> &mut Location {
        self.clear_but(offset, width_bytes, Some((offset, width_bytes)));
        let page = (offset / PAGE_BYTES) as usize;
        if self.counts.len() <= page {
            self.counts.resize(page + 1, 0);
        }
        if self.least_bytes == 0 || width_bytes < self.least_bytes {
            self.least_bytes = width_bytes;
        }
        let counts = &mut self.counts;
        let location = self.by_offset.entry(offset).or_insert_with(|| {
            counts[page] += 1;
            Location::new(width_bytes, now)
        });
        // Another process, or the host by its own address, may have written.
        if location.newest() != now {
            *location = Location::new(width_bytes, now);
        }
        location
    }

    /// What a load of an element gives, and whether that is the newest; `now` is what memory holds.
    pub(super) fn load(&mut self, offset: u64, now: Value, access: &mut Access<'_>) -> (Value, bool) {
        if self.has_none(offset) {
            return (now, true);
        }
        match self.by_offset.get_mut(&offset) {
            Some(found) if found.width_bytes == access.width_bytes() && found.newest() == now => {
                found.load(access)
            }
            _ => (now, true),
        }
    }

    /// A store of an element; gives whether memory shall hold it.
    pub(super) fn store(
        &mut self,
        offset: u64,
        (now, value): (Value, Value),
        release: Option<Release>,
        access: &mut Access<'_>,
    ) -> bool {
        let message = access.message(value, false, release);
        self.location(offset, access.width_bytes(), now).store(access, message)
    }

    /// An atomic, which reads and replaces the newest write and hands on what that released.
    pub(super) fn atomic(
        &mut self,
        offset: u64,
        (old, new): (Value, Value),
        release: Option<Release>,
        access: &mut Access<'_>,
    ) {
        let mut message = access.message(new, true, release);
        let location = self.location(offset, access.width_bytes(), old);
        let before = location.messages.back_mut().expect("a location has a message");
        if before.writer.is_some_and(|writer| access.is_strong_with(writer)) {
            Release::hand_on(&mut message.releases, &before.releases);
        }
        let place = location.messages.len();
        location.put(place, message);
    }

    /// The part of an atomic that reads: acquires from the newest write.
    pub(super) fn observe_newest(&mut self, offset: u64, old: Value, access: &mut Access<'_>) {
        let location = self.location(offset, access.width_bytes(), old);
        access.observe(location.messages.back_mut().expect("a location has a message"));
    }
}
