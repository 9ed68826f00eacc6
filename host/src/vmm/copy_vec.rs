//! A growable vector that copies.

use crate::Result;
use crate::machine::Device;
use crate::vmm::device_vec::{DeviceVec, Growth, bytes_of, sealed::Sealed};
use crate::vmm::plain::PlainAllocation;
use bytemuck::Pod;
use std::marker::PhantomData;

/// A growable vector in plain device memory (`cuMemAlloc`): to grow it allocates anew, copies and frees. While it grows
/// it takes the old size and the new one, and the time of the copy; [`crate::vmm::VmmVec`] takes neither.
///
/// ```
/// use symmem::vmm::{CopyVec, DeviceVec, Growth};
///
/// # fn main() -> symmem::Result<()> {
/// let device = symmem::Machine::sim()?.device(0)?;
/// let mut vector = CopyVec::<u32>::new(&device);
/// vector.extend_from_slice(&[1, 2, 3])?;
/// assert_eq!(vector.grow(1 << 20)?, Growth::Moved);
/// assert_eq!(vector.to_vec()?, [1, 2, 3]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CopyVec<T> {
    device: Device,
    memory: Option<PlainAllocation>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> CopyVec<T> {
    /// A vector without elements and without memory.
    pub fn new(device: &Device) -> Self {
        const { assert!(size_of::<T>() > 0, "an element has at least 1 byte") };
        Self { device: device.clone(), memory: None, len: 0, element: PhantomData }
    }
}

impl<T> Sealed for CopyVec<T> {
    fn set_len(&mut self, len: usize) {
        self.len = len;
    }
}

impl<T: Pod> DeviceVec<T> for CopyVec<T> {
    fn device(&self) -> &Device {
        &self.device
    }

    fn address(&self) -> Option<u64> {
        self.memory.as_ref().map(PlainAllocation::address)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.len_bytes() as usize / size_of::<T>())
    }

    fn grow(&mut self, count: usize) -> Result<Growth> {
        if count <= self.capacity() {
            return Ok(Growth::Enough);
        }
        let larger = PlainAllocation::new(&self.device, bytes_of::<T>(count)?)?;
        if let Some(memory) = &self.memory {
            let (from, to) = (memory.address(), larger.address());
            let backend = self.device.machine().backend();
            backend.copy_within_device(self.device.index(), from, to, bytes_of::<T>(self.len)?)?;
        }
        let before = self.memory.replace(larger);
        Ok(if before.is_some() { Growth::Moved } else { Growth::InPlace })
    }
}
