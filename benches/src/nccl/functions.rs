//! The functions of NCCL that the bench calls, bound by name (nccl.h of NCCL 2).

use super::find::Version;
use anyhow::{Context, Result, anyhow};
use libloading::os::unix::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// `ncclResult_t`.
pub(super) type Code = c_int;
/// `ncclComm_t`.
pub(super) type RawComm = *mut c_void;
/// `ncclWindow_t`.
pub(super) type RawWindow = *mut c_void;
/// `cudaStream_t`, which is the driver's `CUstream`.
pub(super) type RawStream = *mut c_void;

const SUCCESS: Code = 0;

macro_rules! functions {
    (
        needed { $($needed:ident = $needed_name:literal($($needed_type:ty),*) -> $needed_result:ty;)* }
        optional { $($optional:ident = $name:literal($($type:ty),*) -> $result:ty;)* }
    ) => {
        /// NCCL's functions. Those that old versions lack are optional.
        pub(crate) struct Functions {
            $(pub(super) $needed: unsafe extern "C" fn($($needed_type),*) -> $needed_result,)*
            $(pub(super) $optional: Option<unsafe extern "C" fn($($type),*) -> $result>,)*
        }

        impl Functions {
            /// Binds all of them.
            ///
            /// # Errors
            ///
            /// Names the first function that the library must have and lacks.
            ///
            /// # Safety
            ///
            /// `library` is NCCL 2 and stays loaded as long as this value is used.
            pub(crate) unsafe fn bind(library: &Library) -> Result<Self> {
                Ok(Self {
                    $($needed: *{
                        // SAFETY: the type is that of the function of this name in nccl.h.
                        unsafe { library.get($needed_name) }
                    }.with_context(|| format!("NCCL lacks {}", text($needed_name)))?,)*
                    $($optional: {
                        // SAFETY: the type is that of the function of this name in nccl.h.
                        unsafe { library.get($name) }
                    }.ok().map(|function| *function),)*
                })
            }
        }
    };
}

functions! {
    needed {
        get_error_string = b"ncclGetErrorString"(Code) -> *const c_char;
        comm_init_all = b"ncclCommInitAll"(*mut RawComm, c_int, *const c_int) -> Code;
        comm_destroy = b"ncclCommDestroy"(RawComm) -> Code;
        comm_abort = b"ncclCommAbort"(RawComm) -> Code;
        group_start = b"ncclGroupStart"() -> Code;
        group_end = b"ncclGroupEnd"() -> Code;
        all_reduce = b"ncclAllReduce"(
            *const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream
        ) -> Code;
        all_gather = b"ncclAllGather"(*const c_void, *mut c_void, usize, c_int, RawComm, RawStream) -> Code;
        reduce_scatter = b"ncclReduceScatter"(
            *const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream
        ) -> Code;
        broadcast = b"ncclBroadcast"(
            *const c_void, *mut c_void, usize, c_int, c_int, RawComm, RawStream
        ) -> Code;
    }
    optional {
        // NCCL 2.7.
        send = b"ncclSend"(*const c_void, usize, c_int, c_int, RawComm, RawStream) -> Code;
        recv = b"ncclRecv"(*mut c_void, usize, c_int, c_int, RawComm, RawStream) -> Code;
        // NCCL 2.13.
        get_last_error = b"ncclGetLastError"(RawComm) -> *const c_char;
        // NCCL 2.27.
        window_register = b"ncclCommWindowRegister"(
            RawComm, *mut c_void, usize, *mut RawWindow, c_int
        ) -> Code;
        window_deregister = b"ncclCommWindowDeregister"(RawComm, RawWindow) -> Code;
    }
}

impl Functions {
    /// An error that names the function and says what NCCL says, unless `code` is success.
    pub(super) fn done(&self, function: &str, code: Code) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: NCCL takes any code, and answers a static string.
        let meaning = unsafe { string((self.get_error_string)(code)) };
        let last = self.get_last_error.and_then(|last| {
            // SAFETY: without a communicator it answers the last error of the process, a string that stays.
            unsafe { string(last(null_mut())) }
        });
        let meaning = meaning.unwrap_or_else(|| "unknown".to_owned());
        Err(match last.filter(|text| !text.is_empty()) {
            Some(last) => anyhow!("{function} failed with {code} ({meaning}): {last}"),
            None => anyhow!("{function} failed with {code} ({meaning})"),
        })
    }

    /// What keeps this version from registering windows, if anything does.
    pub(super) fn lacks_windows(&self, version: Version) -> Option<String> {
        let lacks = self.window_register.is_none() || self.window_deregister.is_none();
        lacks.then(|| format!("NCCL {version} lacks ncclCommWindowRegister, which 2.27 brought"))
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// # Safety
///
/// `pointer` is null or a C string that lives through the call.
unsafe fn string(pointer: *const c_char) -> Option<String> {
    // SAFETY: by this function's contract.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().trim().to_owned())
}
