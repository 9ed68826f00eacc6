//! What growable vectors in device memory have in common.

use crate::machine::Device;
use crate::{ErrorKind, Result};
use bytemuck::Pod;

pub(super) mod sealed {
    /// What only this crate may do to a vector.
    pub trait Sealed {
        /// Changes the number of elements, within the capacity.
        fn set_len(&mut self, len: usize);
    }
}

/// What became of the addresses of a vector that was asked for more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// There was room enough.
    Enough,
    /// There is more room, and the elements are where they were.
    InPlace,
    /// There is more room, and the elements have other addresses now.
    Moved,
}

/// A growable vector in the memory of one device, driven by the host: [`crate::vmm::VmmVec`] or
/// [`crate::vmm::CopyVec`].
///
/// The device must be done with the elements' old addresses before a call that may move them, and with the elements
/// before the vector goes.
pub trait DeviceVec<T: Pod>: sealed::Sealed {
    /// The device whose memory it is.
    fn device(&self) -> &Device;

    /// Address of the first element; `None` while the vector has no addresses.
    fn address(&self) -> Option<u64>;

    /// Number of elements.
    fn len(&self) -> usize;

    /// Elements that fit in the memory it has.
    fn capacity(&self) -> usize;

    /// Makes the memory large enough for `count` elements in all. The number of elements stays.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SizeOverflow`], or what the machine answers, e.g. that memory ran out; the vector is as it was.
    fn grow(&mut self, count: usize) -> Result<Growth>;

    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes the number of elements; new ones are zero. The memory of elements that go stays with the vector.
    ///
    /// # Errors
    ///
    /// As [`Self::grow`]; the elements are as they were.
    fn resize(&mut self, len: usize) -> Result<()> {
        let before = self.len();
        if len > before {
            self.grow(len)?;
            let (address, len_bytes) = (self.address_of(before), bytes_of::<T>(len - before)?);
            self.device().machine().backend().fill(self.device().index(), address, 0, len_bytes)?;
        }
        self.set_len(len);
        Ok(())
    }

    /// Appends elements.
    ///
    /// # Errors
    ///
    /// As [`Self::grow`]; the elements are as they were.
    fn extend_from_slice(&mut self, source: &[T]) -> Result<()> {
        let before = self.len();
        let len = before.checked_add(source.len()).ok_or_else(|| too_large::<T>(usize::MAX))?;
        if !source.is_empty() {
            self.grow(len)?;
            let address = self.address_of(before);
            let device = self.device();
            device.machine().backend().write(device.index(), address, bytemuck::cast_slice(source))?;
            self.set_len(len);
        }
        Ok(())
    }

    /// Copies `source` to the elements from `first` on. Waits for no stream: the caller orders it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] if they are not all there, or what the machine answers.
    fn write(&mut self, first: usize, source: &[T]) -> Result<()> {
        check_range(first, source.len(), self.len())?;
        if source.is_empty() {
            return Ok(());
        }
        let device = self.device();
        let bytes = bytemuck::cast_slice(source);
        device.machine().backend().write(device.index(), self.address_of(first), bytes)
    }

    /// Copies the elements from `first` on to `target`. Waits for no stream: the caller orders it.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    fn read(&self, first: usize, target: &mut [T]) -> Result<()> {
        check_range(first, target.len(), self.len())?;
        if target.is_empty() {
            return Ok(());
        }
        let device = self.device();
        let bytes = bytemuck::cast_slice_mut(target);
        device.machine().backend().read(device.index(), self.address_of(first), bytes)
    }

    /// All elements.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    fn to_vec(&self) -> Result<Vec<T>> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.read(0, &mut elements)?;
        Ok(elements)
    }

    /// Where an element of a vector that has memory lies, or would lie.
    #[doc(hidden)]
    fn address_of(&self, index: usize) -> u64 {
        self.address().expect("a vector with room has addresses") + (index * size_of::<T>()) as u64
    }
}

/// Bytes of `count` elements.
pub(super) fn bytes_of<T>(count: usize) -> Result<u64> {
    (count as u64).checked_mul(size_of::<T>() as u64).ok_or_else(|| too_large::<T>(count))
}

fn too_large<T>(count: usize) -> crate::Error {
    let what = format!("a vector of {count} elements of {} bytes", size_of::<T>());
    ErrorKind::SizeOverflow { what }.into()
}

fn check_range(first: usize, count: usize, len: usize) -> Result<()> {
    if first.checked_add(count).is_some_and(|end| end <= len) {
        return Ok(());
    }
    let (found, allowed) = (format!("{count} from {first} on"), format!("within the {len} of the vector"));
    Err(ErrorKind::InvalidArgument { what: "range of elements", found, allowed }.into())
}
