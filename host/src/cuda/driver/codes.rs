//! Names of the driver's answers (`CUresult`), with and without a driver.

use super::own::{cuGetErrorName as driver_name, cuGetErrorString as driver_description};
use cust_raw::CUresult;
use std::ffi::{CStr, c_char};

/// The call succeeded.
pub(in crate::cuda) const SUCCESS: u32 = CUresult::CUDA_SUCCESS as u32;
/// An argument, or an attribute that this driver does not know.
pub(in crate::cuda) const INVALID_VALUE: u32 = CUresult::CUDA_ERROR_INVALID_VALUE as u32;
/// There is no GPU, or no driver.
pub(in crate::cuda) const NO_DEVICE: u32 = CUresult::CUDA_ERROR_NO_DEVICE as u32;
/// A name was not found.
pub(in crate::cuda) const NOT_FOUND: u32 = CUresult::CUDA_ERROR_NOT_FOUND as u32;
/// Work is still under way.
pub(in crate::cuda) const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;
/// The machine does not offer this.
pub(in crate::cuda) const NOT_SUPPORTED: u32 = CUresult::CUDA_ERROR_NOT_SUPPORTED as u32;
/// A code without a name.
pub(in crate::cuda) const UNKNOWN: u32 = CUresult::CUDA_ERROR_UNKNOWN as u32;

macro_rules! known_to_cust {
    ($($name:ident,)*) => {
        /// The codes that `cust_raw`'s enum holds.
        const KNOWN_TO_CUST: &[(u32, &CStr)] = &[$((CUresult::$name as u32, terminated(concat!(stringify!($name), "\0"))),)*];
    };
}

known_to_cust! {
    CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_INITIALIZED,
    CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_PROFILER_DISABLED, CUDA_ERROR_PROFILER_NOT_INITIALIZED,
    CUDA_ERROR_PROFILER_ALREADY_STARTED, CUDA_ERROR_PROFILER_ALREADY_STOPPED, CUDA_ERROR_STUB_LIBRARY,
    CUDA_ERROR_NO_DEVICE, CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_DEVICE_NOT_LICENSED, CUDA_ERROR_INVALID_IMAGE,
    CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_ALREADY_CURRENT, CUDA_ERROR_MAP_FAILED,
    CUDA_ERROR_UNMAP_FAILED, CUDA_ERROR_ARRAY_IS_MAPPED, CUDA_ERROR_ALREADY_MAPPED,
    CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_ALREADY_ACQUIRED, CUDA_ERROR_NOT_MAPPED,
    CUDA_ERROR_NOT_MAPPED_AS_ARRAY, CUDA_ERROR_NOT_MAPPED_AS_POINTER, CUDA_ERROR_ECC_UNCORRECTABLE,
    CUDA_ERROR_UNSUPPORTED_LIMIT, CUDA_ERROR_CONTEXT_ALREADY_IN_USE, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
    CUDA_ERROR_INVALID_PTX, CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
    CUDA_ERROR_JIT_COMPILATION_DISABLED, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, CUDA_ERROR_INVALID_SOURCE,
    CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND,
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_INVALID_HANDLE,
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_READY, CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT,
    CUDA_ERROR_TOO_MANY_PEERS, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,
    CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_NOT_PERMITTED,
    CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, CUDA_ERROR_MPS_CONNECTION_FAILED, CUDA_ERROR_MPS_RPC_FAILURE,
    CUDA_ERROR_MPS_SERVER_NOT_READY, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_MERGE,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_CAPTURED_EVENT,
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_TIMEOUT, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
    CUDA_ERROR_EXTERNAL_DEVICE, CUDA_ERROR_UNKNOWN,
}

/// Codes of later drivers (`cuda.h` of CUDA 13.0).
const LATER: &[(u32, &CStr)] = &[
    (36, c"CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"),
    (46, c"CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (225, c"CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC"),
    (226, c"CUDA_ERROR_CONTAINED"),
    (402, c"CUDA_ERROR_LOSSY_QUERY"),
    (721, c"CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (810, c"CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (811, c"CUDA_ERROR_CDP_NOT_SUPPORTED"),
    (812, c"CUDA_ERROR_CDP_VERSION_MISMATCH"),
    (912, c"CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    (913, c"CUDA_ERROR_FUNCTION_NOT_LOADED"),
    (914, c"CUDA_ERROR_INVALID_RESOURCE_TYPE"),
    (915, c"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"),
    (916, c"CUDA_ERROR_KEY_ROTATION"),
];

const fn terminated(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a name holds no NUL"),
    }
}

/// Whether `cust_raw`'s enum holds `code`.
pub(super) fn is_known_to_cust(code: u32) -> bool {
    code == SUCCESS || KNOWN_TO_CUST.iter().any(|(known, _)| *known == code)
}

/// Name of `code`: the driver's where there is one, else ours.
pub(in crate::cuda) fn name(code: u32) -> &'static CStr {
    ask(&driver_name, code).unwrap_or_else(|| own_name(code))
}

/// Description of `code`: the driver's where there is one, else its name.
pub(super) fn description(code: u32) -> &'static CStr {
    ask(&driver_description, code).unwrap_or_else(|| own_name(code))
}

fn own_name(code: u32) -> &'static CStr {
    let mut all = KNOWN_TO_CUST.iter().chain(LATER);
    all.find(|(known, _)| *known == code).map_or(c"unknown CUDA error", |(_, name)| name)
}

type Texts = super::symbol::Symbol<unsafe extern "C" fn(u32, *mut *const c_char) -> u32>;

fn ask(texts: &Texts, code: u32) -> Option<&'static CStr> {
    let function = texts.get().ok()?;
    let mut text = std::ptr::null();
    // SAFETY: the out-pointer lives through the call.
    let answer = unsafe { function(code, &mut text) };
    // SAFETY: on success the driver gives a constant, terminated text that it keeps.
    (answer == SUCCESS && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_name() {
        let all: Vec<_> = KNOWN_TO_CUST.iter().chain(LATER).collect();
        let codes: std::collections::BTreeSet<_> = all.iter().map(|(code, _)| code).collect();
        let names: std::collections::BTreeSet<_> = all.iter().map(|(_, name)| name).collect();
        assert_eq!((codes.len(), names.len()), (all.len(), all.len()));
    }

    #[test]
    fn names_without_a_driver() {
        let check = |code, name| assert_eq!(own_name(code).to_str(), Ok(name));
        check(0, "CUDA_SUCCESS");
        check(100, "CUDA_ERROR_NO_DEVICE");
        check(401, "CUDA_ERROR_ILLEGAL_STATE");
        check(802, "CUDA_ERROR_SYSTEM_NOT_READY");
        check(913, "CUDA_ERROR_FUNCTION_NOT_LOADED");
        check(12_345, "unknown CUDA error");
    }
}
