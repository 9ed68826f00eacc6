//! The functions of the driver that this crate calls and `cust` does not name: forwarded to by none, defined for no
//! linker.

#![allow(non_upper_case_globals)]

use super::symbol::{Symbol, driver_functions};
use cust_raw::*;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

driver_functions! { as cust_raw {
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, dev: CUdevice);
    fn cuDeviceCanAccessPeer(can_access_peer: *mut c_int, dev: CUdevice, peer_dev: CUdevice);
    fn cuMemGetAllocationGranularity(
        granularity: *mut usize, prop: *const CUmemAllocationProp, option: CUmemAllocationGranularity_flags
    );
    fn cuMemCreate(
        handle: *mut CUmemGenericAllocationHandle, size: usize, prop: *const CUmemAllocationProp,
        flags: c_ulonglong
    );
    fn cuMemRelease(handle: CUmemGenericAllocationHandle);
    fn cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, addr: *mut c_void);
    fn cuMemAddressReserve(
        ptr: *mut CUdeviceptr, size: usize, alignment: usize, addr: CUdeviceptr, flags: c_ulonglong
    );
    fn cuMemAddressFree(ptr: CUdeviceptr, size: usize);
    fn cuMemMap(
        ptr: CUdeviceptr, size: usize, offset: usize, handle: CUmemGenericAllocationHandle,
        flags: c_ulonglong
    );
    fn cuMemUnmap(ptr: CUdeviceptr, size: usize);
    fn cuMemSetAccess(ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize);
    fn cuMemHostAlloc(pp: *mut *mut c_void, bytesize: usize, flags: c_uint);
    fn cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr, p: *mut c_void, flags: c_uint);
    fn cuStreamCreate(ph_stream: *mut CUstream, flags: c_uint);
    fn cuStreamQuery(h_stream: CUstream);
    fn cuStreamBeginCapture_v2(h_stream: CUstream, mode: CUstreamCaptureMode);
    fn cuStreamEndCapture(h_stream: CUstream, ph_graph: *mut CUgraph);
    fn cuGraphInstantiateWithFlags(ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, flags: c_ulonglong);
    fn cuGraphLaunch(h_graph_exec: CUgraphExec, h_stream: CUstream);
    fn cuGraphExecDestroy(h_graph_exec: CUgraphExec);
    fn cuUserObjectCreate(
        object: *mut CUuserObject, pointer: *mut c_void, destroy: CUhostFn, references: c_uint, flags: c_uint
    );
    fn cuUserObjectRelease(object: CUuserObject, count: c_uint);
    fn cuGraphRetainUserObject(graph: CUgraph, object: CUuserObject, count: c_uint, flags: c_uint);
} }

driver_functions! { by hand {
    // Any code may be asked about, also those that no enum of ours holds.
    fn cuGetErrorName(error: c_uint, text: *mut *const c_char);
    fn cuGetErrorString(error: c_uint, text: *mut *const c_char);
    // CUDA 12.4: makes a lazily loaded function resident.
    fn cuFuncLoad(function: CUfunction);
    // `cust_raw`'s enum of handle types lacks fabric handles (CUDA 12.3).
    fn cuMemExportToShareableHandle(
        shareable_handle: *mut c_void, handle: CUmemGenericAllocationHandle, handle_type: c_uint,
        flags: c_ulonglong
    );
    fn cuMemImportFromShareableHandle(
        handle: *mut CUmemGenericAllocationHandle, os_handle: *mut c_void, sh_handle_type: c_uint
    );
    // The answer may hold combinations of handle types that `cust_raw`'s enum has no place for.
    fn cuMemGetAllocationPropertiesFromHandle(properties: *mut c_void, handle: CUmemGenericAllocationHandle);
    // `cust_raw` lacks the attributes of mappings.
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, ptr: CUdeviceptr);
    // Answers words that later drivers may extend.
    fn cuStreamGetCaptureInfo_v2(
        h_stream: CUstream, status: *mut c_int, id: *mut cuuint64_t, graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode, num_dependencies: *mut usize
    );
    fn cuStreamGetCtx(h_stream: CUstream, context: *mut CUcontext);
    // CUDA 12.1; `library` refuses these names where multicast is switched off.
    fn cuMulticastGetGranularity(granularity: *mut usize, prop: *const MulticastProperties, option: c_uint);
    fn cuMulticastCreate(handle: *mut CUmemGenericAllocationHandle, prop: *const MulticastProperties);
    fn cuMulticastAddDevice(handle: CUmemGenericAllocationHandle, dev: CUdevice);
    fn cuMulticastBindMem(
        handle: CUmemGenericAllocationHandle, offset: usize, memory: CUmemGenericAllocationHandle,
        memory_offset: usize, size: usize, flags: c_ulonglong
    );
    fn cuMulticastUnbind(handle: CUmemGenericAllocationHandle, dev: CUdevice, offset: usize, size: usize);
    // CUDA 11.8.
    fn cuLaunchKernelEx(
        config: *const LaunchConfig, function: CUfunction, parameters: *mut *mut c_void, extra: *mut *mut c_void
    );
} }

/// `cuDeviceGetAttribute` with a plain number for the attribute: `cust_raw`'s enum lacks some.
pub(in crate::cuda) static DEVICE_ATTRIBUTE: Symbol<
    unsafe extern "C" fn(*mut c_int, c_int, CUdevice) -> u32,
    // SAFETY: the signature is the one in `cuda.h`; a C enum is an `int`.
> = unsafe { Symbol::new("cuDeviceGetAttribute") };

/// `CUmulticastObjectProp`.
#[repr(C)]
pub(in crate::cuda) struct MulticastProperties {
    pub(in crate::cuda) n_devices: c_uint,
    pub(in crate::cuda) len_bytes: usize,
    pub(in crate::cuda) handle_types: c_ulonglong,
    pub(in crate::cuda) flags: c_ulonglong,
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(in crate::cuda) struct LaunchConfig {
    /// Blocks.
    pub(in crate::cuda) grid: [c_uint; 3],
    /// Threads per block.
    pub(in crate::cuda) block: [c_uint; 3],
    /// Dynamic shared memory per block.
    pub(in crate::cuda) shared_bytes: c_uint,
    pub(in crate::cuda) stream: CUstream,
    pub(in crate::cuda) attributes: *const Attribute,
    pub(in crate::cuda) n_attributes: c_uint,
}

/// `CUlaunchAttribute`: an id, and a value in a union of 64 bytes.
#[repr(C)]
pub(in crate::cuda) struct Attribute {
    id: c_int,
    pad: c_int,
    value: [u64; 8],
}

impl Attribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed.
    pub(in crate::cuda) const PROGRAMMATIC_STREAM_SERIALIZATION: Self =
        Self { id: 6, pad: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] };
}

const _: () = {
    assert!(size_of::<LaunchConfig>() == 56);
    assert!(size_of::<Attribute>() == 72);
    assert!(size_of::<MulticastProperties>() == 32);
};
