//! Physical memory.

use crate::backend::PhysicalHandle;
use crate::machine::{Device, Machine};
use crate::vmm::round_up;
use crate::{ErrorKind, Result};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Memory of a device, without an address (`cuMemCreate`). Released on drop.
#[derive(Debug)]
pub struct PhysicalAllocation {
    machine: Machine,
    handle: PhysicalHandle,
    len_bytes: u64,
}

impl PhysicalAllocation {
    /// Allocates at least `len_bytes` on `device`, rounded up to its granularity.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for 0 bytes; otherwise what the machine answers, e.g. that memory ran out.
    pub fn new(device: &Device, len_bytes: u64) -> Result<Self> {
        Self::rounded(device, len_bytes, device.granularity_bytes()?)
    }

    /// As [`Self::new`], rounded up to `multiple_bytes`, a multiple of the granularity: what is bound to a multicast
    /// object may need a larger one ([`crate::vmm::common_granularity_bytes`]).
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn rounded(device: &Device, len_bytes: u64, multiple_bytes: u64) -> Result<Self> {
        if len_bytes == 0 {
            let (found, allowed) = ("0".into(), "at least 1 byte".into());
            return Err(ErrorKind::InvalidArgument { what: "size of an allocation", found, allowed }.into());
        }
        let len_bytes = round_up(len_bytes, multiple_bytes)?;
        let machine = device.machine().clone();
        let handle = machine.backend().mem_create(device.index(), len_bytes)?;
        Ok(Self { machine, handle, len_bytes })
    }

    /// The allocation behind an address that is mapped somewhere, with the length of that mapping.
    ///
    /// # Errors
    ///
    /// What the machine answers, e.g. that the address does not belong to memory of this kind.
    pub fn retain(machine: &Machine, address: u64) -> Result<Self> {
        let len_bytes = machine.backend().pointer_facts(address)?.mapping_len_bytes;
        let handle = machine.backend().mem_retain(address)?;
        Ok(Self { machine: machine.clone(), handle, len_bytes })
    }

    /// The allocation of `len_bytes` that another process exported.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn import(machine: &Machine, fd: BorrowedFd<'_>, len_bytes: u64) -> Result<Self> {
        let handle = machine.backend().mem_import(fd)?;
        Ok(Self { machine: machine.clone(), handle, len_bytes })
    }

    /// A file descriptor by which another process can import it.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn export(&self) -> Result<OwnedFd> {
        self.machine.backend().mem_export(self.handle)
    }

    /// Whether [`Self::export`] would succeed.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn is_exportable(&self) -> Result<bool> {
        self.machine.backend().mem_is_exportable(self.handle)
    }

    /// Length in bytes: a multiple of the granularity.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The machine's word for it; equal for equal allocations of one process.
    pub fn handle(&self) -> PhysicalHandle {
        self.handle
    }
}

impl Drop for PhysicalAllocation {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().mem_release(self.handle));
    }
}
