//! Properties of physical memory (CUDA driver API, section 5.1, `CUmemAllocationProp`).

use cust_raw::CUmemAllocationProp;
use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};

/// `CUmemAllocationProp` with plain numbers for its enums, which hold combinations and values of later drivers.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Properties {
    pub(super) kind: c_uint,
    pub(super) handle_types: c_uint,
    pub(super) location_kind: c_uint,
    pub(super) location: c_int,
    pub(super) win32_handle_metadata: *mut c_void,
    pub(super) compression: c_uchar,
    pub(super) rdma_capable: c_uchar,
    pub(super) usage: c_ushort,
    pub(super) reserved: [c_uchar; 4],
}

const _: () = {
    assert!(size_of::<Properties>() == size_of::<CUmemAllocationProp>());
    assert!(align_of::<Properties>() == align_of::<CUmemAllocationProp>());
};

impl Properties {
    /// All bits unset.
    pub(super) const ZERO: Self = Self {
        kind: 0,
        handle_types: 0,
        location_kind: 0,
        location: 0,
        win32_handle_metadata: std::ptr::null_mut(),
        compression: 0,
        rdma_capable: 0,
        usage: 0,
        reserved: [0; 4],
    };
}
