//! Physical memory at an address.

use crate::backend::Access;
use crate::vmm::{PhysicalAllocation, Reservation};
use crate::{ErrorKind, Result};
use std::sync::Arc;

/// A physical allocation at a place in a reservation (`cuMemMap`). Unmapped on drop, before either goes.
#[derive(Debug)]
pub struct Mapping {
    address: u64,
    reservation: Arc<Reservation>,
    physical: Arc<PhysicalAllocation>,
}

impl Mapping {
    /// Maps all of `physical` at `offset_bytes` in `reservation`. No device has access yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SizeOverflow`] if it does not fit, [`ErrorKind::Foreign`] for memory of another machine; otherwise
    /// what the machine answers, e.g. that something is mapped there.
    pub fn new(
        reservation: &Arc<Reservation>,
        offset_bytes: u64,
        physical: &Arc<PhysicalAllocation>,
    ) -> Result<Self> {
        physical.machine().expect("the physical allocation", reservation.machine())?;
        let end = offset_bytes.checked_add(physical.len_bytes());
        if end.is_none_or(|end| end > reservation.len_bytes()) {
            let what = format!(
                "a mapping of {} bytes at offset {offset_bytes:#x} of a reservation of {} bytes",
                physical.len_bytes(),
                reservation.len_bytes()
            );
            return Err(ErrorKind::SizeOverflow { what }.into());
        }
        let address = reservation.base() + offset_bytes;
        reservation.machine().backend().mem_map(address, physical.len_bytes(), physical.handle())?;
        Ok(Self { address, reservation: reservation.clone(), physical: physical.clone() })
    }

    /// Gives `device` this access to all of it; rights are per device and mapping, and another mapping of the same
    /// memory has its own. `cuMemSetAccess` takes them away again with [`Access::None`]; what takes them away for
    /// certain, whatever a driver makes of that flag, is the end of the mapping.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn set_access(&self, device: u32, access: Access) -> Result<()> {
        let backend = self.reservation.machine().backend();
        backend.mem_set_access(self.address, self.physical.len_bytes(), device, access)
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The memory behind it.
    pub fn physical(&self) -> &Arc<PhysicalAllocation> {
        &self.physical
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let machine = self.reservation.machine();
        machine.defer(machine.backend().mem_unmap(self.address, self.physical.len_bytes()));
    }
}
