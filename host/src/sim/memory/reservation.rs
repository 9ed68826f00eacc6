//! Ranges of this process's addresses that nothing else uses.

use crate::Result;
use crate::sim::result::{OUT_OF_MEMORY, io};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// Addresses without memory, given back on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: u64,
    len_bytes: u64,
}

fn pointer(address: u64) -> *mut c_void {
    with_exposed_provenance_mut(address as usize)
}

impl Reservation {
    /// Reserves `len_bytes` at a multiple of `align_bytes` (a power of two), at `hint` where that is free.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_OUT_OF_MEMORY` when the address space has no such range.
    pub(crate) fn new(len_bytes: u64, align_bytes: u64, hint: u64) -> Result<Self> {
        if hint != 0
            && hint.is_multiple_of(align_bytes)
            && let Some(reservation) = Self::at(hint, len_bytes)
        {
            return Ok(reservation);
        }
        let refused = || OUT_OF_MEMORY.of("cuMemAddressReserve", format!("{len_bytes} bytes of addresses"));
        let padded = len_bytes.checked_add(align_bytes).ok_or_else(refused)?;
        // SAFETY: a null hint without `FIXED` replaces no mapping.
        let wide = unsafe { mmap_anonymous(null_mut(), padded as usize, ProtFlags::empty(), flags()) };
        let wide = wide.map_err(|_| refused())?.expose_provenance() as u64;
        let start = wide.next_multiple_of(align_bytes);
        release(wide, start - wide);
        release(start + len_bytes, wide + padded - start - len_bytes);
        Ok(Self { start, len_bytes })
    }

    fn at(address: u64, len_bytes: u64) -> Option<Self> {
        // SAFETY: `FIXED_NOREPLACE` fails rather than replace a mapping.
        let got = unsafe {
            mmap_anonymous(
                pointer(address),
                len_bytes as usize,
                ProtFlags::empty(),
                flags() | MapFlags::FIXED_NOREPLACE,
            )
        };
        got.ok().map(|start| Self { start: start.expose_provenance() as u64, len_bytes })
    }

    /// First address.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of addresses.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Whether the range lies inside.
    pub(crate) fn contains(&self, address: u64, len_bytes: u64) -> bool {
        address
            .checked_sub(self.start)
            .and_then(|offset| offset.checked_add(len_bytes))
            .is_some_and(|end| end <= self.len_bytes)
    }

    /// Makes the first `len_bytes` of a file visible at `address`, which must lie in this reservation.
    pub(crate) fn map(&self, address: u64, len_bytes: u64, fd: BorrowedFd<'_>) -> Result<()> {
        assert!(self.contains(address, len_bytes), "the caller maps inside its reservation");
        // SAFETY: the replaced range lies in this reservation, which this object owns.
        let got = unsafe {
            mmap(
                pointer(address),
                len_bytes as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                fd,
                0,
            )
        };
        got.map(|_| ()).map_err(|errno| io(format!("mapping {len_bytes} bytes at {address:#x}"), errno))
    }

    /// Takes the memory away from a range, which stays reserved.
    pub(crate) fn unmap(&self, address: u64, len_bytes: u64) -> Result<()> {
        assert!(self.contains(address, len_bytes), "the caller unmaps inside its reservation");
        // SAFETY: the replaced range lies in this reservation; the machine hands out no reference into it.
        let got = unsafe {
            mmap_anonymous(
                pointer(address),
                len_bytes as usize,
                ProtFlags::empty(),
                flags() | MapFlags::FIXED,
            )
        };
        got.map(|_| ()).map_err(|errno| io(format!("unmapping {len_bytes} bytes at {address:#x}"), errno))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        release(self.start, self.len_bytes);
    }
}

fn flags() -> MapFlags {
    MapFlags::PRIVATE | MapFlags::NORESERVE
}

/// Gives a range that only a [`Reservation`] uses back to the system.
fn release(address: u64, len_bytes: u64) {
    if len_bytes == 0 {
        return;
    }
    // SAFETY: the range comes from `mmap_anonymous` above and has no other owner.
    let result: Result<(), Errno> = unsafe { munmap(pointer(address), len_bytes as usize) };
    if let Err(errno) = result {
        tracing::error!(address, len_bytes, %errno, "munmap failed; the addresses stay reserved");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_and_honours_a_free_hint() {
        let first = Reservation::new(4 << 20, 1 << 30, 0).unwrap();
        assert_eq!(first.start() % (1 << 30), 0);
        let taken = Reservation::new(4 << 20, 2 << 20, first.start()).unwrap();
        assert_ne!(taken.start(), first.start());
        let place = first.start();
        drop(first);
        assert_eq!(Reservation::new(4 << 20, 2 << 20, place).unwrap().start(), place);
    }

    #[test]
    fn knows_what_lies_inside() {
        let reservation = Reservation::new(4096, 4096, 0).unwrap();
        let check = |offset: i64, len, expect| {
            assert_eq!(reservation.contains(reservation.start().wrapping_add_signed(offset), len), expect)
        };
        check(0, 4096, true);
        check(4096, 0, true);
        check(1, 4096, false);
        check(-1, 1, false);
        check(0, u64::MAX, false);
    }
}
