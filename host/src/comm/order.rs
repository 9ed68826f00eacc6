//! One operation in flight per communicator: how launches on different streams are ordered.

use crate::backend::CaptureState;
use crate::stream::{Event, Stream};
use crate::symmetric::WindowInner;
use crate::{ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;

/// The streams that the communicator's operations went to last.
#[derive(Debug)]
pub(crate) struct StreamOrder {
    event: Event,
    last_eager: Option<Stream>,
    /// The capture that took the last captured operation, and the stream in it.
    last_captured: Option<(u64, Stream)>,
    /// Windows that captured graphs use. They live as long as the communicator: a graph may be replayed till then.
    captured_windows: Vec<Arc<WindowInner>>,
}

impl StreamOrder {
    pub(crate) fn new(event: Event) -> Self {
        Self { event, last_eager: None, last_captured: None, captured_windows: Vec::new() }
    }

    /// Puts the next operation, on `stream`, behind the one before it.
    ///
    /// Eager operations are ordered by an event when the stream changes. Captured ones are ordered inside their capture
    /// only; replays are ordered by the caller.
    pub(crate) fn enter(&mut self, stream: &Stream, windows: [&Arc<WindowInner>; 2]) -> Result<()> {
        match stream.capture_state()? {
            CaptureState::None => self.enter_eager(stream),
            CaptureState::Active(id) => self.enter_captured(id, stream, windows),
            CaptureState::Invalidated => {
                Err(capture("the stream's capture has failed; end it before more work is captured"))
            }
        }
    }

    /// Waits until the last eager operation is done.
    pub(crate) fn quiesce(&self, timeout: Duration) -> Result<()> {
        let Some(stream) = &self.last_eager else { return Ok(()) };
        self.refuse_capture(stream)?;
        self.event.record(stream)?;
        self.event.wait(timeout)
    }

    /// Refuses what cannot be done while an operation of this communicator is being captured.
    pub(crate) fn refuse_in_capture(&self, what: &str) -> Result<()> {
        let captured = self.last_captured.as_ref().map(|(_, stream)| stream);
        for stream in [captured, self.last_eager.as_ref()].into_iter().flatten() {
            if stream.capture_state()? != CaptureState::None {
                return Err(capture(&format!(
                    "{what} while a stream is being captured; do it before the capture"
                )));
            }
        }
        Ok(())
    }

    fn enter_eager(&mut self, stream: &Stream) -> Result<()> {
        if let Some((_, captured)) = &self.last_captured {
            self.refuse_capture(captured)?;
            self.last_captured = None;
        }
        if let Some(last) = self.last_eager.as_ref().filter(|last| *last != stream) {
            self.refuse_capture(last)?;
            self.event.record(last)?;
            stream.wait_event(&self.event)?;
        }
        if self.last_eager.as_ref() != Some(stream) {
            self.last_eager = Some(stream.clone());
        }
        Ok(())
    }

    fn enter_captured(&mut self, id: u64, stream: &Stream, windows: [&Arc<WindowInner>; 2]) -> Result<()> {
        let before = self.last_captured.as_ref().filter(|(last_id, last)| *last_id == id && last != stream);
        if let Some((_, last)) = before {
            self.event.record(last)?;
            stream.wait_event(&self.event)?;
        }
        self.last_captured = Some((id, stream.clone()));
        for window in windows {
            if !self.captured_windows.iter().any(|kept| Arc::ptr_eq(kept, window)) {
                self.captured_windows.push(window.clone());
            }
        }
        Ok(())
    }

    fn refuse_capture(&self, last: &Stream) -> Result<()> {
        match last.capture_state()? {
            CaptureState::None => Ok(()),
            _ => Err(capture(
                "the stream of the communicator's last operation is being captured now, so nothing outside that \
                 capture can wait for it; end the capture first, or use a stream of it",
            )),
        }
    }
}

fn capture(what: &str) -> crate::Error {
    ErrorKind::Capture { what: what.to_owned() }.into()
}
