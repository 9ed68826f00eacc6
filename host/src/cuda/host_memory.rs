//! Pinned host memory that devices load and store (`cuMemHostAlloc`).

use super::check::call;
use super::device::Devices;
use crate::backend::HostMapped;
use crate::{ErrorKind, Result};
use std::ffi::c_void;

/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every context of the process, also for later ones.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTALLOC_DEVICEMAP`: with an address for devices.
const DEVICE_MAP: u32 = 2;

/// Allocates zeroed, portable, mapped host memory.
///
/// Under unified addressing, which every 64-bit Linux device has, its device address is the same on all devices.
pub(super) fn alloc(devices: &Devices, len_bytes: u64) -> Result<HostMapped> {
    if len_bytes == 0 {
        let (found, allowed) = ("0".into(), "at least 1".into());
        return Err(
            ErrorKind::InvalidArgument { what: "length of host memory in bytes", found, allowed }.into()
        );
    }
    devices.within_any(|| {
        let mut host = std::ptr::null_mut::<c_void>();
        // SAFETY: the out-pointer lives through the call.
        unsafe {
            call!(cuMemHostAlloc(&mut host, len_bytes as usize, PORTABLE | DEVICE_MAP), "{len_bytes} bytes")
        }?;
        // SAFETY: the driver just allocated that many bytes there, and nobody else knows of them.
        unsafe { host.cast::<u8>().write_bytes(0, len_bytes as usize) };
        let device = device_address(host).inspect_err(|_| give_back(host))?;
        Ok(HostMapped { host: host as u64, device, len_bytes })
    })
}

/// Frees memory from [`alloc`].
pub(super) fn free(devices: &Devices, memory: HostMapped) -> Result<()> {
    let host = std::ptr::with_exposed_provenance_mut::<c_void>(memory.host as usize);
    // SAFETY: the driver checks that the address is the start of an allocation of its own.
    devices.within_any(|| unsafe {
        call!(cuMemFreeHost(host), "{} bytes at {:#x}", memory.len_bytes, memory.host)
    })
}

fn device_address(host: *mut c_void) -> Result<u64> {
    let mut device = 0;
    // SAFETY: the out-pointer lives through the call; `host` is mapped host memory.
    unsafe { call!(cuMemHostGetDevicePointer_v2(&mut device, host, 0), "{host:p}") }?;
    Ok(device)
}

/// Frees after a failure whose error is the one to return.
fn give_back(host: *mut c_void) {
    // SAFETY: `host` was allocated by the caller and is known to nobody else.
    if let Err(error) = unsafe { call!(cuMemFreeHost(host), "{host:p}") } {
        tracing::warn!(%error, "host memory was not freed");
    }
}
