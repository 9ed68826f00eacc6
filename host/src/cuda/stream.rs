//! Streams and events (CUDA driver API, sections 6.18 "Stream Management" and 6.19 "Event Management").

use super::check::{answer, call, done};
use super::copy;
use super::device::Devices;
use super::handle;
use crate::backend::{EventHandle, StreamHandle};
use crate::{ErrorKind, Result};
use cust_raw::{CUevent_flags, CUstream};

/// Makes a stream that does not synchronise with the default stream.
pub(super) fn create(devices: &Devices, device: u32) -> Result<StreamHandle> {
    devices.within(device, |_| Ok(StreamHandle(handle::pack(device, copy::create()?)?)))
}

/// A stream that other code made, on `device`.
///
/// # Errors
/// [`ErrorKind::Foreign`] when it lives in another context than the primary one of `device`.
///
/// # Safety
/// `stream` is a live stream, or one of the default streams (null, 1, 2).
pub(super) unsafe fn adopt(devices: &Devices, device: u32, stream: CUstream) -> Result<StreamHandle> {
    let expected = devices.context(device)?;
    devices.within(device, |_| {
        let mut context = std::ptr::null_mut();
        // SAFETY: the stream is live by this function's contract; the out-pointer lives through the call.
        unsafe { call!(cuStreamGetCtx(stream, &mut context), "stream {stream:p}") }?;
        if context != expected {
            let detail = format!("its context {context:p} is not the primary context of device {device}");
            return Err(ErrorKind::Foreign { what: format!("stream {stream:p}"), detail }.into());
        }
        Ok(StreamHandle(handle::pack(device, stream)?))
    })
}

/// Destroys a stream; work in it still completes.
pub(super) fn destroy(devices: &Devices, stream: StreamHandle) -> Result<()> {
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: the handle came from `create`; its owner destroys it once.
        unsafe { call!(cuStreamDestroy_v2(handle::pointer(stream.0)), "stream {:#x}", stream.0) }
    })
}

/// Waits until all work of a stream is done; a fault of a kernel is returned here.
///
/// The wait has no deadline of its own: each kernel of this crate bounds its waits, so the work ends.
pub(super) fn synchronize(devices: &Devices, stream: StreamHandle) -> Result<()> {
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: the handle is that of a live stream.
        unsafe { call!(cuStreamSynchronize(handle::pointer(stream.0)), "stream {:#x}", stream.0) }
    })
}

/// Whether all work of a stream is done.
pub(super) fn is_done(devices: &Devices, stream: StreamHandle) -> Result<bool> {
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: the handle is that of a live stream.
        let code = unsafe { answer!(cuStreamQuery(handle::pointer(stream.0))) }?;
        done("cuStreamQuery", code, || format!("stream {:#x}", stream.0))
    })
}

/// Makes later work of `stream` wait for `event`, which may be of another device.
pub(super) fn wait_event(devices: &Devices, stream: StreamHandle, event: EventHandle) -> Result<()> {
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: both handles are live.
        unsafe {
            call!(
                cuStreamWaitEvent(handle::pointer(stream.0), handle::pointer(event.0), 0),
                "stream {:#x}, event {:#x}",
                stream.0,
                event.0
            )
        }
    })
}

/// Makes an event; without `timing` it is cheaper to record.
pub(super) fn event_create(devices: &Devices, device: u32, timing: bool) -> Result<EventHandle> {
    let flags = if timing { CUevent_flags::CU_EVENT_DEFAULT } else { CUevent_flags::CU_EVENT_DISABLE_TIMING };
    devices.within(device, |_| {
        let mut event = std::ptr::null_mut();
        // SAFETY: the out-pointer lives through the call.
        unsafe { call!(cuEventCreate(&mut event, flags as u32), "{flags:?} on device {device}") }?;
        Ok(EventHandle(handle::pack(device, event)?))
    })
}

/// Destroys an event.
pub(super) fn event_destroy(devices: &Devices, event: EventHandle) -> Result<()> {
    devices.within(handle::device(event.0), |_| {
        // SAFETY: the handle came from `event_create`; its owner destroys it once.
        unsafe { call!(cuEventDestroy_v2(handle::pointer(event.0)), "event {:#x}", event.0) }
    })
}

/// Records an event behind the work now in a stream of the same device.
pub(super) fn event_record(devices: &Devices, event: EventHandle, stream: StreamHandle) -> Result<()> {
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: both handles are live.
        unsafe {
            call!(
                cuEventRecord(handle::pointer(event.0), handle::pointer(stream.0)),
                "event {:#x}, stream {:#x}",
                event.0,
                stream.0
            )
        }
    })
}

/// Whether all work that an event was recorded behind is done.
pub(super) fn event_is_done(devices: &Devices, event: EventHandle) -> Result<bool> {
    devices.within(handle::device(event.0), |_| {
        // SAFETY: the handle is that of a live event.
        let code = unsafe { answer!(cuEventQuery(handle::pointer(event.0))) }?;
        done("cuEventQuery", code, || format!("event {:#x}", event.0))
    })
}

/// Time between two events of one device in microseconds.
pub(super) fn event_elapsed_us(devices: &Devices, start: EventHandle, end: EventHandle) -> Result<f64> {
    devices.within(handle::device(start.0), |_| {
        let mut milliseconds = 0_f32;
        // SAFETY: the out-pointer lives through the call; both handles are live.
        unsafe {
            call!(
                cuEventElapsedTime(&mut milliseconds, handle::pointer(start.0), handle::pointer(end.0)),
                "events {:#x} and {:#x}",
                start.0,
                end.0
            )
        }?;
        Ok(f64::from(milliseconds) * 1e3)
    })
}
