//! How memory becomes a window: a two-phase agreement of all ranks, run by each communicator's worker.
//!
//! 1. What every rank has dropped is unmapped (an offset is free when _all_ ranks have unmapped).
//! 2. Each rank checks and prepares its own memory and tells all ranks what it has; all go on, or all return the same
//!    error.
//! 3. Rank 0 decides the offset and tells it to all. An earlier mapping is shared if every rank has this allocation at
//!    the same offset already.
//! 4. Each rank maps; all commit, or all undo and return the same error.

use crate::comm::bootstrap::{Bootstrap, agree, equal, exchange};
use crate::machine::Device;
use crate::symmetric::{
    AllocOffset, Backing, FlatOffset, OffsetAllocator, SymmetricSpace, Window, WindowInner, with_peers,
};
use crate::vmm::PhysicalAllocation;
use crate::{ErrorKind, Result};
use bytemuck::{Pod, Zeroable};
use crossbeam::channel::{Receiver, RecvTimeoutError};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// No offset: the allocation is not mapped yet, or there is no room.
const NO_OFFSET: u64 = u64::MAX;
/// A window starts at a multiple of this.
const WINDOW_ALIGN_BYTES: u64 = 16;

/// A registration in progress. Collective: it ends when all ranks have asked for the same.
#[derive(Debug)]
pub struct Registration<T> {
    pub(crate) result: Receiver<Result<Arc<WindowInner>>>,
    /// Longer than what the worker itself waits, so that its error arrives.
    pub(crate) deadline: Duration,
    pub(crate) element: PhantomData<T>,
}

impl<T: Pod> Registration<T> {
    /// Whether [`Self::wait`] will return at once.
    pub fn is_done(&self) -> bool {
        !self.result.is_empty()
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    ///
    /// The same on all ranks: [`ErrorKind::Mismatch`] if they asked for different things, [`ErrorKind::RankFailed`] if
    /// one could not do its part, [`ErrorKind::Deadline`] if one did not come.
    pub fn wait(self) -> Result<Window<T>> {
        let received = self.result.recv_timeout(self.deadline).unwrap_or_else(|error| {
            let (what, timeout_ms) = ("a registration".to_owned(), self.deadline.as_millis() as u64);
            Err(match error {
                RecvTimeoutError::Timeout => ErrorKind::Deadline { what, timeout_ms, missing: vec![] },
                RecvTimeoutError::Disconnected => {
                    ErrorKind::Foreign { what, detail: "its communicator has ended".into() }
                }
            }
            .into())
        });
        received.map(Window::new).map_err(|error| error.context("registering a window"))
    }
}

/// What is to be registered.
#[derive(Debug)]
pub(crate) enum Request {
    /// New memory of this many bytes.
    Allocate { len_bytes: u64 },
    /// Memory that the caller has mapped.
    Existing { address: u64, len_bytes: u64 },
}

/// What a rank tells the others of its part.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Offer {
    /// Registrations of this communicator so far.
    sequence: u64,
    /// Length of the window in bytes.
    len_bytes: u64,
    /// Where it starts in its allocation, in bytes.
    start_bytes: u64,
    /// Length of the allocation in bytes; may differ between ranks.
    alloc_len_bytes: u64,
    /// Where the allocation already is in the space, or [`NO_OFFSET`].
    present_flat: u64,
}

struct Prepared {
    physical: Arc<PhysicalAllocation>,
    offer: Offer,
    user_address: Option<u64>,
}

/// One rank's side of all registrations of a communicator.
pub(crate) struct Registrar {
    pub(crate) comm_id: u64,
    pub(crate) device: Device,
    pub(crate) bootstrap: Arc<dyn Bootstrap>,
    pub(crate) space: Arc<SymmetricSpace>,
    /// Devices of this process: they get access to what is mapped.
    pub(crate) devices: Vec<u32>,
    /// Used on rank 0 only.
    pub(crate) offsets: OffsetAllocator,
    pub(crate) backings: Vec<Arc<Backing>>,
    pub(crate) sequence: u64,
}

impl Registrar {
    /// Registers memory together with all ranks. `quiesce` waits until this rank's operations are done.
    pub(crate) fn register(
        &mut self,
        request: &Request,
        quiesce: impl Fn() -> Result<()>,
    ) -> Result<Arc<WindowInner>> {
        self.reclaim(quiesce)?;
        let prepared = self.prepare(request);
        let prepared = agree(&*self.bootstrap, "register: local checks", prepared)?;
        let offers = exchange(&*self.bootstrap, "register: offers", &prepared.offer)?;
        self.sequence += 1;
        check(&offers)?;
        let backing = match present_on_all(&offers) {
            Some(flat) => self.backing_at(flat)?,
            None => self.map(&prepared.physical, &offers)?,
        };
        Ok(Arc::new(WindowInner {
            comm_id: self.comm_id,
            rank: self.bootstrap.rank(),
            device: self.device.clone(),
            space: self.space.clone(),
            backing,
            start: AllocOffset::new(prepared.offer.start_bytes),
            len_bytes: prepared.offer.len_bytes,
            user_address: prepared.user_address,
        }))
    }

    /// Unmaps what every rank has dropped.
    fn reclaim(&mut self, quiesce: impl Fn() -> Result<()>) -> Result<()> {
        let dropped: Vec<u64> = self.dropped().map(|backing| backing.flat().bytes).collect();
        let message = bytemuck::cast_slice(&dropped).to_vec();
        let of_all = self.bootstrap.all_gather("register: dropped windows", message)?;
        let of_all: Vec<Vec<u64>> = of_all.iter().map(|m| bytemuck::pod_collect_to_vec(m)).collect();
        let by_all: Vec<u64> =
            of_all[0].iter().copied().filter(|flat| of_all.iter().all(|its| its.contains(flat))).collect();
        if by_all.is_empty() {
            return Ok(());
        }
        agree(&*self.bootstrap, "reclaim: operations done", quiesce())?;
        self.backings.retain(|backing| !by_all.contains(&backing.flat().bytes));
        agree(&*self.bootstrap, "reclaim: unmapped", self.device.machine().take_deferred())?;
        if self.bootstrap.rank() == 0 {
            by_all.iter().for_each(|&flat| self.offsets.free(flat));
        }
        Ok(())
    }

    /// Mappings that no window uses any more.
    fn dropped(&self) -> impl Iterator<Item = &Arc<Backing>> {
        self.backings.iter().filter(|backing| Arc::strong_count(backing) == 1)
    }

    fn prepare(&self, request: &Request) -> Result<Prepared> {
        match *request {
            Request::Allocate { len_bytes } => {
                let physical = Arc::new(PhysicalAllocation::new(&self.device, len_bytes)?);
                Ok(self.prepared(physical, 0, len_bytes, None))
            }
            Request::Existing { address, len_bytes } => self.prepare_existing(address, len_bytes),
        }
    }

    fn prepare_existing(&self, address: u64, len_bytes: u64) -> Result<Prepared> {
        let machine = self.device.machine();
        let facts = machine.backend().pointer_facts(address)?;
        if facts.device != self.device.index() {
            let detail = format!("on device {}, the rank's is {}", facts.device, self.device.index());
            return Err(ErrorKind::Foreign { what: format!("memory at {address:#x}"), detail }.into());
        }
        if !address.is_multiple_of(WINDOW_ALIGN_BYTES) {
            let (what, required) = ("address of a window", WINDOW_ALIGN_BYTES);
            return Err(ErrorKind::Misaligned { what, found: address, required }.into());
        }
        let start = address - facts.mapping_base;
        if start.checked_add(len_bytes).is_none_or(|end| end > facts.mapping_len_bytes) {
            let hint = format!(
                "the mapping ends {} bytes behind its start; register each physical allocation by itself",
                facts.mapping_len_bytes - start
            );
            let what = format!("a window of {len_bytes} bytes that crosses the end of its mapping");
            return Err(ErrorKind::Unsupported { what, hint }.into());
        }
        let physical = Arc::new(PhysicalAllocation::retain(machine, address)?);
        Ok(self.prepared(physical, start, len_bytes, Some(address)))
    }

    fn prepared(
        &self,
        physical: Arc<PhysicalAllocation>,
        start_bytes: u64,
        len_bytes: u64,
        user_address: Option<u64>,
    ) -> Prepared {
        let present = self.backings.iter().find(|backing| backing.is_of(&physical));
        let offer = Offer {
            sequence: self.sequence,
            len_bytes,
            start_bytes,
            alloc_len_bytes: physical.len_bytes(),
            present_flat: present.map_or(NO_OFFSET, |backing| backing.flat().bytes),
        };
        Prepared { physical, offer, user_address }
    }

    fn backing_at(&self, flat: u64) -> Result<Arc<Backing>> {
        let backing = self.backings.iter().find(|backing| backing.flat().bytes == flat);
        Ok(backing.expect("its offset was taken from this list").clone())
    }

    /// Maps the allocation where rank 0 says.
    fn map(&mut self, physical: &Arc<PhysicalAllocation>, offers: &[Offer]) -> Result<Arc<Backing>> {
        let len = offers.iter().map(|offer| offer.alloc_len_bytes).max().unwrap_or(0);
        let mine = match self.bootstrap.rank() {
            0 => self.offsets.allocate(len).unwrap_or(NO_OFFSET),
            _ => NO_OFFSET,
        };
        let flat = exchange(&*self.bootstrap, "register: offset", &mine)?[0];
        if flat == NO_OFFSET {
            let used = self.offsets.used_bytes();
            let what = format!(
                "an allocation of {len} bytes in a symmetric space of {} bytes a rank{} (SYMMEM_WIN_STRIDE makes it larger)",
                self.space.stride_bytes(),
                if used > 0 { format!(", {used} in use,") } else { String::new() },
            );
            return Err(ErrorKind::SizeOverflow { what }.into());
        }
        let rank = self.bootstrap.rank();
        let mapped = Backing::map(&self.space, rank, FlatOffset::new(flat), physical, &self.devices);
        let (bootstrap, step) = (&*self.bootstrap, "register: mapped");
        let backing = with_peers(bootstrap, step, &self.space, &self.devices, mapped);
        match backing {
            Ok(backing) => {
                self.backings.push(Arc::new(backing));
                self.backing_at(flat)
            }
            Err(error) => {
                // What this rank mapped is unmapped by now; the offset is free when all have come so far.
                self.bootstrap.all_gather("register: undone", vec![])?;
                if rank == 0 {
                    self.offsets.free(flat);
                }
                Err(error)
            }
        }
    }
}

/// The offset at which every rank has its allocation already, if it is the same.
fn present_on_all(offers: &[Offer]) -> Option<u64> {
    let flat = offers[0].present_flat;
    (flat != NO_OFFSET && offers.iter().all(|offer| offer.present_flat == flat)).then_some(flat)
}

fn check(offers: &[Offer]) -> Result<()> {
    let all = |value: fn(&Offer) -> u64| offers.iter().map(value).collect::<Vec<_>>();
    equal("the number of the registration", &all(|offer| offer.sequence))?;
    equal("the size of the window in bytes", &all(|offer| offer.len_bytes))?;
    equal("where the window starts in its allocation, in bytes", &all(|offer| offer.start_bytes))?;
    Ok(())
}
