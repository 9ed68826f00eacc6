//! Memory that the caller allocates and maps, as an app with its own allocator does.

use anyhow::Result;
use std::sync::Arc;
use symmem::Device;
use symmem::backend::Access;
use symmem::vmm::{Mapping, PhysicalAllocation, Reservation};

/// A physical allocation of one device at an address of its own.
#[derive(Debug)]
pub(crate) struct UserMemory {
    device: Device,
    mapping: Mapping,
}

impl UserMemory {
    /// Allocates and maps at least `len_bytes`.
    pub(crate) fn new(device: &Device, len_bytes: u64) -> Result<Self> {
        Self::of(device, &Arc::new(PhysicalAllocation::new(device, len_bytes)?))
    }

    /// Maps an allocation of `device`.
    pub(crate) fn of(device: &Device, physical: &Arc<PhysicalAllocation>) -> Result<Self> {
        let granularity_bytes = device.granularity_bytes()?;
        let reservation =
            Arc::new(Reservation::new(device.machine(), physical.len_bytes(), granularity_bytes)?);
        let mapping = Mapping::new(&reservation, 0, physical)?;
        mapping.set_access(device.index(), Access::ReadWrite)?;
        Ok(Self { device: device.clone(), mapping })
    }

    /// One for each device.
    pub(crate) fn on_each(devices: &[Device], len_bytes: u64) -> Result<Vec<Self>> {
        devices.iter().map(|device| Self::new(device, len_bytes)).collect()
    }

    /// Its first address.
    pub(crate) fn address(&self) -> u64 {
        self.mapping.address()
    }

    /// Its length in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.mapping.physical().len_bytes()
    }

    /// The memory behind it.
    pub(crate) fn physical(&self) -> &Arc<PhysicalAllocation> {
        self.mapping.physical()
    }

    /// Copies bytes to it.
    pub(crate) fn write(&self, offset_bytes: u64, source: &[u8]) -> Result<()> {
        let backend = self.device.machine().backend();
        Ok(backend.write(self.device.index(), self.address() + offset_bytes, source)?)
    }

    /// Copies bytes from it.
    pub(crate) fn read(&self, offset_bytes: u64, len_bytes: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len_bytes];
        let backend = self.device.machine().backend();
        backend.read(self.device.index(), self.address() + offset_bytes, &mut bytes)?;
        Ok(bytes)
    }
}
