//! Writes down what threads do.

use super::probe::{ALL_WRITTEN, Actor, Begun, HostAccess, Meeting, Place, Probe, Who, Written};
use crate::sim::config::SimConfig;
use crate::sim::driver::module::Launch;
use crate::sim::driver::task::Order;
use crate::sim::interface::{Fault, Fence, Lanes, MemoryAccess};
use crate::sim::memory::address_map::HOST;
use crate::sim::trace::{Trace, TraceEvent, TraceKind, TracedAccess, TracedLaunch};
use std::sync::Arc;

/// Events that are kept.
const EVENTS_MAX: usize = 1 << 20;

/// What a thread did, as it is kept while the machine runs.
#[derive(Clone, Copy, Debug)]
enum Did {
    Begin,
    End,
    Load,
    Store,
    Atomic,
    Fence,
    Barrier,
}

/// An event, with the instruction by its number.
#[derive(Clone, Copy, Debug)]
struct Noted {
    who: Who,
    did: Did,
    address: u64,
    len_bytes: u32,
    owner: Option<u32>,
    n_repeats: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct TraceProbe {
    launches: Vec<Arc<Launch>>,
    events: Vec<Noted>,
    is_cut: bool,
}

/// A thread, and its last load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traced {
    who: Who,
    last: Option<(usize, u64)>,
}

impl TraceProbe {
    fn note(&mut self, event: Noted) -> Option<usize> {
        if self.events.len() == EVENTS_MAX {
            self.is_cut = true;
            return None;
        }
        self.events.push(event);
        Some(self.events.len() - 1)
    }

    fn note_plain(&mut self, who: Who, did: Did) {
        self.note(Noted { who, did, address: 0, len_bytes: 0, owner: None, n_repeats: 0 });
    }

    fn note_access(&mut self, who: Who, did: Did, access: MemoryAccess, place: Place) -> Option<usize> {
        let is_of_device = place.physical != Place::SHARED && place.owner != HOST;
        let len_bytes = u32::from(access.width_bytes) * u32::from(access.lanes);
        let owner = is_of_device.then_some(place.owner);
        self.note(Noted { who, did, address: place.address, len_bytes, owner, n_repeats: 0 })
    }

    /// Another poll of what the thread saw last, if it is that.
    fn is_repeat(&mut self, state: &Traced, pc: u32, address: u64, value: u64) -> bool {
        let Some((last, seen)) = state.last else { return false };
        let event = &mut self.events[last];
        let is_repeat = event.who.pc == pc && event.address == address && seen == value;
        event.n_repeats += u32::from(is_repeat);
        is_repeat
    }

    fn event(&self, noted: &Noted) -> TraceEvent {
        let kernel = &self.launches[noted.who.launch as usize].function.kernel;
        let location = kernel.location(noted.who.pc);
        let code = location.ptx_text.trim_end_matches(';');
        let code =
            code.strip_prefix('@').and_then(|guarded| guarded.split_once(' ')).map_or(code, |(_, c)| c);
        let instruction = code.split_whitespace().next().unwrap_or_default();
        let access = || TracedAccess {
            owner: noted.owner,
            address: noted.address,
            len_bytes: noted.len_bytes,
            instruction: instruction.into(),
            n_repeats: noted.n_repeats,
        };
        let (kind, has_line) = match noted.did {
            Did::Begin => (TraceKind::Begin, false),
            Did::End => (TraceKind::End, false),
            Did::Load => (TraceKind::Load(access()), true),
            Did::Store => (TraceKind::Store(access()), true),
            Did::Atomic => (TraceKind::Atomic(access()), true),
            Did::Fence => (TraceKind::Fence(instruction.into()), true),
            Did::Barrier => (TraceKind::Barrier, false),
        };
        let Who { launch, block, thread, .. } = noted.who;
        TraceEvent { launch, block, thread, ptx_line: if has_line { location.ptx_line } else { 0 }, kind }
    }
}

fn of_launch(begun: &Begun) -> Who {
    Who { launch: begun.number, device: begun.launch.function.device, block: 0, thread: 0, pc: 0 }
}

impl Probe for TraceProbe {
    type Thread = Traced;
    type Joined = ();

    fn new(_: &SimConfig) -> Self {
        Self { launches: Vec::new(), events: Vec::new(), is_cut: false }
    }

    fn order(&mut self, _: Order) {}

    fn begin(&mut self, begun: &Begun) {
        self.launches.push(begun.launch.clone());
        self.note_plain(of_launch(begun), Did::Begin);
    }

    fn begin_block(&mut self, who: Who, _: u32) -> Traced {
        Traced { who, last: None }
    }

    fn begin_thread(&mut self, first: &Traced, thread: u32) -> Traced {
        Traced { who: Who { thread, ..first.who }, last: None }
    }

    fn end_block(&mut self, _: &Traced) {}

    fn end(&mut self, begun: &Begun, (): ()) {
        self.note_plain(of_launch(begun), Did::End);
    }

    fn load(
        &mut self,
        actor: Actor<'_, Traced>,
        access: MemoryAccess,
        place: Place,
        values: &mut Lanes,
    ) -> Result<(), Fault> {
        let value =
            values[0] ^ values[1].rotate_left(17) ^ values[2].rotate_left(31) ^ values[3].rotate_left(47);
        if !self.is_repeat(actor.state, actor.who.pc, place.address, value) {
            let event = self.note_access(actor.who, Did::Load, access, place);
            actor.state.last = event.map(|event| (event, value));
        }
        Ok(())
    }

    fn store(
        &mut self,
        actor: Actor<'_, Traced>,
        access: MemoryAccess,
        place: Place,
        _: (&Lanes, &Lanes),
    ) -> Result<Written, Fault> {
        self.note_access(actor.who, Did::Store, access, place);
        Ok(ALL_WRITTEN)
    }

    fn atomic(
        &mut self,
        actor: Actor<'_, Traced>,
        access: MemoryAccess,
        place: Place,
        _: (u64, u64),
    ) -> Result<(), Fault> {
        self.note_access(actor.who, Did::Atomic, access, place);
        Ok(())
    }

    fn fence(&mut self, actor: Actor<'_, Traced>, _: Fence) {
        self.note_plain(actor.who, Did::Fence);
    }

    fn gather(&mut self, _: Meeting, (): &mut (), _: &Traced) {}

    fn close(&mut self, _: Meeting, (): &mut (), _: &Traced) {}

    fn learn(&mut self, how: Meeting, thread: &mut Traced, (): &()) {
        if how == Meeting::Block {
            self.note_plain(thread.who, Did::Barrier);
        }
    }

    fn host_access(&mut self, _: HostAccess) -> Result<(), String> {
        Ok(())
    }

    fn forget(&mut self, _: u32) {}

    fn clear(&mut self) {}

    fn hops(&self) -> u64 {
        0
    }

    fn trace(&self) -> Trace {
        let launch = |launch: &Arc<Launch>| TracedLaunch {
            kernel: launch.function.kernel.name.clone(),
            device: launch.function.device,
            blocks: launch.shape.blocks,
            threads: launch.shape.threads,
        };
        Trace {
            launches: self.launches.iter().map(launch).collect(),
            events: self.events.iter().map(|noted| self.event(noted)).collect(),
            is_cut: self.is_cut,
        }
    }
}
