//! What a run did, event by event: for pictures, and for tools that ask which thread touched what.

use super::machine::SimMachine;

/// All events of the machine since it was made or restarted with [`super::ProbeKind::Trace`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The kernels, in the order in which they began.
    pub launches: Vec<TracedLaunch>,
    /// What they did, in the order of the schedule.
    pub events: Vec<TraceEvent>,
    /// There were more events than are kept; the rest is not here.
    pub is_cut: bool,
}

/// A kernel that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedLaunch {
    /// Its name.
    pub kernel: String,
    /// The device.
    pub device: u32,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Index of the launch in [`Trace::launches`].
    pub launch: u32,
    /// Number of the block in the grid; 0 where the whole kernel is meant.
    pub block: u32,
    /// Number of the thread in the block; 0 where the whole block is meant.
    pub thread: u32,
    /// Line of the PTX text, from 1; 0 where no instruction is meant.
    pub ptx_line: u32,
    /// What happened.
    pub kind: TraceKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// The kernel began.
    Begin,
    /// The kernel ended: all of its blocks have.
    End,
    /// A thread loaded.
    Load(TracedAccess),
    /// A thread stored.
    Store(TracedAccess),
    /// A thread read, modified and wrote.
    Atomic(TracedAccess),
    /// A thread passed a fence, as the instruction is written.
    Fence(String),
    /// A thread went on behind a barrier of its block.
    Barrier,
}

/// Bytes that were touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedAccess {
    /// The device whose memory it is; `None` for memory of the host and of the block.
    pub owner: Option<u32>,
    /// First byte, as the thread names it.
    pub address: u64,
    /// Bytes.
    pub len_bytes: u32,
    /// The instruction without its operands, e.g. `st.relaxed.sys.global.v2.b64`.
    pub instruction: String,
    /// Times that the thread did the same again and saw the same, before anything else: polls.
    pub n_repeats: u32,
}

impl SimMachine {
    /// What has happened since the machine was made or restarted; empty unless its probe is
    /// [`super::ProbeKind::Trace`].
    pub fn trace(&self) -> Trace {
        self.lock().engine.trace()
    }
}
