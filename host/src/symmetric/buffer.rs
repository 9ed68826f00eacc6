//! What can be registered as a whole.

use crate::vmm::Mapping;
use bytemuck::Pod;

/// Device memory that is mapped (`cuMemMap`) and holds elements of type `T`, as [`crate::Comm::register_buffer`] takes it.
///
/// The window holds the physical memory: the buffer may go before the window.
pub trait DeviceBuffer<T: Pod> {
    /// Address of the first element.
    fn address(&self) -> u64;
    /// Number of elements.
    fn count(&self) -> usize;
}

/// All of a mapping, in whole elements.
impl<T: Pod> DeviceBuffer<T> for Mapping {
    fn address(&self) -> u64 {
        Mapping::address(self)
    }

    fn count(&self) -> usize {
        self.physical().len_bytes() as usize / size_of::<T>().max(1)
    }
}
