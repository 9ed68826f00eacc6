//! What can be observed of a run, chosen when the machine is made.
//!
//! The engine is generic over a [`Probe`], so that a run without one pays nothing.

use crate::sim::interface::{Fence, MemoryAccess};
use std::fmt::Debug;

/// The bytes of an access to global memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number of the physical allocation, so that bytes are the same whatever their address.
    pub(crate) physical: u32,
    /// Bytes of that allocation.
    pub(crate) physical_len_bytes: u64,
    /// First byte in it.
    pub(crate) offset: u64,
    /// The memory belongs to another device.
    pub(crate) remote: bool,
}

/// Sees every access to global memory and every meeting of threads.
pub(crate) trait Probe: Debug + Default + Send + 'static {
    /// What is kept for a thread.
    type Thread: Clone + Debug + Send;

    /// A thread of a kernel starts, behind all work that is finished.
    fn start(&mut self) -> Self::Thread;
    /// A thread has loaded.
    fn load(&mut self, thread: &mut Self::Thread, access: MemoryAccess, place: Place);
    /// A thread has stored.
    fn store(&mut self, thread: &mut Self::Thread, access: MemoryAccess, place: Place);
    /// A thread has read, modified and written.
    fn atomic(&mut self, thread: &mut Self::Thread, access: MemoryAccess, place: Place);
    /// A thread has passed a fence.
    fn fence(&mut self, thread: &mut Self::Thread, fence: Fence);
    /// A thread learns what `from` knows, at a barrier or an exchange in its warp.
    fn join(&mut self, into: &mut Self::Thread, from: &Self::Thread);
    /// A kernel is finished; `thread` is the state of all its threads, joined.
    fn exit(&mut self, thread: &Self::Thread);
    /// A physical allocation is gone; its number may be used again.
    fn forget(&mut self, physical: u32);
    /// Longest chain of link crossings so far.
    fn hops(&self) -> u64;
}

/// Observes nothing.
#[derive(Debug, Default)]
pub(crate) struct NoProbe;

impl Probe for NoProbe {
    type Thread = ();

    fn start(&mut self) {}
    #[inline(always)]
    fn load(&mut self, _: &mut (), _: MemoryAccess, _: Place) {}
    #[inline(always)]
    fn store(&mut self, _: &mut (), _: MemoryAccess, _: Place) {}
    #[inline(always)]
    fn atomic(&mut self, _: &mut (), _: MemoryAccess, _: Place) {}
    #[inline(always)]
    fn fence(&mut self, _: &mut (), _: Fence) {}
    fn join(&mut self, _: &mut (), _: &()) {}
    fn exit(&mut self, _: &()) {}
    fn forget(&mut self, _: u32) {}
    fn hops(&self) -> u64 {
        0
    }
}
