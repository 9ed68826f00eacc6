//! Launching a kernel: the one path where every nanosecond counts.

use super::check::call;
use super::device::Devices;
use super::driver::own::{Attribute, LaunchConfig};
use super::handle;
use crate::backend::{FunctionHandle, LaunchShape, StreamHandle};
use crate::{ErrorKind, Result};
use std::ffi::c_void;
use std::ptr;

/// `CU_LAUNCH_PARAM_BUFFER_POINTER`.
const BUFFER_POINTER: *mut c_void = ptr::without_provenance_mut(1);
/// `CU_LAUNCH_PARAM_BUFFER_SIZE`.
const BUFFER_SIZE: *mut c_void = ptr::without_provenance_mut(2);
/// `CU_LAUNCH_PARAM_END`.
const END: *mut c_void = ptr::null_mut();

/// Launches a kernel whose one parameter is `argument`; an empty one is no parameter.
///
/// Over the bare `cuLaunchKernelEx` this costs one query of the current context (and, where another is current, a push
/// and a pop), no lock and no allocation. The argument travels with its length, so that the driver reads no further.
pub(super) fn launch(
    devices: &Devices,
    stream: StreamHandle,
    function: FunctionHandle,
    shape: LaunchShape,
    argument: &[u8],
) -> Result<()> {
    let device = handle::device(stream.0);
    check_same_device(device, function)?;
    let mut len_bytes = argument.len();
    let pointer = argument.as_ptr().cast_mut().cast::<c_void>();
    let mut extra = [BUFFER_POINTER, pointer, BUFFER_SIZE, (&raw mut len_bytes).cast(), END];
    let extra = if argument.is_empty() { ptr::null_mut() } else { extra.as_mut_ptr() };
    let attributes = [Attribute::PROGRAMMATIC_STREAM_SERIALIZATION];
    let config = LaunchConfig {
        grid: [shape.blocks, 1, 1],
        block: [shape.threads, 1, 1],
        shared_bytes: shape.shared_bytes,
        stream: handle::pointer(stream.0),
        attributes: attributes.as_ptr(),
        n_attributes: u32::from(shape.waits_itself),
    };
    devices.within(device, |_| {
        // SAFETY: the handles belong to the current context; the argument is copied before the call returns, and the
        // lists around it live through the call. What the kernel does with it is the kernel's contract.
        unsafe {
            call!(
                cuLaunchKernelEx(&config, handle::pointer(function.0), ptr::null_mut(), extra),
                "function {:#x}, {shape:?}, argument of {} bytes, on device {device}",
                function.0,
                argument.len()
            )
        }
    })
}

fn check_same_device(device: u32, function: FunctionHandle) -> Result<()> {
    let owner = handle::device(function.0);
    if owner == device {
        return Ok(());
    }
    let detail = format!("it is loaded on device {owner}, the stream is on device {device}");
    Err(ErrorKind::Foreign { what: "the kernel".into(), detail }.into())
}
