//! Answers of the driver as errors of this crate.

use super::driver::codes;
use crate::{Error, ErrorKind, Result};

/// Calls a function of the driver and gives its `CUresult`; an error where the driver lacks the function.
macro_rules! answer {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match $crate::cuda::driver::functions::$name.get() {
            Ok(function) => Ok(function($($argument),*)),
            Err(missing) => Err($crate::Error::from(missing)),
        }
    };
}

/// Calls a function of the driver; anything but success is an error that tells the formatted operand.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?), $($operand:tt)+) => {
        $crate::cuda::check::answer!($name($($argument),*)).and_then(|code| {
            $crate::cuda::check::succeeded(stringify!($name), code, || format!($($operand)+))
        })
    };
}

pub(super) use {answer, call};

/// An error unless `code` is success.
#[inline]
pub(super) fn succeeded(call: &'static str, code: u32, operand: impl FnOnce() -> String) -> Result<()> {
    if code == codes::SUCCESS { Ok(()) } else { Err(failed(call, code, operand())) }
}

/// Whether work is done, where `code` may also say that it is not yet.
pub(super) fn done(call: &'static str, code: u32, operand: impl FnOnce() -> String) -> Result<bool> {
    match code {
        codes::SUCCESS => Ok(true),
        codes::NOT_READY => Ok(false),
        _ => Err(failed(call, code, operand())),
    }
}

/// The error for a failed call.
#[cold]
pub(super) fn failed(call: &'static str, code: u32, operand: String) -> Error {
    ErrorKind::Driver { call, code, name: code_name(code), operand }.into()
}

/// Name of a `CUresult`.
pub(super) fn code_name(code: u32) -> String {
    codes::name(code).to_string_lossy().into_owned()
}

/// The error for a failed call that `cust` made. `cust` folds codes it does not know into 999.
pub(super) fn failed_in_cust(call: &'static str, error: cust::error::CudaError, operand: String) -> Error {
    failed(call, error as u32, operand)
}
