//! Events gathered into strokes: what the threads of a block did with one instruction between two barriers.

use symmem::sim::{Trace, TraceEvent, TraceKind, TracedAccess};

/// What a stroke is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Begin(String),
    End,
    Barrier,
    Fence(String),
    Access(Access),
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Load,
    Store,
    Atomic,
}

/// Accesses of one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) direction: Direction,
    /// The device whose memory it is, if it is a device's.
    pub(crate) owner: Option<u32>,
    pub(crate) instruction: String,
    /// What lies there.
    pub(crate) place: String,
    pub(crate) n_accesses: u32,
    /// Bytes of each.
    pub(crate) len_bytes: u32,
    /// Loads that saw what had been seen before.
    pub(crate) n_polls: u32,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stroke {
    pub(crate) device: u32,
    pub(crate) launch: u32,
    pub(crate) block: u32,
    pub(crate) what: What,
    /// Threads that took part.
    pub(crate) n_threads: u32,
    ptx_line: u32,
    last: usize,
    last_thread: u32,
}

/// The strokes of a trace, in the order in which they were complete. `place` says what lies at an address.
pub(crate) fn strokes(trace: &Trace, place: impl Fn(Option<u32>, u64) -> String) -> Vec<Stroke> {
    let mut all: Vec<Stroke> = Vec::new();
    // Strokes that further events of their block may join.
    let mut open: Vec<usize> = Vec::new();
    for (at, event) in trace.events.iter().enumerate() {
        let what = what(trace, event, &place);
        let is_of_block = |stroke: &Stroke| (stroke.launch, stroke.block) == (event.launch, event.block);
        let is_same = |stroke: &Stroke| {
            is_of_block(stroke) && stroke.ptx_line == event.ptx_line && alike(&stroke.what, &what)
        };
        let found = open.iter().copied().find(|&n| is_same(&all[n]));
        match found {
            Some(n) if what != What::Barrier || all[n].last + 1 == at => all[n].join(event, &what, at),
            _ => {
                if what == What::Barrier {
                    open.retain(|&n| !is_of_block(&all[n]));
                }
                open.push(all.len());
                let device = trace.launches[event.launch as usize].device;
                all.push(Stroke {
                    device,
                    launch: event.launch,
                    block: event.block,
                    what,
                    n_threads: 1,
                    ptx_line: event.ptx_line,
                    last: at,
                    last_thread: event.thread,
                });
            }
        }
    }
    all.sort_by_key(|stroke| stroke.last);
    all
}

fn what(trace: &Trace, event: &TraceEvent, place: &impl Fn(Option<u32>, u64) -> String) -> What {
    let access = |direction, access: &TracedAccess| {
        What::Access(Access {
            direction,
            owner: access.owner,
            instruction: access.instruction.clone(),
            place: place(access.owner, access.address),
            n_accesses: 1,
            len_bytes: access.len_bytes,
            n_polls: access.n_repeats,
        })
    };
    match &event.kind {
        TraceKind::Begin => What::Begin(trace.launches[event.launch as usize].kernel.clone()),
        TraceKind::End => What::End,
        TraceKind::Barrier => What::Barrier,
        TraceKind::Fence(instruction) => What::Fence(instruction.clone()),
        TraceKind::Load(load) => access(Direction::Load, load),
        TraceKind::Store(store) => access(Direction::Store, store),
        TraceKind::Atomic(atomic) => access(Direction::Atomic, atomic),
    }
}

fn alike(a: &What, b: &What) -> bool {
    match (a, b) {
        (What::Access(a), What::Access(b)) => (a.owner, &a.place) == (b.owner, &b.place),
        (What::Barrier, What::Barrier) => true,
        (What::Fence(a), What::Fence(b)) => a == b,
        _ => false,
    }
}

impl Stroke {
    fn join(&mut self, event: &TraceEvent, what: &What, at: usize) {
        if let (What::Access(mine), What::Access(more)) = (&mut self.what, what) {
            // A load after polls of the same word by the same thread is the one that saw the change.
            let is_end_of_polls = mine.n_polls > 0 && more.n_polls == 0 && self.last_thread == event.thread;
            mine.n_accesses += u32::from(!is_end_of_polls);
            mine.n_polls += more.n_polls;
        }
        self.n_threads += u32::from(self.last_thread != event.thread);
        (self.last, self.last_thread) = (at, event.thread);
    }

    /// Whether it crosses the link.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(&self.what, What::Access(access) if access.owner.is_some_and(|owner| owner != self.device))
    }

    /// What it is in words.
    pub(crate) fn words(&self) -> String {
        match &self.what {
            What::Begin(kernel) => format!("begin {kernel}"),
            What::End => "end".into(),
            What::Barrier => format!("block barrier, {} threads", self.n_threads),
            What::Fence(instruction) => instruction.clone(),
            What::Access(access) => access.words(),
        }
    }
}

impl Access {
    fn words(&self) -> String {
        let verb = match self.direction {
            Direction::Load if self.n_polls > 0 => "poll",
            Direction::Load => "load",
            Direction::Store => "store",
            Direction::Atomic => "atomic on",
        };
        let amount = match self.n_accesses {
            1 => format!("{} B", self.len_bytes),
            n => format!("{n} × {} B", self.len_bytes),
        };
        format!("{verb} {}: {amount}, {}", self.place, self.instruction.replace(".global", ""))
    }
}
