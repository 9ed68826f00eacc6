//! Streams: the work of one is done in order.

use super::capture::StreamCapture;
use super::module::Launch;
use super::task::TaskId;
use super::{Driver, find, find_mut};
use crate::backend::{FunctionHandle, LaunchShape, StreamHandle};
use crate::sim::result::{CAPTURE_UNSUPPORTED, INVALID_HANDLE};
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) device: u32,
    /// The last work put in.
    pub(super) tail: Option<TaskId>,
    /// Why work of it was dropped, until the host has been told.
    pub(super) error: Option<Error>,
    /// The capture it takes part in.
    pub(super) capture: Option<StreamCapture>,
}

impl Driver {
    /// `cuStreamCreate`, non-blocking.
    pub(crate) fn stream_create(&mut self, device: u32) -> StreamHandle {
        let handle = StreamHandle(self.next_handle());
        self.streams.insert(handle, Stream { device, tail: None, error: None, capture: None });
        handle
    }

    /// A stream of this machine and device, by its handle.
    pub(crate) fn stream_adopt(&self, device: u32, handle: StreamHandle) -> Result<StreamHandle> {
        let found = find(&self.streams, handle, "cuStreamGetCtx")?.device;
        if found == device {
            return Ok(handle);
        }
        let detail = format!("it works on device {found}, not {device}");
        Err(ErrorKind::Foreign { what: format!("{handle:?}"), detail }.into())
    }

    /// `cuStreamDestroy`. Work in it still completes.
    pub(crate) fn stream_destroy(&mut self, handle: StreamHandle) -> Result<()> {
        self.refuse_capturing(handle, "cuStreamDestroy")?;
        self.streams.remove(&handle);
        Ok(())
    }

    /// Whether all work of a stream is done. The error, once, if some was dropped.
    pub(crate) fn stream_is_done(&mut self, handle: StreamHandle, call: &'static str) -> Result<bool> {
        self.refuse_capturing(handle, call)?;
        let stream = find_mut(&mut self.streams, handle, call)?;
        match stream.error.take() {
            Some(error) => Err(error),
            None => Ok(stream.tail.is_none_or(|tail| self.tasks.is_known_done(tail))),
        }
    }

    /// Refuses a call that a capturing stream does not allow, and breaks the capture, as CUDA does.
    fn refuse_capturing(&mut self, handle: StreamHandle, call: &'static str) -> Result<()> {
        let Some(capture) = find(&self.streams, handle, call)?.capture.as_ref().map(|capture| capture.id)
        else {
            return Ok(());
        };
        self.invalidate(capture);
        Err(CAPTURE_UNSUPPORTED.of(call, format!("{handle:?}, which is being captured")))
    }

    /// `cuLaunchKernel`, or a kernel node when the stream is being captured.
    pub(crate) fn launch(
        &mut self,
        handle: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        argument: &[u8],
    ) -> Result<()> {
        const CALL: &str = "cuLaunchKernel";
        let function = find(&self.functions, function, CALL)?.clone();
        let stream = find(&self.streams, handle, CALL)?;
        if stream.device != function.device {
            let operand =
                format!("a kernel of device {} on a stream of device {}", function.device, stream.device);
            return Err(INVALID_HANDLE.of(CALL, operand));
        }
        let launch = Arc::new(Launch::new(function, shape, argument)?);
        if stream.capture.is_some() {
            return self.capture_node(handle, super::graph::Work::Kernel(launch), CALL);
        }
        self.enqueue(handle, Some(launch), &[], CALL)
    }

    /// Puts work into a stream that is not being captured, behind its tail and `after`.
    pub(super) fn enqueue(
        &mut self,
        handle: StreamHandle,
        launch: Option<Arc<Launch>>,
        after: &[TaskId],
        call: &'static str,
    ) -> Result<()> {
        let stream = find_mut(&mut self.streams, handle, call)?;
        let behind: Vec<TaskId> = stream.tail.into_iter().chain(after.iter().copied()).collect();
        stream.tail = Some(self.tasks.add(launch, &behind));
        Ok(())
    }
}
