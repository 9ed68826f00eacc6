//! Physical memory that other hosts of a multi-node NVLink domain can import (CUDA driver API, section 6.14 "Virtual
//! Memory Management", `CU_MEM_HANDLE_TYPE_FABRIC`; CUDA 12.3).

use super::check::call;
use super::device::Devices;
use super::properties::Properties;
use crate::Result;
use crate::backend::{FabricHandle, PhysicalHandle};
use std::ffi::{c_int, c_uint};

/// `CU_MEM_HANDLE_TYPE_FABRIC`, which `cust_raw`'s enum lacks.
const FABRIC: c_uint = 8;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: c_uint = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: c_uint = 1;

fn properties(ordinal: c_int) -> Properties {
    Properties {
        kind: PINNED,
        handle_types: FABRIC,
        location_kind: DEVICE,
        location: ordinal,
        ..Properties::ZERO
    }
}

/// Makes a physical allocation that can be exported as a fabric handle alone.
pub(super) fn create(devices: &Devices, device: u32, len_bytes: u64) -> Result<PhysicalHandle> {
    let properties = properties(devices.ordinal(device)?);
    let mut handle = 0;
    devices.within(device, |_| {
        // SAFETY: both pointers live through the call; the driver reads a `CUmemAllocationProp`, whose fields
        // `Properties` has in the same places, and this process reads it through its own type alone.
        unsafe {
            call!(
                cuMemCreate(&mut handle, len_bytes as usize, (&raw const properties).cast(), 0),
                "{len_bytes} bytes on device {device}, for the fabric"
            )
        }
    })?;
    Ok(PhysicalHandle(handle))
}

/// Exports an allocation of [`create`].
pub(super) fn export(devices: &Devices, physical: PhysicalHandle) -> Result<FabricHandle> {
    let mut handle = FabricHandle([0; 64]);
    devices.within_any(|| {
        // SAFETY: for this type of handle the driver writes a `CUmemFabricHandle`, 64 bytes.
        unsafe {
            call!(
                cuMemExportToShareableHandle(handle.0.as_mut_ptr().cast(), physical.0, FABRIC, 0),
                "{:#x} as a fabric handle",
                physical.0
            )
        }
    })?;
    Ok(handle)
}

/// Imports an allocation.
pub(super) fn import(devices: &Devices, handle: &FabricHandle) -> Result<PhysicalHandle> {
    let mut bytes = handle.0;
    let mut physical = 0;
    // SAFETY: for this type of handle the driver reads a `CUmemFabricHandle`, 64 bytes, through the pointer.
    devices.within_any(|| unsafe {
        call!(
            cuMemImportFromShareableHandle(&mut physical, bytes.as_mut_ptr().cast(), FABRIC),
            "a fabric handle"
        )
    })?;
    Ok(PhysicalHandle(physical))
}
