//! One address for memory of several devices (CUDA driver API, section 6.15 "Multicast Object Management").
//!
//! Ownership spells out the order of release: a [`Binding`] holds the object and the memory, a [`MulticastMapping`] the
//! object and its addresses, so that memory is unbound before it or the object is released. Kernels reach the addresses
//! by `multimem` instructions alone (PTX ISA 9.7.9.14).

use crate::Result;
use crate::backend::{Access, PhysicalHandle};
use crate::machine::{Device, Machine};
use crate::vmm::{PhysicalAllocation, Reservation};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A multicast object (`cuMulticastCreate`). Released on drop.
#[derive(Debug)]
pub struct MulticastObject {
    machine: Machine,
    handle: PhysicalHandle,
    len_bytes: u64,
}

impl MulticastObject {
    /// An object of `len_bytes` for a team of `n_devices`, which is empty so far.
    ///
    /// # Errors
    ///
    /// What the machine answers, e.g. that the switches have no room for one more.
    pub fn new(machine: &Machine, n_devices: u32, len_bytes: u64) -> Result<Self> {
        let handle = machine.backend().multicast_create(n_devices, len_bytes)?;
        Ok(Self { machine: machine.clone(), handle, len_bytes })
    }

    /// The object of `len_bytes` that another process exported.
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

    /// Puts a device in the team, for the life of the object. Nobody should bind or map before all ranks know that the
    /// team is complete: the driver blocks there until it is.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn add_device(&self, device: &Device) -> Result<()> {
        self.machine.backend().multicast_add_device(self.handle, device.index())
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The machine's word for it.
    pub fn handle(&self) -> PhysicalHandle {
        self.handle
    }
}

impl Drop for MulticastObject {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().mem_release(self.handle));
    }
}

/// A multicast object at a place in a reservation (`cuMemMap`). Unmapped on drop, before either goes.
#[derive(Debug)]
pub struct MulticastMapping {
    address: u64,
    reservation: Arc<Reservation>,
    object: Arc<MulticastObject>,
}

impl MulticastMapping {
    /// Maps all of `object` at the start of `reservation`. No device has access yet.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn new(reservation: &Arc<Reservation>, object: &Arc<MulticastObject>) -> Result<Self> {
        let address = reservation.base();
        reservation.machine().backend().mem_map(address, object.len_bytes, object.handle)?;
        Ok(Self { address, reservation: reservation.clone(), object: object.clone() })
    }

    /// Gives a device of the team access.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn set_access(&self, device: u32, access: Access) -> Result<()> {
        let backend = self.reservation.machine().backend();
        backend.mem_set_access(self.address, self.object.len_bytes, device, access)
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The object behind it.
    pub fn object(&self) -> &Arc<MulticastObject> {
        &self.object
    }
}

impl Drop for MulticastMapping {
    fn drop(&mut self) {
        let machine = self.reservation.machine();
        machine.defer(machine.backend().mem_unmap(self.address, self.object.len_bytes));
    }
}

/// Memory of one device behind a range of a multicast object (`cuMulticastBindMem`). Unbound on drop, before either goes.
#[derive(Debug)]
pub struct Binding {
    object: Arc<MulticastObject>,
    /// Held until it is unbound.
    _physical: Arc<PhysicalAllocation>,
    device: u32,
    offset_bytes: u64,
    len_bytes: u64,
}

impl Binding {
    /// Binds the first `len_bytes` of `physical`, memory of `device`, at `offset_bytes` of the object. All are multiples of
    /// [`crate::vmm::common_granularity_bytes`].
    ///
    /// # Errors
    ///
    /// What the machine answers, e.g. 401 where the fabric is in an illegal state, or 802 where it is not ready yet.
    pub fn new(
        object: &Arc<MulticastObject>,
        offset_bytes: u64,
        physical: &Arc<PhysicalAllocation>,
        device: &Device,
        len_bytes: u64,
    ) -> Result<Self> {
        let backend = object.machine.backend();
        backend.multicast_bind(object.handle, offset_bytes, physical.handle(), 0, len_bytes)?;
        let (object, _physical) = (object.clone(), physical.clone());
        Ok(Self { object, _physical, device: device.index(), offset_bytes, len_bytes })
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        let Self { object, device, offset_bytes, len_bytes, .. } = self;
        let machine = &object.machine;
        machine.defer(machine.backend().multicast_unbind(object.handle, *device, *offset_bytes, *len_bytes));
    }
}
