//! Memory that the caller allocates and maps, as an app with its own allocator does.

use crate::seam::seam;
use anyhow::Result;
use std::sync::Arc;
use symmem::Device;
use symmem::backend::Access;
use symmem::vmm::{Mapping, PhysicalAllocation, Reservation};

/// Physical allocations of one device at addresses of their own, each behind the other.
#[derive(Debug)]
pub(crate) struct UserMemory {
    device: Device,
    mappings: Vec<Mapping>,
}

impl UserMemory {
    /// Allocates and maps at least `len_bytes`.
    pub(crate) fn new(device: &Device, len_bytes: u64) -> Result<Self> {
        Self::of(device, &Arc::new(PhysicalAllocation::new(device, len_bytes)?))
    }

    /// Maps an allocation of `device`.
    pub(crate) fn of(device: &Device, physical: &Arc<PhysicalAllocation>) -> Result<Self> {
        Self::of_all(device, std::slice::from_ref(physical))
    }

    /// One allocation of each of these lengths, mapped back to back in one reservation.
    pub(crate) fn in_segments(device: &Device, lens: &[u64]) -> Result<Self> {
        let new = |len: &u64| Ok(Arc::new(PhysicalAllocation::new(device, *len)?));
        Self::of_all(device, &lens.iter().map(new).collect::<Result<Vec<_>>>()?)
    }

    fn of_all(device: &Device, physical: &[Arc<PhysicalAllocation>]) -> Result<Self> {
        let len_bytes = physical.iter().map(|one| one.len_bytes()).sum();
        let reservation =
            Arc::new(Reservation::new(device.machine(), len_bytes, device.granularity_bytes()?)?);
        let mut memory = Self { device: device.clone(), mappings: Vec::new() };
        for one in physical {
            let mapping = Mapping::new(&reservation, memory.len_bytes(), one)?;
            mapping.set_access(device.index(), Access::ReadWrite)?;
            memory.mappings.push(mapping);
        }
        Ok(memory)
    }

    /// One for each device.
    pub(crate) fn on_each(devices: &[Device], len_bytes: u64) -> Result<Vec<Self>> {
        devices.iter().map(|device| Self::new(device, len_bytes)).collect()
    }

    /// Its first address.
    pub(crate) fn address(&self) -> u64 {
        self.mappings[0].address()
    }

    /// Its length in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.physical().len_bytes()).sum()
    }

    /// The memory behind its first allocation.
    pub(crate) fn physical(&self) -> &Arc<PhysicalAllocation> {
        self.mappings[0].physical()
    }

    /// Its first mapping, as something to register.
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mappings[0]
    }

    /// Copies bytes to it.
    pub(crate) fn write(&self, offset_bytes: u64, source: &[u8]) -> Result<()> {
        let backend = seam(self.device.machine());
        Ok(backend.write(self.device.index(), self.address() + offset_bytes, source)?)
    }

    /// Copies bytes from it.
    pub(crate) fn read(&self, offset_bytes: u64, len_bytes: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len_bytes];
        let backend = seam(self.device.machine());
        backend.read(self.device.index(), self.address() + offset_bytes, &mut bytes)?;
        Ok(bytes)
    }
}
