//! How memory becomes a window: a two-phase agreement of all ranks, run by each communicator's worker.
//!
//! 1. All ranks meet for the same request ([`meet`]), and what every rank has dropped is unmapped (an offset is free when
//!    _all_ ranks have unmapped).
//! 2. Each rank checks and prepares its own memory and tells all ranks what it has; all go on, or all return the same
//!    error.
//! 3. Rank 0 decides the offset and tells it to all. An earlier mapping is shared if every rank has this memory at the
//!    same offset already.
//! 4. Each rank maps; all commit, or all undo and return the same error.
//! 5. Each rank binds what it mapped to the multicast object, if there is one; all do, or none does, which is no error.
//!
//! Deregistration is step 1 by itself.

use crate::comm::Operations;
use crate::comm::bootstrap::{Bootstrap, agree, equal, exchange, gather};
use crate::machine::Device;
use crate::symmetric::turn::{Kind, Turn, meet};
use crate::symmetric::{
    AllocOffset, Backing, FlatOffset, Memory, Multicast, OffsetAllocator, SymmetricSpace, WindowInner,
    warn_unicast, with_peers,
};
use crate::{Error, ErrorKind, Result};
use bytemuck::{Pod, Zeroable};
use std::sync::Arc;

/// No offset: there is no room.
const NO_OFFSET: u64 = u64::MAX;

/// What is to be registered.
#[derive(Debug)]
pub(crate) enum Request {
    /// New memory of this many bytes.
    Allocate { len_bytes: u64 },
    /// Memory that the caller has mapped.
    Existing { address: u64, len_bytes: u64 },
}

/// What a rank tells the others of its part. The lengths of its physical allocations follow, and then the offsets at which
/// they are in the space already.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Offer {
    /// Length of the window in bytes.
    len_bytes: u64,
    /// Where it starts in its first allocation, in bytes.
    start_bytes: u64,
    /// Physical allocations that it lies in.
    n_segments: u64,
}

/// An offer with what follows it.
struct Offered {
    offer: Offer,
    segment_lens: Vec<u64>,
    places: Vec<u64>,
}

impl Offered {
    fn to_bytes(&self) -> Vec<u8> {
        let head = bytemuck::bytes_of(&self.offer);
        [head, bytemuck::cast_slice(&self.segment_lens), bytemuck::cast_slice(&self.places)].concat()
    }

    /// `None` if these are the bytes of no offer.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, tail) = bytes.split_at_checked(size_of::<Offer>())?;
        let offer: Offer = bytemuck::pod_read_unaligned(head);
        let mut segment_lens: Vec<u64> = bytemuck::pod_collect_to_vec(tail);
        let places = (offer.n_segments <= segment_lens.len() as u64)
            .then(|| segment_lens.split_off(offer.n_segments as usize))?;
        Some(Self { offer, segment_lens, places })
    }

    /// May differ between ranks.
    fn mapped_bytes(&self) -> u64 {
        self.segment_lens.iter().sum()
    }
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
    pub(crate) multicast: Multicast,
    pub(crate) turn: Turn,
}

impl Registrar {
    /// Registers memory together with all ranks.
    pub(crate) fn register(
        &mut self,
        request: &Request,
        operations: &Operations<'_>,
    ) -> Result<Arc<WindowInner>> {
        let number = self.turn.registrations();
        self.meet(Kind::Register, None, operations)?;
        self.reclaim(operations)?;
        let memory = agree(&*self.bootstrap, "register: local checks", self.prepare(request))?;
        let offer = self.offer(&memory).to_bytes();
        let offers = gather(&*self.bootstrap, "register: offers", offer)?;
        let offers: Option<Vec<_>> = offers.iter().map(|bytes| Offered::from_bytes(bytes)).collect();
        let offers = offers.ok_or_else(|| ErrorKind::Foreign {
            what: "an offer of a peer".into(),
            detail: "this version of symmem cannot read it".into(),
        })?;
        check(&offers)?;
        let (backing, first) = match present_on_all(&offers) {
            Some(flat) => self.backing_at(flat),
            None => (self.map(&memory, &offers)?, AllocOffset::new(0)),
        };
        Ok(Arc::new(WindowInner {
            comm_id: self.comm_id,
            rank: self.bootstrap.rank(),
            number,
            device: self.device.clone(),
            space: self.space.clone(),
            backing,
            start: AllocOffset::new(first.bytes + memory.start_bytes),
            len_bytes: memory.len_bytes,
            user_address: memory.user_address,
        }))
    }

    /// Drops a window together with all ranks; says whether its memory was unmapped.
    pub(crate) fn deregister(
        &mut self,
        window: Arc<WindowInner>,
        operations: &Operations<'_>,
    ) -> Result<bool> {
        let (flat, number) = (window.backing.flat(), window.number);
        drop(window);
        self.meet(Kind::Deregister { number: Some(number) }, None, operations)?;
        self.reclaim(operations)?;
        Ok(self.backings.iter().all(|backing| backing.flat() != flat))
    }

    /// Tells all ranks that this one cannot ask for what it was asked for.
    pub(crate) fn refuse(&mut self, kind: Kind, why: Error, operations: &Operations<'_>) -> Result<()> {
        self.meet(kind, Some(why), operations)
    }

    /// All ranks meet for a request.
    pub(crate) fn meet(
        &mut self,
        kind: Kind,
        refusal: Option<Error>,
        operations: &Operations<'_>,
    ) -> Result<()> {
        let patience = operations.shared.host_timeout;
        meet(&*self.bootstrap, &mut self.turn, kind, refusal, patience)
    }

    /// Unmaps what every rank has dropped.
    fn reclaim(&mut self, operations: &Operations<'_>) -> Result<()> {
        self.device.machine().drain();
        // A stream that does not answer is no reason to leave the others waiting: nothing is unmapped this time.
        let can_wait = operations.can_be_waited_for().unwrap_or_else(|error| {
            self.device.machine().defer(Err(error));
            false
        });
        let dropped = if can_wait { self.dropped() } else { Vec::new() };
        let message = bytemuck::cast_slice(&dropped).to_vec();
        let of_all = gather(&*self.bootstrap, "reclaim: dropped windows", message)?;
        let of_all: Vec<Vec<u64>> = of_all.iter().map(|m| bytemuck::pod_collect_to_vec(m)).collect();
        let by_all: Vec<u64> =
            of_all[0].iter().copied().filter(|flat| of_all.iter().all(|its| its.contains(flat))).collect();
        if by_all.is_empty() {
            return Ok(());
        }
        agree(&*self.bootstrap, "reclaim: operations done", operations.wait())?;
        self.backings.retain(|backing| !by_all.contains(&backing.flat().bytes));
        let unmapped = agree(&*self.bootstrap, "reclaim: unmapped", self.device.machine().take_deferred());
        if self.bootstrap.rank() == 0 {
            by_all.iter().for_each(|&flat| self.offsets.free(flat));
        }
        unmapped?;
        tracing::debug!(
            rank = self.bootstrap.rank(),
            n = by_all.len(),
            "reclaimed what all ranks have dropped"
        );
        Ok(())
    }

    /// Offsets of mappings that no window uses any more.
    fn dropped(&self) -> Vec<u64> {
        let unused = self.backings.iter().filter(|backing| Arc::strong_count(backing) == 1);
        unused.map(|backing| backing.flat().bytes).collect()
    }

    fn prepare(&self, request: &Request) -> Result<Memory> {
        match *request {
            Request::Allocate { len_bytes } => {
                Memory::allocate(&self.device, len_bytes, self.offsets.align_bytes())
            }
            Request::Existing { address, len_bytes } => Memory::of_caller(&self.device, address, len_bytes),
        }
    }

    fn offer(&self, memory: &Memory) -> Offered {
        let place = |backing: &Arc<Backing>| {
            backing.place_of(&memory.segments).map(|place| place.in_space(backing.flat()).bytes)
        };
        let offer = Offer {
            len_bytes: memory.len_bytes,
            start_bytes: memory.start_bytes,
            n_segments: memory.segments.len() as u64,
        };
        let segment_lens = memory.segments.iter().map(|segment| segment.len_bytes()).collect();
        Offered { offer, segment_lens, places: self.backings.iter().filter_map(place).collect() }
    }

    /// The mapping that covers an offset, and where in it that is.
    fn backing_at(&self, flat: u64) -> (Arc<Backing>, AllocOffset) {
        let covers = |backing: &&Arc<Backing>| {
            flat.checked_sub(backing.flat().bytes).is_some_and(|offset| offset < backing.len_bytes())
        };
        let backing = self.backings.iter().find(covers).expect("its offset was taken from this list");
        (backing.clone(), AllocOffset::new(flat - backing.flat().bytes))
    }

    /// Maps the memory where rank 0 says.
    fn map(&mut self, memory: &Memory, offers: &[Offered]) -> Result<Arc<Backing>> {
        let len = offers.iter().map(Offered::mapped_bytes).max().unwrap_or(0);
        let mine = match self.bootstrap.rank() {
            0 => self.offsets.allocate(len).unwrap_or(NO_OFFSET),
            _ => NO_OFFSET,
        };
        let flat = exchange(&*self.bootstrap, "register: offset", &mine)?[0];
        if flat == NO_OFFSET {
            return Err(self.no_room(len));
        }
        let rank = self.bootstrap.rank();
        let flat_offset = FlatOffset::new(flat);
        let mapped = Backing::map_all(&self.space, rank, flat_offset, &memory.segments, &self.devices);
        let (bootstrap, step) = (&*self.bootstrap, "register: mapped");
        let backing = with_peers(bootstrap, step, &self.space, &self.devices, mapped);
        let backing = backing.and_then(|backing| self.bind(backing, offers));
        match backing {
            Ok(backing) => {
                let backing = Arc::new(backing);
                self.backings.push(backing.clone());
                Ok(backing)
            }
            Err(error) => {
                // What this rank mapped is unmapped by now; the offset is free when all have come so far.
                gather(&*self.bootstrap, "register: undone", vec![])?;
                if rank == 0 {
                    self.offsets.free(flat);
                }
                Err(error)
            }
        }
    }

    /// Puts what all ranks have behind multicast addresses too, where they can.
    fn bind(&self, mut backing: Backing, offers: &[Offered]) -> Result<Backing> {
        let len_bytes = offers.iter().map(Offered::mapped_bytes).min().unwrap_or(0);
        if let Err(error) = self.multicast.bind(&*self.bootstrap, &self.device, &mut backing, len_bytes)? {
            warn_unicast(&*self.bootstrap, &error, &format!("the window at offset {}", backing.flat()));
        }
        Ok(backing)
    }

    fn no_room(&self, len: u64) -> crate::Error {
        let used = self.offsets.used_bytes();
        let what = format!(
            "an allocation of {len} bytes in a symmetric space of {} bytes a rank{} (SYMMEM_WIN_STRIDE makes it larger)",
            self.space.stride_bytes(),
            if used > 0 { format!(", {used} in use,") } else { String::new() },
        );
        ErrorKind::SizeOverflow { what }.into()
    }
}

/// The lowest offset at which every rank has its memory already.
fn present_on_all(offers: &[Offered]) -> Option<u64> {
    let by_all = |flat: &u64| offers.iter().all(|its| its.places.contains(flat));
    offers[0].places.iter().copied().filter(by_all).min()
}

fn check(offers: &[Offered]) -> Result<()> {
    let all = |value: fn(&Offer) -> u64| offers.iter().map(|its| value(&its.offer)).collect::<Vec<_>>();
    equal("the size of the window in bytes", &all(|offer| offer.len_bytes))?;
    equal("where the window starts in its allocation, in bytes", &all(|offer| offer.start_bytes))?;
    equal("the number of physical allocations that the window lies in", &all(|offer| offer.n_segments))?;
    // Each allocation must start at the same offset on all ranks; the last one may end anywhere.
    let but_last =
        |its: &Offered| format!("{:?}", its.segment_lens.split_last().map_or(&[][..], |(_, rest)| rest));
    equal(
        "the lengths in bytes of all but the last physical allocation of the window",
        &offers.iter().map(but_last).collect::<Vec<_>>(),
    )?;
    Ok(())
}
