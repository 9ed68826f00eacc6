//! Multicast objects (CUDA driver API, section 6.15 "Multicast Object Management"; CUDA 12.1).
//!
//! Where multicast is switched off, the look-up refuses the names of these functions and [`supported`] does not ask the
//! driver.

use super::check::call;
use super::device::Devices;
use super::driver::functions::{DEVICE_ATTRIBUTE, MulticastProperties};
use crate::backend::{Granularity, PhysicalHandle};
use crate::cuda::driver::codes;
use crate::multicast_switch::MulticastSwitch;
use crate::{Error, Result};
use std::ffi::{c_int, c_uint, c_ulonglong};

/// `CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`, which `cust_raw`'s enum lacks.
const MULTICAST_SUPPORTED: c_int = 132;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE_DESCRIPTOR: c_ulonglong = 1;
/// `CU_MULTICAST_GRANULARITY_MINIMUM`.
const MINIMUM: c_uint = 0;
/// `CU_MULTICAST_GRANULARITY_RECOMMENDED`.
const RECOMMENDED: c_uint = 1;

fn properties(n_devices: u32, len_bytes: u64) -> MulticastProperties {
    MulticastProperties { n_devices, len_bytes: len_bytes as usize, handle_types: FILE_DESCRIPTOR, flags: 0 }
}

/// Whether `device` can be in a team. A driver that does not know the attribute has no multicast.
pub(super) fn supported(devices: &Devices, device: u32) -> Result<bool> {
    let ordinal = devices.ordinal(device)?;
    if !MulticastSwitch::from_env().is_on() {
        return Ok(false);
    }
    let mut value = 0;
    let function = DEVICE_ATTRIBUTE.get().map_err(Error::from)?;
    // SAFETY: the out-pointer lives through the call.
    let code = unsafe { function(&mut value, MULTICAST_SUPPORTED, ordinal) };
    if code == codes::INVALID_VALUE {
        return Ok(false);
    }
    super::check::succeeded("cuDeviceGetAttribute", code, || {
        format!("MULTICAST_SUPPORTED of device {device}")
    })?;
    Ok(value != 0)
}

/// Both granularities of an object of this shape.
pub(super) fn granularity(n_devices: u32, len_bytes: u64) -> Result<Granularity> {
    let properties = properties(n_devices, len_bytes);
    let ask = |which| -> Result<u64> {
        let mut bytes = 0_usize;
        // SAFETY: both pointers live through the call.
        unsafe {
            call!(
                cuMulticastGetGranularity(&mut bytes, &properties, which),
                "{n_devices} devices, {len_bytes} bytes"
            )
        }?;
        Ok(bytes as u64)
    };
    Ok(Granularity { minimum_bytes: ask(MINIMUM)?, recommended_bytes: ask(RECOMMENDED)? })
}

/// Makes an object that can be exported as a file descriptor.
pub(super) fn create(devices: &Devices, n_devices: u32, len_bytes: u64) -> Result<PhysicalHandle> {
    let properties = properties(n_devices, len_bytes);
    let mut handle = 0;
    // SAFETY: both pointers live through the call.
    devices.within_any(|| unsafe {
        call!(cuMulticastCreate(&mut handle, &properties), "{n_devices} devices, {len_bytes} bytes")
    })?;
    Ok(PhysicalHandle(handle))
}

/// Puts a device in the team.
pub(super) fn add_device(devices: &Devices, multicast: PhysicalHandle, device: u32) -> Result<()> {
    let ordinal = devices.ordinal(device)?;
    devices.within(device, |_| {
        // SAFETY: the call takes no pointer; the driver checks the handle.
        unsafe { call!(cuMulticastAddDevice(multicast.0, ordinal), "device {device} to {:#x}", multicast.0) }
    })
}

/// Binds memory; `parts` are the offset in the object, the offset in the memory, and the length.
pub(super) fn bind(
    devices: &Devices,
    multicast: PhysicalHandle,
    physical: PhysicalHandle,
    parts: (u64, u64, u64),
) -> Result<()> {
    let (offset, physical_offset, len) = (parts.0 as usize, parts.1 as usize, parts.2 as usize);
    // SAFETY: the call takes no pointer; the driver checks handles and ranges.
    devices.within_any(|| unsafe {
        call!(
            cuMulticastBindMem(multicast.0, offset, physical.0, physical_offset, len, 0),
            "{len} bytes of {:#x} from {physical_offset:#x} at {offset:#x} of {:#x}",
            physical.0,
            multicast.0
        )
    })
}

/// Undoes a binding of `device`'s memory; `part` is its offset in the object and its length.
pub(super) fn unbind(
    devices: &Devices,
    multicast: PhysicalHandle,
    device: u32,
    part: (u64, u64),
) -> Result<()> {
    let (ordinal, offset, len) = (devices.ordinal(device)?, part.0 as usize, part.1 as usize);
    devices.within(device, |_| {
        // SAFETY: the call takes no pointer; the driver checks handle and range.
        unsafe {
            call!(
                cuMulticastUnbind(multicast.0, ordinal, offset, len),
                "{len} bytes of device {device} at {offset:#x} of {:#x}",
                multicast.0
            )
        }
    })
}
