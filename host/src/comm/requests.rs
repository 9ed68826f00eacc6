//! What a communicator is asked for: windows, and their end.

use super::prepare::{self, Pause};
use super::{Comm, Task};
use crate::kernels_ptx::KernelSet;
use crate::symmetric::{
    Deregistration, DeviceBuffer, Kind, Preparation, Promise, Registration, Request, Window,
};
use crate::{ErrorKind, Result};
use bytemuck::Pod;
use symmem_device::kernels::{Dtype, Op};

impl Comm {
    /// Allocates symmetric memory for `count` elements. Collective: every rank asks for the same; none waits in this
    /// call, so that one thread can ask for all ranks and then wait ([`crate::group`] does both).
    ///
    /// A call that is refused counts as asked for: the other ranks, which ask for the same, are told why by
    /// [`Registration::wait`]. Whoever goes on after an error asks on every rank, also on those behind the one that was
    /// refused. A rank that comes later than the deadline, when others gave up, is told so, and they wait on for what it
    /// is asked for next.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a count of 0, [`ErrorKind::SizeOverflow`],
    /// [`ErrorKind::Capture`] while a stream that had an operation of this communicator is being captured, and in
    /// [`crate::Stream::capture`] of any stream. A capture that another library began on a stream that this
    /// communicator never had is not noticed: the registration is then carried out, by a thread of its own, whose calls
    /// a capture in the thread-local mode allows.
    pub fn alloc<T: Pod>(&self, count: usize) -> Result<Registration<T>> {
        self.ask(Kind::Register, self.to_alloc(count))
    }

    /// Registers `count` elements at `address`, a multiple of 16: memory of this rank's device that the caller has mapped
    /// (`cuMemMap`), any part of it, also across physical allocations that are mapped behind each other. Collective: every
    /// rank registers as much, at the same offset of allocations of its own, which are cut at the same places. The caller
    /// keeps its mapping; the memory appears in the symmetric space as well. Windows may overlap; those in one allocation
    /// share its place in the space.
    ///
    /// # Errors
    ///
    /// As [`Self::alloc`]. What is wrong with the memory is told to all ranks, by [`Registration::wait`].
    pub fn register<T: Pod>(&self, address: u64, count: usize) -> Result<Registration<T>> {
        self.ask(Kind::Register, self.to_register(address, count))
    }

    /// Registers all of a buffer. See [`Self::register`].
    ///
    /// # Errors
    ///
    /// As [`Self::register`].
    pub fn register_buffer<T: Pod>(&self, buffer: &impl DeviceBuffer<T>) -> Result<Registration<T>> {
        self.register(buffer.address(), buffer.count())
    }

    /// Drops a window and unmaps its memory, once no rank uses it. Collective: every rank names the same window; the
    /// operations on it are waited for. [`Drop`] does the same later, with the next registration.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Foreign`] for a window of another communicator or rank, [`ErrorKind::Capture`] as in [`Self::alloc`].
    pub fn deregister<T: Pod>(&self, window: Window<T>) -> Result<Deregistration> {
        let kind = self.kind_of_deregistration(&window);
        self.ask(kind, self.to_deregister(window))
    }

    pub(crate) fn kind_of_deregistration<T: Pod>(&self, window: &Window<T>) -> Kind {
        let inner = window.inner();
        Kind::Deregister { number: (inner.comm_id == self.id).then_some(inner.number) }
    }

    /// Queues a request; where it is refused, that is queued in its place, so that no rank waits for this one's part.
    fn ask<A>(&self, kind: Kind, asked: Result<(Task, A)>) -> Result<A> {
        let (task, answer) = match asked {
            Ok((task, answer)) => (task, Ok(answer)),
            Err(error) => (Task::Refused { kind, why: error.clone() }, Err(error)),
        };
        self.worker.submit(task);
        answer
    }

    /// Loads the kernels of all pairs of these types and operations, those that are there already excepted. Collective:
    /// every rank asks for the same, and every rank's kernels are there before any can launch one. Waits for the operations
    /// in flight; until it has ended, the communicator refuses others. Replays of graphs are the caller's to keep away.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a pair that no kernel does, [`ErrorKind::Capture`] as in [`Self::alloc`].
    pub fn prepare(&self, dtypes: &[Dtype], ops: &[Op]) -> Result<Preparation> {
        self.ask(Kind::Prepare, self.to_prepare(dtypes, ops))
    }

    /// [`Self::prepare`] of the loops.
    pub(crate) fn ask_for_loops(&self) -> Result<Preparation> {
        self.ask(Kind::Prepare, self.to_load(vec![KernelSet::LOOPS]))
    }

    fn window_bytes<T>(&self, count: usize) -> Result<u64> {
        if count == 0 || size_of::<T>() == 0 {
            let allowed = "at least 1 element of at least 1 byte".into();
            let what = "size of a window";
            return Err(ErrorKind::InvalidArgument { what, found: "0 bytes".into(), allowed }.into());
        }
        (count as u64).checked_mul(size_of::<T>() as u64).ok_or_else(|| {
            let what = format!("a window of {count} elements of {} bytes", size_of::<T>());
            ErrorKind::SizeOverflow { what }.into()
        })
    }

    /// [`Self::alloc`] that is not queued yet.
    pub(crate) fn to_alloc<T: Pod>(&self, count: usize) -> Result<(Task, Registration<T>)> {
        let len_bytes = self.window_bytes::<T>(count)?;
        self.to_ask(Request::Allocate { len_bytes })
    }

    /// [`Self::register`] that is not queued yet.
    pub(crate) fn to_register<T: Pod>(&self, address: u64, count: usize) -> Result<(Task, Registration<T>)> {
        let len_bytes = self.window_bytes::<T>(count)?;
        self.to_ask(Request::Existing { address, len_bytes })
    }

    fn to_ask<T: Pod>(&self, request: Request) -> Result<(Task, Registration<T>)> {
        self.order().refuse_in_capture("a window cannot be registered")?;
        let (promise, pending) = Promise::new("registering a window", self.patience());
        Ok((Task::Register { request, promise }, Registration::new(pending)))
    }

    /// [`Self::prepare`] that is not queued yet.
    pub(crate) fn to_prepare(&self, dtypes: &[Dtype], ops: &[Op]) -> Result<(Task, Preparation)> {
        self.to_load(prepare::sets_of(dtypes, ops)?)
    }

    fn to_load(&self, sets: Vec<KernelSet>) -> Result<(Task, Preparation)> {
        self.order().refuse_in_capture("kernels cannot be loaded")?;
        let (promise, pending) = Promise::new("preparing kernels", self.patience());
        let pause = Pause::new(&self.shared);
        Ok((Task::Prepare { sets, pause, promise }, Preparation::new(pending)))
    }

    /// [`Self::deregister`] that is not queued yet.
    pub(crate) fn to_deregister<T: Pod>(&self, window: Window<T>) -> Result<(Task, Deregistration)> {
        let window = window.into_inner();
        if (window.comm_id, window.rank) != (self.id, self.rank) {
            let detail = format!("it is one of another communicator or rank than {}", self.rank);
            return Err(ErrorKind::Foreign { what: "the window".into(), detail }.into());
        }
        self.order().refuse_in_capture("a window cannot be deregistered")?;
        let (promise, pending) = Promise::new("deregistering a window", self.patience());
        Ok((Task::Deregister { window, promise }, Deregistration::new(pending)))
    }
}
