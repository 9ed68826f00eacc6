//! Plain device memory.

use crate::Result;
use crate::machine::Device;

/// Memory of a device with an address, for that device alone (`cuMemAlloc`). Freed on drop.
#[derive(Debug)]
pub struct PlainAllocation {
    device: Device,
    address: u64,
    len_bytes: u64,
}

impl PlainAllocation {
    /// Allocates `len_bytes`, at least 1, whose values are undefined.
    ///
    /// # Errors
    ///
    /// What the machine answers, e.g. that memory ran out.
    pub fn new(device: &Device, len_bytes: u64) -> Result<Self> {
        let address = device.machine().backend().mem_alloc(device.index(), len_bytes)?;
        Ok(Self { device: device.clone(), address, len_bytes })
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes, as asked for.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }
}

impl Drop for PlainAllocation {
    fn drop(&mut self) {
        let machine = self.device.machine();
        machine.defer(machine.backend().mem_free(self.device.index(), self.address));
    }
}
