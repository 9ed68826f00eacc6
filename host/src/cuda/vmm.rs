//! Virtual memory management (CUDA driver API, section 6.14 "Virtual Memory Management").

use super::check::call;
use super::device::Devices;
use super::properties::Properties;
use crate::backend::{Access, Granularity, PhysicalHandle, PointerFacts};
use crate::{ErrorKind, Result};
use cust_raw::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemLocation, CUmemLocationType,
};
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const DEVICE_ORDINAL: c_int = 9;
/// `CU_POINTER_ATTRIBUTE_MAPPING_SIZE`.
const MAPPING_SIZE: c_int = 18;
/// `CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR`.
const MAPPING_BASE_ADDR: c_int = 19;

const FILE_DESCRIPTOR: c_uint = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR as c_uint;

/// Both granularities of memory on `device`.
pub(super) fn granularity(devices: &Devices, device: u32) -> Result<Granularity> {
    let properties = properties(devices.ordinal(device)?);
    let ask = |which| -> Result<u64> {
        let mut bytes = 0_usize;
        // SAFETY: both pointers live through the call.
        unsafe { call!(cuMemGetAllocationGranularity(&mut bytes, &properties, which), "device {device}") }?;
        Ok(bytes as u64)
    };
    Ok(Granularity {
        minimum_bytes: ask(CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM)?,
        recommended_bytes: ask(CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)?,
    })
}

/// Makes a physical allocation.
pub(super) fn create(devices: &Devices, device: u32, len_bytes: u64) -> Result<PhysicalHandle> {
    let properties = properties(devices.ordinal(device)?);
    let mut handle = 0;
    devices.within(device, |_| {
        // SAFETY: both pointers live through the call.
        unsafe {
            call!(
                cuMemCreate(&mut handle, len_bytes as usize, &properties, 0),
                "{len_bytes} bytes on device {device}"
            )
        }
    })?;
    Ok(PhysicalHandle(handle))
}

/// Drops one reference to a physical allocation.
pub(super) fn release(devices: &Devices, physical: PhysicalHandle) -> Result<()> {
    devices.within_any(|| {
        // SAFETY: the call takes no pointer; the driver checks the handle.
        unsafe { call!(cuMemRelease(physical.0), "{:#x}", physical.0) }
    })
}

/// The physical allocation behind `address`, with one more reference.
pub(super) fn retain(devices: &Devices, address: u64) -> Result<PhysicalHandle> {
    let mut handle = 0;
    let pointer = std::ptr::without_provenance_mut::<c_void>(address as usize);
    devices.within_any(|| {
        // SAFETY: the out-pointer lives through the call; `pointer` is looked up, not followed.
        unsafe { call!(cuMemRetainAllocationHandle(&mut handle, pointer), "{address:#x}") }
    })?;
    Ok(PhysicalHandle(handle))
}

/// Whether a physical allocation was made to be exported as a file descriptor.
pub(super) fn is_exportable(devices: &Devices, physical: PhysicalHandle) -> Result<bool> {
    let mut properties = Properties::ZERO;
    devices.within_any(|| {
        // SAFETY: the driver writes a `CUmemAllocationProp`, whose fields `Properties` has in the same places.
        unsafe {
            call!(
                cuMemGetAllocationPropertiesFromHandle((&raw mut properties).cast(), physical.0),
                "{:#x}",
                physical.0
            )
        }
    })?;
    Ok(properties.handle_types & FILE_DESCRIPTOR != 0)
}

/// Exports a physical allocation as a file descriptor that child processes do not inherit.
pub(super) fn export(devices: &Devices, physical: PhysicalHandle) -> Result<OwnedFd> {
    let mut fd: c_int = -1;
    devices.within_any(|| {
        // SAFETY: for this type of handle the driver writes one `int`.
        unsafe {
            call!(
                cuMemExportToShareableHandle((&raw mut fd).cast(), physical.0, FILE_DESCRIPTOR, 0),
                "{:#x} as a file descriptor",
                physical.0
            )
        }
    })?;
    // SAFETY: the driver opened the descriptor for the caller of this function.
    let inheritable = unsafe { OwnedFd::from_raw_fd(fd) };
    // The copy is made with FD_CLOEXEC set: an inherited descriptor would keep the memory alive.
    let copied = inheritable.try_clone();
    copied.map_err(|error| {
        ErrorKind::Io { what: "duplicating an exported file descriptor".into(), reason: error.to_string() }
            .into()
    })
}

/// Imports a physical allocation from a file descriptor, which stays the caller's.
pub(super) fn import(devices: &Devices, fd: BorrowedFd<'_>) -> Result<PhysicalHandle> {
    let mut handle = 0;
    let number = fd.as_raw_fd();
    let word = std::ptr::without_provenance_mut::<c_void>(number as usize);
    // SAFETY: for this type of handle the second argument is the descriptor's number, not followed as a pointer.
    devices.within_any(|| unsafe {
        call!(cuMemImportFromShareableHandle(&mut handle, word, FILE_DESCRIPTOR), "file descriptor {number}")
    })?;
    Ok(PhysicalHandle(handle))
}

/// Reserves addresses; `hint` 0 is none.
pub(super) fn reserve(devices: &Devices, len_bytes: u64, align_bytes: u64, hint: u64) -> Result<u64> {
    let mut address = 0;
    // SAFETY: the out-pointer lives through the call.
    devices.within_any(|| unsafe {
        call!(
            cuMemAddressReserve(&mut address, len_bytes as usize, align_bytes as usize, hint, 0),
            "{len_bytes} bytes aligned to {align_bytes}, hint {hint:#x}"
        )
    })?;
    Ok(address)
}

/// Gives a whole reservation back.
pub(super) fn free(devices: &Devices, address: u64, len_bytes: u64) -> Result<()> {
    // SAFETY: the call takes no pointer of the host; the driver checks that the range is a reservation.
    devices.within_any(|| unsafe {
        call!(cuMemAddressFree(address, len_bytes as usize), "{len_bytes} bytes at {address:#x}")
    })
}

/// Maps a whole physical allocation into a reservation.
pub(super) fn map(devices: &Devices, address: u64, len_bytes: u64, physical: PhysicalHandle) -> Result<()> {
    // SAFETY: the call takes no pointer of the host; the driver checks range and handle.
    devices.within_any(|| unsafe {
        call!(
            cuMemMap(address, len_bytes as usize, 0, physical.0, 0),
            "{len_bytes} bytes of {:#x} at {address:#x}",
            physical.0
        )
    })
}

/// Removes a whole mapping.
pub(super) fn unmap(devices: &Devices, address: u64, len_bytes: u64) -> Result<()> {
    // SAFETY: the call takes no pointer of the host; the driver checks that the range is a mapping.
    devices.within_any(|| unsafe {
        call!(cuMemUnmap(address, len_bytes as usize), "{len_bytes} bytes at {address:#x}")
    })
}

/// Sets the access of `device` to a whole mapping.
pub(super) fn set_access(
    devices: &Devices,
    address: u64,
    len_bytes: u64,
    device: u32,
    access: Access,
) -> Result<()> {
    let flags = match access {
        Access::None => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_NONE,
        Access::Read => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ,
        Access::ReadWrite => CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    let right = CUmemAccessDesc { location: location(devices.ordinal(device)?), flags };
    devices.within(device, |_| {
        // SAFETY: the description lives through the call; the driver checks that the range is a mapping.
        unsafe {
            call!(
                cuMemSetAccess(address, len_bytes as usize, &right, 1),
                "{len_bytes} bytes at {address:#x}, {access:?} for device {device}"
            )
        }
    })
}

/// The mapping that covers `address`: from the pointer's mapping attributes, because the address-range query answers
/// for the reservation.
pub(super) fn pointer_facts(devices: &Devices, address: u64) -> Result<PointerFacts> {
    devices.within_any(|| {
        let mapping_base = attribute::<u64>(address, MAPPING_BASE_ADDR, "mapping base")?;
        let mapping_len_bytes = attribute::<u64>(address, MAPPING_SIZE, "mapping size")?;
        let ordinal = attribute::<c_int>(address, DEVICE_ORDINAL, "device ordinal")?;
        let device = u32::try_from(ordinal).ok().filter(|_| mapping_len_bytes != 0);
        let found = || format!("{address:#x} (device {ordinal}, mapping of {mapping_len_bytes} bytes)");
        let unmapped = || ErrorKind::InvalidArgument {
            what: "address",
            found: found(),
            allowed: "an address that is mapped to the memory of a device".into(),
        };
        Ok(PointerFacts { mapping_base, mapping_len_bytes, device: device.ok_or_else(unmapped)? })
    })
}

/// One attribute of a pointer; `T` is the type that CUDA gives it, an integer.
fn attribute<T: bytemuck::Pod>(address: u64, attribute: c_int, name: &str) -> Result<T> {
    let mut value = T::zeroed();
    // SAFETY: the driver writes the attribute's type, which is `T`, to a place that lives through the call.
    unsafe {
        call!(cuPointerGetAttribute((&raw mut value).cast(), attribute, address), "{name} of {address:#x}")
    }?;
    Ok(value)
}

fn location(ordinal: i32) -> CUmemLocation {
    CUmemLocation { type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: ordinal }
}

/// Pinned memory of a device that can be exported as a file descriptor.
fn properties(ordinal: i32) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        location: location(ordinal),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: Default::default(),
    }
}
