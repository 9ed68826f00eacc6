//! What is observed of a run, and what may answer its loads, chosen when the machine is made.
//!
//! The engine is generic over a [`Probe`], so that a run without one pays nothing.

use crate::sim::config::SimConfig;
use crate::sim::driver::module::Launch;
use crate::sim::driver::task::{Order, TaskId};
use crate::sim::interface::{Fault, Fence, Lanes, MemoryAccess};
use crate::sim::schedule::Scheduler;
use crate::sim::trace::Trace;
use std::fmt::Debug;
use std::sync::Arc;

/// The thread that does something, and the instruction with which it does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// Number of the launch: launches are counted in the order in which they begin.
    pub(crate) launch: u32,
    /// The device.
    pub(crate) device: u32,
    /// Number of the block in the grid.
    pub(crate) block: u32,
    /// Number of the thread in the block.
    pub(crate) thread: u32,
    /// The instruction.
    pub(crate) pc: u32,
}

/// What a thread does, as a probe sees it.
#[derive(Debug)]
pub(crate) struct Actor<'a, T> {
    /// Who.
    pub(crate) who: Who,
    /// What the probe keeps for the thread.
    pub(crate) state: &'a mut T,
    /// Makes the choices that the memory model leaves open.
    pub(crate) scheduler: &'a mut dyn Scheduler,
}

/// The bytes of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The address.
    pub(crate) address: u64,
    /// Number of the physical allocation, so that bytes are the same whatever their address; [`Place::SHARED`] for
    /// shared memory of the block.
    pub(crate) physical: u32,
    /// Bytes of that allocation.
    pub(crate) physical_len_bytes: u64,
    /// First byte in it.
    pub(crate) offset: u64,
    /// Number of the mapping: two mappings of one allocation are two proxies (PTX ISA 8.6).
    pub(crate) mapping: u32,
    /// The device that owns the memory, or [`HOST`](crate::sim::memory::address_map::HOST).
    pub(crate) owner: u32,
    /// The memory is that of another device.
    pub(crate) remote: bool,
}

impl Place {
    /// Stands for the physical allocation of shared memory.
    pub(crate) const SHARED: u32 = u32::MAX;
}

/// A launch that begins.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// Its number.
    pub(crate) number: u32,
    /// The task that it is.
    pub(crate) task: TaskId,
    /// Kernel, shape and arguments.
    pub(crate) launch: Arc<Launch>,
}

/// How threads meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// At a barrier of their block.
    Block,
    /// At `bar.warp.sync`.
    Warp,
    /// In an exchange of values among the lanes of a warp, which orders no memory accesses (PTX ISA 9.7.9).
    Exchange,
    /// At the end of their kernel.
    Exit,
}

/// A copy or fill that the host makes, or its part in one mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostAccess {
    /// Number of the physical allocation.
    pub(crate) physical: u32,
    /// First byte in it.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len_bytes: u64,
    /// The host writes.
    pub(crate) write: bool,
}

/// Elements of a store that are written to memory, a bit each.
pub(crate) type Written = u8;
/// All elements.
pub(crate) const ALL_WRITTEN: Written = u8::MAX;

/// Sees all work, every access to global and shared memory and every meeting of threads.
pub(crate) trait Probe: Debug + Send + 'static {
    /// What is kept for a thread.
    type Thread: Clone + Debug + Send;
    /// What threads that meet know together; what a finished kernel knows.
    type Joined: Clone + Debug + Default + Send;

    /// Whether it needs to know what a store replaces.
    const ANSWERS: bool = false;

    /// For a machine of that configuration.
    fn new(config: &SimConfig) -> Self;
    /// The host has put in work, or knows that some is done.
    fn order(&mut self, order: Order);
    /// A kernel begins. All that it waited for is done.
    fn begin(&mut self, begun: &Begun);
    /// The threads of a block start; gives what each starts with but for its number. `who` is thread 0 of `n_threads`.
    fn begin_block(&mut self, who: Who, n_threads: u32) -> Self::Thread;
    /// A thread of the block is number `thread`.
    fn begin_thread(&mut self, first: &Self::Thread, thread: u32) -> Self::Thread;
    /// A block is done; its threads have been gathered.
    fn end_block(&mut self, thread: &Self::Thread);
    /// A kernel is done; `joined` has gathered all its threads.
    fn end(&mut self, begun: &Begun, joined: Self::Joined);
    /// A thread loads `values`, which the probe may replace.
    ///
    /// # Errors
    ///
    /// What is wrong with the load.
    fn load(
        &mut self,
        actor: Actor<'_, Self::Thread>,
        access: MemoryAccess,
        place: Place,
        values: &mut Lanes,
    ) -> Result<(), Fault>;
    /// A thread is about to replace old values by new ones; gives the elements that reach memory.
    ///
    /// # Errors
    ///
    /// What is wrong with the store.
    fn store(
        &mut self,
        actor: Actor<'_, Self::Thread>,
        access: MemoryAccess,
        place: Place,
        old_new: (&Lanes, &Lanes),
    ) -> Result<Written, Fault>;
    /// A thread has read an old value, modified it and written the new one.
    ///
    /// # Errors
    ///
    /// What is wrong with the access.
    fn atomic(
        &mut self,
        actor: Actor<'_, Self::Thread>,
        access: MemoryAccess,
        place: Place,
        old_new: (u64, u64),
    ) -> Result<(), Fault>;
    /// A thread passes a fence.
    fn fence(&mut self, actor: Actor<'_, Self::Thread>, fence: Fence);
    /// A thread that meets others, or has exited, adds what it knows.
    fn gather(&mut self, how: Meeting, joined: &mut Self::Joined, thread: &Self::Thread);
    /// All that meet have been gathered; `thread` is one of them.
    fn close(&mut self, how: Meeting, joined: &mut Self::Joined, thread: &Self::Thread);
    /// A thread that met others learns what they know together.
    fn learn(&mut self, how: Meeting, thread: &mut Self::Thread, joined: &Self::Joined);
    /// The host copies or fills.
    ///
    /// # Errors
    ///
    /// What is wrong with the access, in words.
    fn host_access(&mut self, access: HostAccess) -> Result<(), String>;
    /// A physical allocation is gone; its number may be used again.
    fn forget(&mut self, physical: u32);
    /// All kernels are dropped.
    fn clear(&mut self);
    /// Longest chain of link crossings so far.
    fn hops(&self) -> u64;
    /// What has happened so far, if that is what the probe keeps.
    fn trace(&self) -> Trace {
        Trace::default()
    }
}

/// Observes nothing.
#[derive(Debug)]
pub(crate) struct NoProbe;

impl Probe for NoProbe {
    type Thread = ();
    type Joined = ();

    fn new(_: &SimConfig) -> Self {
        Self
    }
    fn order(&mut self, _: Order) {}
    fn begin(&mut self, _: &Begun) {}
    fn begin_block(&mut self, _: Who, _: u32) {}
    fn begin_thread(&mut self, (): &(), _: u32) {}
    fn end_block(&mut self, (): &()) {}
    fn end(&mut self, _: &Begun, (): ()) {}
    #[inline(always)]
    fn load(&mut self, _: Actor<'_, ()>, _: MemoryAccess, _: Place, _: &mut Lanes) -> Result<(), Fault> {
        Ok(())
    }
    #[inline(always)]
    fn store(
        &mut self,
        _: Actor<'_, ()>,
        _: MemoryAccess,
        _: Place,
        _: (&Lanes, &Lanes),
    ) -> Result<Written, Fault> {
        Ok(ALL_WRITTEN)
    }
    #[inline(always)]
    fn atomic(&mut self, _: Actor<'_, ()>, _: MemoryAccess, _: Place, _: (u64, u64)) -> Result<(), Fault> {
        Ok(())
    }
    #[inline(always)]
    fn fence(&mut self, _: Actor<'_, ()>, _: Fence) {}
    fn gather(&mut self, _: Meeting, (): &mut (), (): &()) {}
    fn close(&mut self, _: Meeting, (): &mut (), (): &()) {}
    fn learn(&mut self, _: Meeting, (): &mut (), (): &()) {}
    fn host_access(&mut self, _: HostAccess) -> Result<(), String> {
        Ok(())
    }
    fn forget(&mut self, _: u32) {}
    fn clear(&mut self) {}
    fn hops(&self) -> u64 {
        0
    }
}
