//! Registrations of many windows and communicators, asked for together by one thread.

use crate::Result;
use crate::comm::{Comm, Task};
use crate::symmetric::{Awaited, Deregistration, DeviceBuffer, Kind, Preparation, Registration, Window};
use bytemuck::Pod;
use symmem_device::kernels::{Dtype, Op};

/// What a group has been asked for so far. See [`group`].
pub struct Group<'a> {
    tasks: Vec<(&'a Comm, Kind, Task)>,
    awaited: Vec<Box<dyn Awaited + 'a>>,
}

/// Asks for all that `fill` puts into the group, and waits until all of it has ended.
///
/// One thread may so register windows of all its ranks and of any number of communicators, in any order across
/// communicators, without a deadlock: each communicator's worker does its own part. Within one communicator all ranks
/// ask in the same order. Nothing is asked of any rank before `fill` has returned. If it returns an error, nothing is asked
/// of a communicator whose ranks are all in this process, and ranks of others, which may ask for the same, are told that
/// this one will not. A request that the group refuses, while `fill` goes on, counts as asked for, as it does without a
/// group. Each registration in the value that `fill` returns has its
/// own result, and gives it at once.
///
/// ```no_run
/// # fn main() -> symmem::Result<()> {
/// # let comms = symmem::Comm::init_all(&symmem::Machine::open()?.devices(2)?)?;
/// let asked: Vec<_> = symmem::group(|group| {
///     comms.iter().map(|comm| group.alloc::<f32>(comm, 1024)).collect()
/// })?;
/// let windows: Vec<_> = asked.into_iter().map(|window| window.wait()).collect::<symmem::Result<_>>()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// What `fill` returns.
pub fn group<'a, R>(fill: impl FnOnce(&mut Group<'a>) -> Result<R>) -> Result<R> {
    let mut group = Group { tasks: Vec::new(), awaited: Vec::new() };
    let filled = fill(&mut group).inspect_err(|error| {
        for (comm, kind, _) in group.tasks.drain(..).filter(|(comm, ..)| comm.spans_processes()) {
            comm.worker().submit(Task::Refused { kind, why: error.clone() });
        }
    })?;
    let _entered = tracing::debug_span!("group", n = group.tasks.len()).entered();
    for (comm, _, task) in group.tasks {
        comm.worker().submit(task);
    }
    group.awaited.iter().for_each(|one| one.wait_done());
    Ok(filled)
}

impl<'a> Group<'a> {
    /// [`Comm::alloc`], at the end of the group.
    ///
    /// # Errors
    ///
    /// As [`Comm::alloc`].
    pub fn alloc<T: Pod>(&mut self, comm: &'a Comm, count: usize) -> Result<Registration<T>> {
        self.add(comm, Kind::Register, comm.to_alloc(count), Registration::watch)
    }

    /// [`Comm::register`], at the end of the group.
    ///
    /// # Errors
    ///
    /// As [`Comm::register`].
    pub fn register<T: Pod>(
        &mut self,
        comm: &'a Comm,
        address: u64,
        count: usize,
    ) -> Result<Registration<T>> {
        self.add(comm, Kind::Register, comm.to_register(address, count), Registration::watch)
    }

    /// [`Comm::register_buffer`], at the end of the group.
    ///
    /// # Errors
    ///
    /// As [`Comm::register`].
    pub fn register_buffer<T: Pod>(
        &mut self,
        comm: &'a Comm,
        buffer: &impl DeviceBuffer<T>,
    ) -> Result<Registration<T>> {
        self.register(comm, buffer.address(), buffer.count())
    }

    /// [`Comm::deregister`], at the end of the group. If the group is not carried out, the window is just dropped.
    ///
    /// # Errors
    ///
    /// As [`Comm::deregister`].
    pub fn deregister<T: Pod>(&mut self, comm: &'a Comm, window: Window<T>) -> Result<Deregistration> {
        let kind = comm.kind_of_deregistration(&window);
        self.add(comm, kind, comm.to_deregister(window), Deregistration::watch)
    }

    /// [`Comm::prepare`], at the end of the group.
    ///
    /// # Errors
    ///
    /// As [`Comm::prepare`].
    pub fn prepare(&mut self, comm: &'a Comm, dtypes: &[Dtype], ops: &[Op]) -> Result<Preparation> {
        self.add(comm, Kind::Prepare, comm.to_prepare(dtypes, ops), Preparation::watch)
    }

    /// Puts in a request, or that it was refused.
    fn add<A, W: Awaited + 'a>(
        &mut self,
        comm: &'a Comm,
        kind: Kind,
        asked: Result<(Task, A)>,
        watch: impl FnOnce(&A) -> W,
    ) -> Result<A> {
        match asked {
            Ok((task, answer)) => {
                self.tasks.push((comm, kind, task));
                self.awaited.push(Box::new(watch(&answer)));
                Ok(answer)
            }
            Err(error) => {
                self.tasks.push((comm, kind, Task::Refused { kind, why: error.clone() }));
                Err(error)
            }
        }
    }
}
