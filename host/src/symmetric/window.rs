//! Windows: typed views of symmetric memory.

use crate::machine::Device;
use crate::symmetric::{AllocOffset, Backing, FlatOffset, IntervalIndex, SymmetricSpace, WindowOffset};
use crate::{ErrorKind, Result};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// What a window is, whatever its type.
#[derive(Debug)]
pub(crate) struct WindowInner {
    pub(crate) comm_id: u64,
    pub(crate) rank: u32,
    /// Number of its registration: equal on all ranks.
    pub(crate) number: u64,
    pub(crate) device: Device,
    pub(crate) space: Arc<SymmetricSpace>,
    pub(crate) backing: Arc<Backing>,
    /// Where the window starts in its backing.
    pub(crate) start: AllocOffset,
    pub(crate) len_bytes: u64,
    /// Where the caller has the memory mapped, if it was the caller's.
    pub(crate) user_address: Option<u64>,
}

impl WindowInner {
    pub(crate) fn flat(&self, offset: WindowOffset) -> FlatOffset {
        offset.in_allocation(self.start).in_space(self.backing.flat())
    }

    /// Address of the first byte in this rank's own memory.
    pub(crate) fn address(&self) -> u64 {
        self.space.address(self.rank, self.flat(WindowOffset::new(0)))
    }

    /// Makes it known by its symmetric and by the caller's address.
    pub(crate) fn enter(self: &Arc<Self>, index: &mut IntervalIndex<Self>) {
        let flat_bytes = self.flat(WindowOffset::new(0)).bytes;
        let user = self.user_address.filter(|&address| address != self.address());
        for address in [Some(self.address()), user].into_iter().flatten() {
            index.insert(address, self.len_bytes, flat_bytes, self);
        }
    }

    /// The offset in this window of a range of addresses inside it, by its symmetric or by the caller's address.
    pub(crate) fn find(&self, address: u64, len_bytes: u64) -> Option<WindowOffset> {
        [Some(self.address()), self.user_address].into_iter().flatten().find_map(|base| {
            let offset = address.checked_sub(base)?;
            (offset.checked_add(len_bytes)? <= self.len_bytes).then_some(WindowOffset::new(offset))
        })
    }
}

/// A range of symmetric memory that holds elements of type `T`: the same range on every rank.
///
/// It keeps its memory mapped. Dropping it only marks it; the memory is unmapped when every rank has dropped its window
/// and registers or deregisters the next one, or when the communicator ends. [`crate::Comm::deregister`] does it at once.
/// A graph that captured an operation on the window keeps it, too. Cloning gives another handle to the same window.
#[derive(Clone, Debug)]
pub struct Window<T> {
    inner: Arc<WindowInner>,
    element: PhantomData<T>,
}

impl<T: Pod> Window<T> {
    pub(crate) fn new(inner: Arc<WindowInner>) -> Self {
        Self { inner, element: PhantomData }
    }

    pub(crate) fn inner(&self) -> &Arc<WindowInner> {
        &self.inner
    }

    pub(crate) fn into_inner(self) -> Arc<WindowInner> {
        self.inner
    }

    /// Number of its registration: equal on all ranks, and of no other window of the communicator.
    pub fn number(&self) -> u64 {
        self.inner.number
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        (self.inner.len_bytes / size_of::<T>() as u64) as usize
    }

    /// Whether it has no elements; no window has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address of the first element in this rank's own memory.
    pub fn address(&self) -> u64 {
        self.inner.address()
    }

    /// Address at which this device sees the first element of `rank`; `None` if there is no such rank.
    pub fn peer_address(&self, rank: u32) -> Option<u64> {
        let space = &self.inner.space;
        let n_ranks = space.reservation().len_bytes() / space.stride_bytes();
        (u64::from(rank) < n_ranks).then(|| space.address(rank, self.flat_offset()))
    }

    /// Address at which `multimem` instructions of this device reach the first element of every rank at once; `None` if
    /// the window has no multicast, on all ranks alike ([`crate::Comm::describe`] says why).
    pub fn multicast_address(&self) -> Option<u64> {
        Some(self.inner.backing.multicast()?.address(self.flat_offset()))
    }

    /// Offset of the first element in each rank's part of the space.
    pub fn flat_offset(&self) -> FlatOffset {
        self.inner.flat(WindowOffset::new(0))
    }

    /// All of it, as an input.
    pub fn as_slice(&self) -> WindowSlice<'_, T> {
        WindowSlice { inner: &self.inner, first: 0, len: self.len(), element: PhantomData }
    }

    /// All of it, as an output.
    pub fn as_slice_mut(&mut self) -> WindowSliceMut<'_, T> {
        WindowSliceMut {
            slice: WindowSlice { inner: &self.inner, first: 0, len: self.len(), element: PhantomData },
        }
    }

    /// Some of its elements, as an input.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WindowTooSmall`] if the range does not lie inside.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<WindowSlice<'_, T>> {
        let (first, len) = resolve::<T>(range, self.len())?;
        Ok(WindowSlice { inner: &self.inner, first, len, element: PhantomData })
    }

    /// Some of its elements, as an output.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WindowTooSmall`] if the range does not lie inside.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<WindowSliceMut<'_, T>> {
        let (first, len) = resolve::<T>(range, self.len())?;
        Ok(WindowSliceMut { slice: WindowSlice { inner: &self.inner, first, len, element: PhantomData } })
    }

    /// Copies `source` to the elements from `first` on. Waits for no stream: the caller orders it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WindowTooSmall`], or what the machine answers.
    pub fn write(&mut self, first: usize, source: &[T]) -> Result<()> {
        resolve::<T>(first..first.saturating_add(source.len()), self.len())?;
        let (device, address) = self.place(first);
        device.machine().backend().write(device.index(), address, bytemuck::cast_slice(source))
    }

    /// Copies the elements from `first` on to `target`. Waits for no stream: the caller orders it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WindowTooSmall`], or what the machine answers.
    pub fn read(&self, first: usize, target: &mut [T]) -> Result<()> {
        resolve::<T>(first..first.saturating_add(target.len()), self.len())?;
        let (device, address) = self.place(first);
        device.machine().backend().read(device.index(), address, bytemuck::cast_slice_mut(target))
    }

    /// Sets every byte of the window. Waits for no stream: the caller orders it.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<()> {
        let (device, address) = self.place(0);
        device.machine().backend().fill(device.index(), address, byte, self.inner.len_bytes)
    }

    fn place(&self, first: usize) -> (&Device, u64) {
        (&self.inner.device, self.address() + (first * size_of::<T>()) as u64)
    }
}

fn resolve<T>(range: impl RangeBounds<usize>, len: usize) -> Result<(usize, usize)> {
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if end > len || first > end {
        let needed_bytes = (end.max(first) as u64).saturating_mul(size_of::<T>() as u64);
        let found_bytes = (len * size_of::<T>()) as u64;
        return Err(ErrorKind::WindowTooSmall { what: "range", needed_bytes, found_bytes }.into());
    }
    Ok((first, end - first))
}

/// Elements of a window that an operation reads.
#[derive(Debug)]
pub struct WindowSlice<'a, T> {
    inner: &'a Arc<WindowInner>,
    first: usize,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for WindowSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for WindowSlice<'_, T> {}

impl<'a, T> WindowSlice<'a, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn window(&self) -> &'a Arc<WindowInner> {
        self.inner
    }

    /// Where the slice starts in its window.
    pub(crate) fn offset(&self) -> WindowOffset {
        WindowOffset::new((self.first * size_of::<T>()) as u64)
    }
}

/// Elements of a window that an operation writes.
#[derive(Debug)]
pub struct WindowSliceMut<'a, T> {
    slice: WindowSlice<'a, T>,
}

impl<'a, T> WindowSliceMut<'a, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.slice.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.slice.len == 0
    }

    pub(crate) fn as_slice(&self) -> WindowSlice<'a, T> {
        self.slice
    }
}

impl<'a, T: Pod> From<&'a Window<T>> for WindowSlice<'a, T> {
    fn from(window: &'a Window<T>) -> Self {
        window.as_slice()
    }
}

impl<'a, T: Pod> From<&'a mut Window<T>> for WindowSliceMut<'a, T> {
    fn from(window: &'a mut Window<T>) -> Self {
        window.as_slice_mut()
    }
}
