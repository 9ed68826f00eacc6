//! Memory of one device with an address (CUDA driver API, section 6.13 "Memory Management").

use super::check::call;
use super::device::Devices;
use crate::Result;

/// Allocates memory for `device` alone; its bytes are undefined.
pub(super) fn alloc(devices: &Devices, device: u32, len_bytes: u64) -> Result<u64> {
    let mut address = 0;
    // SAFETY: the out-pointer lives through the call.
    devices.within(device, |_| unsafe {
        call!(cuMemAlloc_v2(&mut address, len_bytes as usize), "{len_bytes} bytes on device {device}")
    })?;
    Ok(address)
}

/// Frees memory from [`alloc`].
pub(super) fn free(devices: &Devices, device: u32, address: u64) -> Result<()> {
    // SAFETY: the driver checks that the address is the start of an allocation of its own.
    devices.within(device, |_| unsafe { call!(cuMemFree_v2(address), "{address:#x} on device {device}") })
}

/// Memory of `device` that nobody uses, in bytes.
pub(super) fn free_bytes(devices: &Devices, device: u32) -> Result<u64> {
    let (mut free, mut total) = (0, 0);
    devices.within(device, |_| {
        // SAFETY: both out-pointers live through the call.
        unsafe { call!(cuMemGetInfo_v2(&mut free, &mut total), "device {device}") }
    })?;
    Ok(free as u64)
}
