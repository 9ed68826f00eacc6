//! Events: marks in streams that other streams and the host can wait for.

use super::graph::NodeIndex;
use super::task::TaskId;
use super::{Driver, find, find_mut};
use crate::backend::{EventHandle, StreamHandle};
use crate::sim::result::{CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURED_EVENT, INVALID_HANDLE, INVALID_VALUE};
use crate::{Error, Result};

/// What an event was last recorded behind.
#[derive(Debug)]
pub(super) enum Record {
    /// Nothing yet.
    Never,
    /// Work of a stream.
    Task(TaskId),
    /// Nodes of a capture.
    Captured { capture: u64, nodes: Vec<NodeIndex> },
    /// Work that was dropped.
    Failed(Error),
}

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) device: u32,
    timing: bool,
    pub(super) record: Record,
}

impl Driver {
    /// `cuEventCreate`.
    pub(crate) fn event_create(&mut self, device: u32, timing: bool) -> EventHandle {
        let handle = EventHandle(self.next_handle());
        self.events.insert(handle, Event { device, timing, record: Record::Never });
        handle
    }

    /// `cuEventDestroy`.
    pub(crate) fn event_destroy(&mut self, handle: EventHandle) -> Result<()> {
        find(&self.events, handle, "cuEventDestroy")?;
        self.events.remove(&handle);
        Ok(())
    }

    /// `cuEventRecord`.
    pub(crate) fn event_record(&mut self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        const CALL: &str = "cuEventRecord";
        self.refuse_broken_capture(stream, CALL)?;
        let from = find(&self.streams, stream, CALL)?;
        let event = find_mut(&mut self.events, event, CALL)?;
        if event.device != from.device {
            let operand =
                format!("an event of device {} on a stream of device {}", event.device, from.device);
            return Err(INVALID_HANDLE.of(CALL, operand));
        }
        event.record = match (&from.capture, from.tail) {
            (Some(capture), _) => Record::Captured { capture: capture.id, nodes: capture.after.clone() },
            (None, tail) => Record::Task(match tail {
                Some(tail) => self.tasks.add(None, &[tail]),
                None => self.tasks.add(None, &[]),
            }),
        };
        Ok(())
    }

    /// `cuEventQuery`.
    pub(crate) fn event_is_done(&mut self, event: EventHandle) -> Result<bool> {
        const CALL: &str = "cuEventQuery";
        match &find(&self.events, event, CALL)?.record {
            Record::Never => Ok(true),
            Record::Task(task) => Ok(self.tasks.is_known_done(*task)),
            Record::Failed(error) => Err(error.clone()),
            Record::Captured { capture, .. } => {
                let capture = *capture;
                self.invalidate(capture);
                Err(CAPTURED_EVENT.of(CALL, format!("{event:?}, recorded in a capture")))
            }
        }
    }

    /// `cuEventElapsedTime`: `None`, for there is no time, where CUDA would give one.
    pub(crate) fn event_elapsed_us(&mut self, start: EventHandle, end: EventHandle) -> Result<Option<f64>> {
        const CALL: &str = "cuEventElapsedTime";
        for event in [start, end] {
            let found = find(&self.events, event, CALL)?;
            if !found.timing {
                return Err(INVALID_HANDLE.of(CALL, format!("{event:?}, made without timing")));
            }
            if matches!(found.record, Record::Never) {
                return Err(INVALID_HANDLE.of(CALL, format!("{event:?}, never recorded")));
            }
        }
        Ok(None)
    }

    /// `cuStreamWaitEvent`. Waiting for a captured event draws the stream into that capture.
    pub(crate) fn stream_wait_event(&mut self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        const CALL: &str = "cuStreamWaitEvent";
        self.refuse_broken_capture(stream, CALL)?;
        let own = find(&self.streams, stream, CALL)?.capture.as_ref().map(|capture| capture.id);
        match (&find(&self.events, event, CALL)?.record, own) {
            (Record::Captured { capture, nodes }, own) => {
                let (capture, nodes) = (*capture, nodes.clone());
                self.join_capture(stream, event, own, capture, &nodes)
            }
            (Record::Never, _) => Ok(()),
            (_, Some(own)) => {
                self.invalidate(own);
                let operand = format!("{event:?}, recorded outside the capture of {stream:?}");
                Err(CAPTURE_ISOLATION.of(CALL, operand))
            }
            (Record::Task(task), None) => {
                let task = *task;
                self.enqueue(stream, None, &[task], CALL)
            }
            (Record::Failed(error), None) => Err(error.clone()),
        }
    }

    fn join_capture(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
        own: Option<u64>,
        capture: u64,
        nodes: &[NodeIndex],
    ) -> Result<()> {
        const CALL: &str = "cuStreamWaitEvent";
        match own {
            Some(own) if own != capture => {
                self.invalidate(own);
                self.invalidate(capture);
                Err(CAPTURE_MERGE.of(CALL, format!("{event:?} of one capture, {stream:?} of another")))
            }
            None if !self.captures.contains_key(&capture) => {
                Err(INVALID_VALUE.of(CALL, format!("{event:?}, recorded in a capture that has ended")))
            }
            _ => self.draw_in(stream, capture, nodes),
        }
    }
}
