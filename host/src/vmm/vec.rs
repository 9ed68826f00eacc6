//! A growable vector that maps.

use crate::Result;
use crate::backend::Access;
use crate::machine::Device;
use crate::vmm::device_vec::{DeviceVec, Growth, bytes_of, sealed::Sealed};
use crate::vmm::range::AddressRange;
use crate::vmm::{Mapping, PhysicalAllocation, Reservation, round_up};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::Arc;

/// A growable vector in the manner of CUDA's introduction to virtual memory management: its addresses grow apart from
/// its memory, and it never copies.
///
/// To grow it makes only the physical memory that is missing, in multiples of the granularity, and maps it behind what
/// is there. If the addresses reserved do not reach, it reserves those right behind them; if they are not free, it
/// reserves a larger range elsewhere and maps the same physical memory there. So the peak of physical memory is the new
/// size, never old and new together, and the time does not depend on what is there.
///
/// The device that owns the memory can load and store it; other devices can as [`Self::set_access`] says. A call that
/// fails leaves the vector as it was.
///
/// ```
/// use symmem::vmm::{DeviceVec, VmmVec};
///
/// # fn main() -> symmem::Result<()> {
/// let device = symmem::Machine::sim()?.device(0)?;
/// let mut vector = VmmVec::<u32>::with_reserved(&device, 1 << 20)?;
/// let address = vector.address();
/// vector.extend_from_slice(&[1, 2, 3])?;
/// vector.resize(1 << 20)?;
/// assert_eq!(vector.address(), address);
/// let mut start = [0; 4];
/// vector.read(0, &mut start)?;
/// assert_eq!(start, [1, 2, 3, 0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct VmmVec<T> {
    device: Device,
    granularity_bytes: u64,
    /// What each device may do; devices that are not here may do nothing.
    rights: Vec<(u32, Access)>,
    // invariant: the mappings fill the start of the range without a gap, ascending.
    pub(super) mappings: Vec<Mapping>,
    pub(super) range: AddressRange,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Pod> VmmVec<T> {
    /// A vector without elements, memory and addresses.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn new(device: &Device) -> Result<Self> {
        const { assert!(size_of::<T>() > 0, "an element has at least 1 byte") };
        Ok(Self {
            device: device.clone(),
            granularity_bytes: device.granularity_bytes()?,
            rights: vec![(device.index(), Access::ReadWrite)],
            mappings: Vec::new(),
            range: AddressRange::default(),
            len: 0,
            element: PhantomData,
        })
    }

    /// A vector with addresses for `count` elements: until it holds more, they never move.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`].
    pub fn with_reserved(device: &Device, count: usize) -> Result<Self> {
        let mut vector = Self::new(device)?;
        vector.reserve(count)?;
        Ok(vector)
    }

    /// Makes the addresses reach for `count` elements in all; no memory is made.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::SizeOverflow`], or what the machine answers, e.g. that no such range is free; the vector is
    /// as it was.
    pub fn reserve(&mut self, count: usize) -> Result<Growth> {
        let (range, growth) = self.range_for(count)?;
        let moved = self.mapped_in(&range, growth)?;
        self.settle(range, moved, Vec::new());
        Ok(growth)
    }

    /// Elements that fit in the addresses it has.
    pub fn reserved(&self) -> usize {
        self.range.len_bytes() as usize / size_of::<T>()
    }

    /// Physical memory that it has in bytes.
    pub fn physical_bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.physical().len_bytes()).sum()
    }

    /// Sets what `device` may do with the elements, now and when they have grown or moved.
    ///
    /// # Errors
    ///
    /// What the machine answers, e.g. that `device` cannot reach the memory; the rights are as they were.
    pub fn set_access(&mut self, device: u32, access: Access) -> Result<()> {
        let before = self.access(device);
        for (n, mapping) in self.mappings.iter().enumerate() {
            if let Err(error) = mapping.set_access(device, access) {
                for changed in self.mappings[..n].iter().rev() {
                    self.device.machine().defer(changed.set_access(device, before));
                }
                return Err(error);
            }
        }
        self.rights.retain(|(other, _)| *other != device);
        self.rights.extend((access != Access::None).then_some((device, access)));
        Ok(())
    }

    /// What `device` may do with the elements.
    pub fn access(&self, device: u32) -> Access {
        self.rights.iter().find(|(other, _)| *other == device).map_or(Access::None, |(_, access)| *access)
    }

    /// A range for `count` elements; the vector's own stays as it is.
    fn range_for(&self, count: usize) -> Result<(AddressRange, Growth)> {
        let len_bytes = round_up(bytes_of::<T>(count)?, self.granularity_bytes)?;
        self.range.with_room(self.device.machine(), len_bytes, self.granularity_bytes)
    }

    /// The vector's memory, mapped in another range too if it is to move there.
    fn mapped_in(&self, range: &AddressRange, growth: Growth) -> Result<Option<Vec<Mapping>>> {
        if growth != Growth::Moved {
            return Ok(None);
        }
        let mut start = 0;
        let place = |mapping: &Mapping| {
            let physical = mapping.physical();
            let end = start + physical.len_bytes();
            let [piece] = &range.pieces(start, end)[..] else { unreachable!("it is one reservation") };
            start = end;
            self.map(&piece.reservation, piece.offset_bytes, physical)
        };
        self.mappings.iter().map(place).collect::<Result<_>>().map(Some)
    }

    /// New memory, mapped behind what is there up to `end` bytes.
    fn added_in(&self, range: &AddressRange, end: u64) -> Result<Vec<Mapping>> {
        let pieces = range.pieces(self.physical_bytes(), end);
        let add = |piece: &crate::vmm::range::Piece| {
            let physical = Arc::new(PhysicalAllocation::new(&self.device, piece.len_bytes)?);
            self.map(&piece.reservation, piece.offset_bytes, &physical)
        };
        pieces.iter().map(add).collect()
    }

    fn map(
        &self,
        reservation: &Arc<Reservation>,
        offset_bytes: u64,
        physical: &Arc<PhysicalAllocation>,
    ) -> Result<Mapping> {
        let mapping = Mapping::new(reservation, offset_bytes, physical)?;
        self.rights.iter().try_for_each(|&(device, access)| mapping.set_access(device, access))?;
        Ok(mapping)
    }

    /// Takes over what was made. Old mappings go before the addresses that they are in.
    fn settle(&mut self, range: AddressRange, moved: Option<Vec<Mapping>>, added: Vec<Mapping>) {
        if let Some(moved) = moved {
            self.mappings = moved;
        }
        self.mappings.extend(added);
        self.range = range;
    }
}

impl<T> Sealed for VmmVec<T> {
    fn set_len(&mut self, len: usize) {
        self.len = len;
    }
}

impl<T: Pod> DeviceVec<T> for VmmVec<T> {
    fn device(&self) -> &Device {
        &self.device
    }

    fn address(&self) -> Option<u64> {
        self.range.base()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn capacity(&self) -> usize {
        self.physical_bytes() as usize / size_of::<T>()
    }

    fn grow(&mut self, count: usize) -> Result<Growth> {
        if count <= self.capacity() {
            return Ok(Growth::Enough);
        }
        // Everything that may fail comes before anything of the vector changes.
        let (range, growth) = self.range_for(count)?;
        let moved = self.mapped_in(&range, growth)?;
        let added = self.added_in(&range, round_up(bytes_of::<T>(count)?, self.granularity_bytes)?)?;
        self.settle(range, moved, added);
        Ok(match growth {
            Growth::Moved => Growth::Moved,
            Growth::InPlace | Growth::Enough => Growth::InPlace,
        })
    }
}
