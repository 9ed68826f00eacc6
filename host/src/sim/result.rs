//! `CUresult` codes with which the simulated driver refuses what CUDA refuses.

use crate::{Error, ErrorKind};

/// A `CUresult` (CUDA driver API, "Data types used by CUDA driver", enum `CUresult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32, pub(crate) &'static str);

pub(crate) const INVALID_VALUE: Code = Code(1, "CUDA_ERROR_INVALID_VALUE");
pub(crate) const OUT_OF_MEMORY: Code = Code(2, "CUDA_ERROR_OUT_OF_MEMORY");
pub(crate) const NO_BINARY_FOR_GPU: Code = Code(209, "CUDA_ERROR_NO_BINARY_FOR_GPU");
pub(crate) const PEER_ACCESS_UNSUPPORTED: Code = Code(217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED");
pub(crate) const INVALID_HANDLE: Code = Code(400, "CUDA_ERROR_INVALID_HANDLE");
pub(crate) const ILLEGAL_STATE: Code = Code(401, "CUDA_ERROR_ILLEGAL_STATE");
pub(crate) const NOT_SUPPORTED: Code = Code(801, "CUDA_ERROR_NOT_SUPPORTED");
pub(crate) const SYSTEM_NOT_READY: Code = Code(802, "CUDA_ERROR_SYSTEM_NOT_READY");
pub(crate) const CAPTURE_UNSUPPORTED: Code = Code(900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
pub(crate) const CAPTURE_INVALIDATED: Code = Code(901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
pub(crate) const CAPTURE_MERGE: Code = Code(902, "CUDA_ERROR_STREAM_CAPTURE_MERGE");
pub(crate) const CAPTURE_UNMATCHED: Code = Code(903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED");
pub(crate) const CAPTURE_UNJOINED: Code = Code(904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
pub(crate) const CAPTURE_ISOLATION: Code = Code(905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
pub(crate) const CAPTURED_EVENT: Code = Code(907, "CUDA_ERROR_CAPTURED_EVENT");
pub(crate) const CAPTURE_WRONG_THREAD: Code = Code(908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD");

impl Code {
    /// The error of `call` with `operand`: what it was given, and why that is refused.
    #[cold]
    pub(crate) fn of(self, call: &'static str, operand: impl Into<String>) -> Error {
        ErrorKind::Driver { call, code: self.0, name: self.1.into(), operand: operand.into() }.into()
    }
}

/// The error of an operating-system call.
#[cold]
pub(crate) fn io(what: impl Into<String>, errno: rustix::io::Errno) -> Error {
    ErrorKind::Io { what: what.into(), reason: errno.to_string() }.into()
}
