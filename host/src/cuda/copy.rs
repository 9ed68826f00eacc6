//! Copies and fills that wait for no other stream.
//!
//! Those of the host run in a stream of their own per device. The default stream would wait for every stream of the
//! device, also for kernels that wait for a peer whose data this copy brings.

use super::check::call;
use super::device::Devices;
use super::handle;
use crate::Result;
use crate::backend::StreamHandle;
use cust_raw::{CUcontext, CUstream, CUstream_flags};

/// A non-blocking stream for copies, in the context that was current when it was made.
#[derive(Debug)]
pub(super) struct CopyStream {
    /// `CUstream` and `CUcontext`, as words so that threads may share them: the driver's functions take them from any.
    stream: usize,
    context: usize,
}

impl CopyStream {
    /// Makes the stream in `context`, which must be current.
    pub(super) fn new(context: CUcontext) -> Result<Self> {
        Ok(Self { stream: create()? as usize, context: context as usize })
    }

    fn raw(&self) -> CUstream {
        self.stream as CUstream
    }

    /// Waits for the copies in the stream; they are bounded by their sizes.
    fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { call!(cuStreamSynchronize(self.raw()), "the stream for copies") }
    }

    fn destroy(&self) -> Result<()> {
        let mut popped = std::ptr::null_mut();
        // SAFETY: the context is retained until after this drop; the stream is destroyed once, here.
        unsafe {
            call!(cuCtxPushCurrent_v2(self.context as CUcontext), "the context of the stream for copies")?;
            let destroyed = call!(cuStreamDestroy_v2(self.raw()), "the stream for copies");
            call!(cuCtxPopCurrent_v2(&mut popped), "the context of the stream for copies").and(destroyed)
        }
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        if let Err(error) = self.destroy() {
            tracing::warn!(%error, "the stream for copies was not destroyed");
        }
    }
}

/// Makes a stream in the current context that does not synchronise with the default stream.
pub(super) fn create() -> Result<CUstream> {
    let mut stream = std::ptr::null_mut();
    let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the out-pointer lives through the call.
    unsafe { call!(cuStreamCreate(&mut stream, flags), "non-blocking") }?;
    Ok(stream)
}

/// Copies `source` to `address` on `device`.
pub(super) fn write(devices: &Devices, device: u32, address: u64, source: &[u8]) -> Result<()> {
    if source.is_empty() {
        return Ok(());
    }
    let len_bytes = source.len();
    devices.within(device, |primary| {
        let copies = &primary.copies;
        // SAFETY: `source` is read until the wait below returns; the driver checks the device's range.
        unsafe {
            call!(
                cuMemcpyHtoDAsync_v2(address, source.as_ptr().cast(), len_bytes, copies.raw()),
                "{len_bytes} bytes to {address:#x} on device {device}"
            )
        }?;
        copies.wait()
    })
}

/// Copies from `address` on `device` to `target`.
pub(super) fn read(devices: &Devices, device: u32, address: u64, target: &mut [u8]) -> Result<()> {
    if target.is_empty() {
        return Ok(());
    }
    let len_bytes = target.len();
    devices.within(device, |primary| {
        let copies = &primary.copies;
        // SAFETY: `target` is written until the wait below returns; the driver checks the device's range.
        unsafe {
            call!(
                cuMemcpyDtoHAsync_v2(target.as_mut_ptr().cast(), address, len_bytes, copies.raw()),
                "{len_bytes} bytes from {address:#x} on device {device}"
            )
        }?;
        copies.wait()
    })
}

/// Sets every byte of a range on `device`.
pub(super) fn fill(devices: &Devices, device: u32, address: u64, byte: u8, len_bytes: u64) -> Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    devices.within(device, |primary| {
        let copies = &primary.copies;
        // SAFETY: no host memory takes part; the driver checks the device's range.
        unsafe {
            call!(
                cuMemsetD8Async(address, byte, len_bytes as usize, copies.raw()),
                "{len_bytes} bytes at {address:#x} on device {device} to {byte:#04x}"
            )
        }?;
        copies.wait()
    })
}

/// Copies from one place of `device`'s memory to another.
pub(super) fn within_device(
    devices: &Devices,
    device: u32,
    from: u64,
    to: u64,
    len_bytes: u64,
) -> Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    devices.within(device, |primary| {
        let copies = &primary.copies;
        // SAFETY: no host memory takes part; the driver checks both ranges.
        unsafe {
            call!(
                cuMemcpyDtoDAsync_v2(to, from, len_bytes as usize, copies.raw()),
                "{len_bytes} bytes from {from:#x} to {to:#x} on device {device}"
            )
        }?;
        copies.wait()
    })
}

/// Copies from one address to another, either of which may be that of a peer's memory, behind the work of a stream.
pub(super) fn in_stream(
    devices: &Devices,
    stream: StreamHandle,
    from: u64,
    to: u64,
    len_bytes: u64,
) -> Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: no host memory takes part; the handle is that of a live stream; the driver checks both ranges.
        unsafe {
            call!(
                cuMemcpyDtoDAsync_v2(to, from, len_bytes as usize, handle::pointer(stream.0)),
                "{len_bytes} bytes from {from:#x} to {to:#x} in stream {:#x}",
                stream.0
            )
        }
    })
}
