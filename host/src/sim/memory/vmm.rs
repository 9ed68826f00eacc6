//! Physical allocations, reservations and mappings: CUDA driver API 6.13, with what it refuses.

use super::address_map::{HOST, Mapping};
use super::multicast::MULTICAST;
use super::physical::{Physical, identity};
use super::{GRANULARITY_BYTES, Memory, reservation::Reservation};
use crate::Result;
use crate::backend::{Access, PhysicalHandle, PointerFacts};
use crate::sim::result::{INVALID_VALUE, OUT_OF_MEMORY, PEER_ACCESS_UNSUPPORTED};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Refuses `call` with `CUDA_ERROR_INVALID_VALUE` unless the rule holds.
pub(super) fn require(holds: bool, call: &'static str, why: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(INVALID_VALUE.of(call, why())) }
}

fn range(address: u64, len_bytes: u64) -> String {
    format!("{len_bytes:#x} bytes at {address:#x}")
}

pub(super) fn require_granular(value: u64, what: &str, call: &'static str) -> Result<()> {
    require(value.is_multiple_of(GRANULARITY_BYTES), call, || {
        format!("{what} {value:#x} is not a multiple of {GRANULARITY_BYTES:#x}")
    })
}

impl Memory {
    /// `cuMemCreate`; `exportable`: with a file descriptor among the requested handle types.
    pub(crate) fn create(&mut self, device: u32, len_bytes: u64, exportable: bool) -> Result<PhysicalHandle> {
        const CALL: &str = "cuMemCreate";
        require(len_bytes > 0, CALL, || "a size of 0".into())?;
        require_granular(len_bytes, "size", CALL)?;
        let physical = self.charge(device, len_bytes, CALL)?;
        self.allocations[physical as usize].as_mut().expect("just made").memory.exportable = exportable;
        Ok(self.name(physical))
    }

    /// Takes memory from a device; gives the allocation's number.
    pub(super) fn charge(&mut self, device: u32, len_bytes: u64, call: &'static str) -> Result<u32> {
        let free = self.free_bytes(device);
        if len_bytes > free {
            let operand = format!("{len_bytes} bytes on device {device}, which has {free} free");
            return Err(OUT_OF_MEMORY.of(call, operand));
        }
        let physical = Physical::create(device, len_bytes)?;
        self.used_bytes[device as usize] += len_bytes;
        Ok(self.keep(physical))
    }

    /// The allocation number behind a handle that is referenced.
    pub(super) fn referenced(&self, handle: PhysicalHandle, call: &'static str) -> Result<u32> {
        match self.handles.get(&handle).filter(|found| found.references > 0) {
            Some(found) => Ok(found.physical),
            None => Err(INVALID_VALUE.of(call, format!("physical handle {} is not alive", handle.0))),
        }
    }

    /// `cuMemRelease`.
    pub(crate) fn release(&mut self, handle: PhysicalHandle) -> Result<()> {
        let physical = self.referenced(handle, "cuMemRelease")?;
        self.check_unbound(physical, "cuMemRelease")?;
        self.handles.get_mut(&handle).expect("just found").references -= 1;
        self.forget_if_unused(handle);
        Ok(())
    }

    /// `cuMemRetainAllocationHandle`.
    pub(crate) fn retain(&mut self, address: u64) -> Result<PhysicalHandle> {
        let refused = || {
            let operand = format!("{address:#x} lies in no mapping of device memory");
            INVALID_VALUE.of("cuMemRetainAllocationHandle", operand)
        };
        let handle = self.map.find(address).and_then(|mapping| mapping.handle).ok_or_else(refused)?;
        self.handles.get_mut(&handle).expect("a mapped handle lives").references += 1;
        Ok(handle)
    }

    /// `cuMemExportToShareableHandle`.
    pub(crate) fn is_exportable(&self, handle: PhysicalHandle) -> Result<bool> {
        Ok(self.allocation(self.referenced(handle, "cuMemGetAllocationPropertiesFromHandle")?).exportable)
    }

    /// `cuMemExportToShareableHandle`.
    pub(crate) fn export(&self, handle: PhysicalHandle) -> Result<OwnedFd> {
        const CALL: &str = "cuMemExportToShareableHandle";
        let memory = self.allocation(self.referenced(handle, CALL)?);
        require(memory.exportable, CALL, || "an allocation without an exportable handle type".into())?;
        memory.export()
    }

    /// `cuMemImportFromShareableHandle`. A descriptor of an allocation of this machine gives a new handle to it.
    pub(crate) fn import(&mut self, fd: BorrowedFd<'_>) -> Result<PhysicalHandle> {
        let refused = |why: String| {
            INVALID_VALUE
                .of("cuMemImportFromShareableHandle", format!("descriptor {}: {why}", fd.as_raw_fd()))
        };
        let identity = identity(fd).map_err(|errno| refused(errno.to_string()))?;
        let known = self
            .allocations
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|found| found.memory.identity == identity));
        let physical = match known {
            Some(physical) => physical as u32,
            None => {
                if let Some(multicast) = self.multicast_import(fd)? {
                    return Ok(multicast);
                }
                let memory = Physical::import(fd)?;
                if memory.device >= self.n_devices {
                    return Err(refused(format!("memory of device {}, which is not here", memory.device)));
                }
                self.keep(memory)
            }
        };
        Ok(self.name(physical))
    }

    /// `cuMemAddressReserve`; 0 as alignment or hint is none.
    pub(crate) fn reserve(&mut self, len_bytes: u64, align_bytes: u64, hint: u64) -> Result<u64> {
        const CALL: &str = "cuMemAddressReserve";
        require(len_bytes > 0, CALL, || "a size of 0".into())?;
        require_granular(len_bytes, "size", CALL)?;
        require(align_bytes == 0 || align_bytes.is_power_of_two(), CALL, || {
            format!("alignment {align_bytes:#x} is not a power of two")
        })?;
        let reservation = Reservation::new(len_bytes, align_bytes.max(GRANULARITY_BYTES), hint)?;
        let start = reservation.start();
        self.reservations.insert(start, reservation);
        Ok(start)
    }

    /// `cuMemAddressFree`.
    pub(crate) fn free_reservation(&mut self, address: u64, len_bytes: u64) -> Result<()> {
        const CALL: &str = "cuMemAddressFree";
        let whole = self.reservations.get(&address).is_some_and(|found| found.len_bytes() == len_bytes);
        require(whole, CALL, || format!("{} are no whole reservation", range(address, len_bytes)))?;
        require(!self.map.overlaps(address, len_bytes), CALL, || {
            format!("something is still mapped in {}", range(address, len_bytes))
        })?;
        self.reservations.remove(&address);
        Ok(())
    }

    /// `cuMemMap`, of a whole allocation or of a multicast object, whose team is complete: its addresses lead to bytes
    /// by `multimem` instructions alone.
    pub(crate) fn map_at(&mut self, address: u64, len_bytes: u64, handle: PhysicalHandle) -> Result<()> {
        const CALL: &str = "cuMemMap";
        let physical = self.referenced(handle, CALL)?;
        require_granular(address, "address", CALL)?;
        require_granular(len_bytes, "size", CALL)?;
        let memory = self.allocation(physical);
        require(memory.len_bytes == len_bytes, CALL, || {
            format!("{len_bytes:#x} bytes of an allocation of {:#x}", memory.len_bytes)
        })?;
        require(!self.map.overlaps(address, len_bytes), CALL, || {
            format!("something is mapped in {} already", range(address, len_bytes))
        })?;
        let reservation = self.reservation(address, len_bytes, CALL)?;
        let owner = memory.device;
        let members = (owner == MULTICAST).then(Arc::default);
        if members.is_none() {
            reservation.map(address, len_bytes, memory.fd())?;
        }
        let rights = vec![Access::None; self.n_devices as usize];
        self.map.insert(Mapping {
            start: address,
            len_bytes,
            physical,
            number: 0,
            handle: Some(handle),
            owner,
            rights,
            members,
        });
        self.look_again_at(physical);
        self.handles.get_mut(&handle).expect("just found").mappings += 1;
        Ok(())
    }

    fn reservation(&self, address: u64, len_bytes: u64, call: &'static str) -> Result<&Reservation> {
        let (_, found) = self.reservations.range(..=address).next_back().unzip();
        found.filter(|found| found.contains(address, len_bytes)).ok_or_else(|| {
            INVALID_VALUE.of(call, format!("{} lie in no reservation", range(address, len_bytes)))
        })
    }

    /// Indices of the device mappings that a range consists of.
    fn whole_mappings(
        &self,
        address: u64,
        len_bytes: u64,
        call: &'static str,
    ) -> Result<std::ops::Range<usize>> {
        self.reservation(address, len_bytes, call)?;
        self.map.exactly(address, len_bytes).ok_or_else(|| {
            INVALID_VALUE
                .of(call, format!("{} are not one or several whole mappings", range(address, len_bytes)))
        })
    }

    /// `cuMemUnmap`, of whole mappings.
    pub(crate) fn unmap(&mut self, address: u64, len_bytes: u64) -> Result<()> {
        const CALL: &str = "cuMemUnmap";
        let indices = self.whole_mappings(address, len_bytes, CALL)?;
        self.reservation(address, len_bytes, CALL)?.unmap(address, len_bytes)?;
        for mapping in self.map.remove(indices) {
            let handle = mapping.handle.expect("a reservation holds device memory only");
            self.handles.get_mut(&handle).expect("a mapped handle lives").mappings -= 1;
            self.forget_if_unused(handle);
        }
        Ok(())
    }

    /// `cuMemSetAccess`, on whole mappings. `can_access` tells whether the device reaches an owner's memory.
    pub(crate) fn set_access(
        &mut self,
        address: u64,
        len_bytes: u64,
        device: u32,
        access: Access,
        can_access: impl Fn(u32) -> bool,
    ) -> Result<()> {
        const CALL: &str = "cuMemSetAccess";
        let indices = self.whole_mappings(address, len_bytes, CALL)?;
        for mapping in self.map.slice(indices.clone()).iter().filter(|mapping| mapping.owner == MULTICAST) {
            require(access == Access::None || self.is_in_team(mapping.physical, device), CALL, || {
                format!("device {device} is not in the team of the multicast object at {:#x}", mapping.start)
            })?;
        }
        let mappings = self.map.slice_mut(indices);
        let reaches = |owner| owner == MULTICAST || can_access(owner);
        if let Some(far) = mappings.iter().find(|mapping| access != Access::None && !reaches(mapping.owner)) {
            let operand = format!("device {device} cannot reach memory of device {}", far.owner);
            return Err(PEER_ACCESS_UNSUPPORTED.of(CALL, operand));
        }
        mappings.iter_mut().for_each(|mapping| mapping.rights[device as usize] = access);
        Ok(())
    }

    /// `cuPointerGetAttribute` for mapping base, mapping size and device ordinal.
    pub(crate) fn pointer_facts(&self, address: u64) -> Result<PointerFacts> {
        match self.map.find(address).filter(|mapping| !matches!(mapping.owner, HOST | MULTICAST)) {
            Some(mapping) => Ok(PointerFacts {
                mapping_base: mapping.start,
                mapping_len_bytes: mapping.len_bytes,
                device: mapping.owner,
            }),
            None => Err(INVALID_VALUE
                .of("cuPointerGetAttribute", format!("{address:#x} is no address of device memory"))),
        }
    }
}
