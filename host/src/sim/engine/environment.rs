//! What a thread of a block sees of the machine during a burst.

use super::atomic;
use super::poll::PollTable;
use super::probe::{Actor, Place, Probe, Who, Written};
use crate::sim::interface::{
    AtomicOp, Environment, Fault, Fence, Lanes, MemoryAccess, MultimemOp, Space, Special,
};
use crate::sim::memory::access;
use crate::sim::memory::address_map::{AddressMap, HOST, View};
use crate::sim::schedule::Scheduler;
use std::sync::atomic::Ordering;

/// Bit that tells addresses of shared memory apart from global ones in the table of polls.
pub(crate) const SHARED_BIT: u64 = 1 << 63;

/// Where a thread stands, for special registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coordinates {
    pub(super) n_threads: u32,
    pub(super) n_blocks: u32,
    pub(super) multiprocessor: u32,
    pub(super) dynamic_shared_bytes: u32,
    pub(super) clock_ns: u64,
}

/// See the module.
pub(super) struct Surroundings<'b, P: Probe> {
    pub(super) map: &'b AddressMap,
    /// The mapping that this device touched last.
    pub(super) view: &'b mut View,
    /// The thread; its instruction is that of each access.
    pub(super) who: Who,
    pub(super) coordinates: Coordinates,
    pub(super) parameters: &'b [u8],
    pub(super) shared: &'b mut [u8],
    pub(super) polls: &'b mut PollTable,
    pub(super) probe: &'b mut P,
    pub(super) probed: &'b mut P::Thread,
    pub(super) scheduler: &'b mut dyn Scheduler,
    pub(super) link_bytes: &'b mut u64,
}

pub(super) fn access_bytes(access: MemoryAccess) -> u32 {
    u32::from(access.width_bytes) * u32::from(access.lanes)
}

pub(super) fn check_alignment(access: MemoryAccess, address: u64) -> Result<(), Fault> {
    let required = access_bytes(access);
    if address & u64::from(required - 1) == 0 { Ok(()) } else { Err(Fault::Misaligned { address, required }) }
}

/// One word for a value of several.
fn digest(values: &Lanes) -> u64 {
    values[0] ^ values[1].rotate_left(17) ^ values[2].rotate_left(31) ^ values[3].rotate_left(47)
}

impl<P: Probe> Surroundings<'_, P> {
    /// Checks an access to global memory: alignment, mapping, rights. Mappings are whole pages, so an aligned access
    /// that starts in one ends in it.
    #[inline(always)]
    fn check_global(&mut self, access: MemoryAccess, address: u64, write: bool) -> Result<(), Fault> {
        check_alignment(access, address)?;
        if address.wrapping_sub(self.view.start) >= self.view.len_bytes {
            self.look_up(address)?;
        }
        if (write && self.view.writable) || (!write && self.view.readable) {
            Ok(())
        } else {
            Err(self.refusal(address, write))
        }
    }

    #[cold]
    fn refusal(&self, address: u64, write: bool) -> Fault {
        match self.map.find(address) {
            Some(mapping) if mapping.members.is_some() => Fault::Multicast { address, is_multicast: true },
            _ => Fault::Rights { address, write },
        }
    }

    #[inline(never)]
    fn look_up(&mut self, address: u64) -> Result<(), Fault> {
        let mapping = self.map.find(address).ok_or(Fault::Unmapped { address })?;
        *self.view = mapping.view(self.who.device);
        Ok(())
    }

    /// Counts an access to the memory of another device; gives where it goes.
    #[inline(always)]
    fn place(&mut self, access: MemoryAccess, address: u64) -> Place {
        let View { owner, physical, len_bytes, start, mapping, .. } = *self.view;
        let remote = owner != HOST && owner != self.who.device;
        if remote {
            *self.link_bytes += u64::from(access_bytes(access));
        }
        let offset = address - start;
        Place { address, physical, physical_len_bytes: len_bytes, offset, mapping, owner, remote }
    }

    /// Where an access to shared memory goes.
    #[inline(always)]
    fn shared_place(&self, offset: u64) -> Place {
        Place {
            address: offset,
            physical: Place::SHARED,
            physical_len_bytes: self.shared.len() as u64,
            offset,
            mapping: 0,
            owner: self.who.device,
            remote: false,
        }
    }

    /// The probe, and the thread as it sees it.
    #[inline(always)]
    pub(super) fn act(&mut self, pc: u32) -> (&mut P, Actor<'_, P::Thread>) {
        let who = Who { pc, ..self.who };
        (self.probe, Actor { who, state: self.probed, scheduler: self.scheduler })
    }

    fn shared(&mut self, access: MemoryAccess, address: u64) -> Result<&mut [u8], Fault> {
        check_alignment(access, address)?;
        let len = self.shared.len() as u64;
        let end = address.checked_add(access_bytes(access).into()).filter(|&end| end <= len);
        match end {
            Some(end) => Ok(&mut self.shared[address as usize..end as usize]),
            None => Err(Fault::OutOfBounds { address, len_bytes: len }),
        }
    }
}

/// Slots of [`Lanes`] that element `lane` takes.
fn words(access: MemoryAccess, lane: usize) -> (usize, usize) {
    if access.width_bytes == 16 { (lane * 2, 8) } else { (lane, access.width_bytes as usize) }
}

fn load_bytes(access: MemoryAccess, bytes: &[u8]) -> Lanes {
    let mut values = [0; 4];
    let (_, width) = words(access, 0);
    for (word, chunk) in values.iter_mut().zip(bytes.chunks_exact(width)) {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(chunk);
        *word = u64::from_le_bytes(wide);
    }
    values
}

fn store_bytes(access: MemoryAccess, bytes: &mut [u8], values: &Lanes) {
    let (_, width) = words(access, 0);
    for (word, chunk) in values.iter().zip(bytes.chunks_exact_mut(width)) {
        chunk.copy_from_slice(&word.to_le_bytes()[..width]);
    }
}

/// # Safety
///
/// The bytes of the access are mapped for reading, and aligned to its size.
#[inline(always)]
unsafe fn load_global(access: MemoryAccess, address: u64) -> Lanes {
    let mut values = [0; 4];
    for lane in 0..usize::from(access.lanes) {
        let at = address + (lane * usize::from(access.width_bytes)) as u64;
        let (word, _) = words(access, lane);
        // SAFETY: as promised by the caller.
        unsafe {
            if access.width_bytes == 16 {
                values[word..word + 2].copy_from_slice(&access::load_16(at));
            } else {
                values[word] = access::load(at, access.width_bytes);
            }
        }
    }
    values
}

/// # Safety
///
/// The bytes of the access are mapped for writing, and aligned to its size.
#[inline(always)]
unsafe fn store_global(access: MemoryAccess, address: u64, values: &Lanes, written: Written) {
    for lane in 0..usize::from(access.lanes) {
        if written >> lane & 1 == 0 {
            continue;
        }
        let at = address + (lane * usize::from(access.width_bytes)) as u64;
        let (word, _) = words(access, lane);
        // SAFETY: as promised by the caller.
        unsafe {
            if access.width_bytes == 16 {
                access::store_16(at, [values[word], values[word + 1]]);
            } else {
                access::store(at, access.width_bytes, values[word]);
            }
        }
    }
}

impl<P: Probe> Environment for Surroundings<'_, P> {
    #[inline(always)]
    fn load(&mut self, pc: u32, access: MemoryAccess, address: u64) -> Result<Lanes, Fault> {
        let (mut values, place, key) = if access.space == Space::Global {
            self.check_global(access, address, false)?;
            // SAFETY: `check_global` found the range mapped and aligned; the machine's lock keeps it mapped.
            (unsafe { load_global(access, address) }, self.place(access, address), address)
        } else {
            let values = load_bytes(access, self.shared(access, address)?);
            (values, self.shared_place(address), address | SHARED_BIT)
        };
        let (probe, actor) = self.act(pc);
        probe.load(actor, access, place, &mut values)?;
        self.polls.load(pc, key, digest(&values));
        Ok(values)
    }

    #[inline(always)]
    fn store(&mut self, pc: u32, access: MemoryAccess, address: u64, values: &Lanes) -> Result<(), Fault> {
        self.polls.progress();
        if access.space != Space::Global {
            self.shared(access, address)?;
            let place = self.shared_place(address);
            let (probe, actor) = self.act(pc);
            probe.store(actor, access, place, (&[0; 4], values))?;
            store_bytes(access, self.shared(access, address)?, values);
            return Ok(());
        }
        self.check_global(access, address, true)?;
        let place = self.place(access, address);
        // SAFETY: as in `load`.
        let old = if P::ANSWERS { unsafe { load_global(access, address) } } else { [0; 4] };
        let (probe, actor) = self.act(pc);
        let written = probe.store(actor, access, place, (&old, values))?;
        // SAFETY: as in `load`.
        unsafe { store_global(access, address, values, written) };
        Ok(())
    }

    fn atomic(
        &mut self,
        pc: u32,
        access: MemoryAccess,
        op: AtomicOp,
        address: u64,
        operand: u64,
        second: u64,
    ) -> Result<u64, Fault> {
        let update = atomic::update(op, access.width_bytes, operand, second)?;
        let (old, new, place, key) = if access.space == Space::Global {
            self.check_global(access, address, true)?;
            // SAFETY: as in `load`.
            let (old, new) = unsafe { access::modify(address, access.width_bytes, update) };
            (old, new, self.place(access, address), address)
        } else {
            let bytes = self.shared(access, address)?;
            let old = load_bytes(access, bytes)[0];
            store_bytes(access, bytes, &[update(old), 0, 0, 0]);
            (old, load_bytes(access, bytes)[0], self.shared_place(address), address | SHARED_BIT)
        };
        let (probe, actor) = self.act(pc);
        probe.atomic(actor, access, place, (old, new))?;
        // One that changes nothing is a poll, as of a lock that is taken.
        if old == new {
            self.polls.load(pc, key, old);
        } else {
            self.polls.progress();
        }
        Ok(old)
    }

    fn multimem(
        &mut self,
        pc: u32,
        access: MemoryAccess,
        op: MultimemOp,
        address: u64,
        values: &Lanes,
    ) -> Result<Lanes, Fault> {
        self.reach(pc, access, op, address, values)
    }

    fn fence(&mut self, pc: u32, fence: Fence) {
        std::sync::atomic::fence(Ordering::SeqCst);
        let (probe, actor) = self.act(pc);
        probe.fence(actor, fence);
    }

    fn parameters(&self) -> &[u8] {
        self.parameters
    }

    fn special(&mut self, register: Special) -> u64 {
        let at = &self.coordinates;
        let in_x = |dimension: u8, x: u32, elsewhere: u32| if dimension == 0 { x } else { elsewhere };
        match register {
            Special::Tid(dimension) => in_x(dimension, self.who.thread, 0).into(),
            Special::Ntid(dimension) => in_x(dimension, at.n_threads, 1).into(),
            Special::Ctaid(dimension) => in_x(dimension, self.who.block, 0).into(),
            Special::Nctaid(dimension) => in_x(dimension, at.n_blocks, 1).into(),
            Special::Laneid => u64::from(self.who.thread % super::warp::LANES),
            Special::Warpid => u64::from(self.who.thread / super::warp::LANES),
            Special::Smid => at.multiprocessor.into(),
            Special::Clock | Special::Globaltimer => at.clock_ns,
            Special::DynamicSharedBytes => at.dynamic_shared_bytes.into(),
            Special::TotalSharedBytes => self.shared.len() as u64,
        }
    }
}
