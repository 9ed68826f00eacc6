//! One operation in flight per communicator: how launches on different streams are ordered.

use crate::backend::{CaptureState, Token};
use crate::stream::{Event, Stream, WeakStream, is_capturing};
use crate::{ErrorKind, Result};
use std::time::Duration;

/// The streams that the communicator's operations went to last.
#[derive(Debug)]
pub(crate) struct StreamOrder {
    event: Event,
    last_eager: Option<Stream>,
    /// The capture that took the last captured operation, and the stream in it.
    last_captured: Option<(u64, Stream)>,
    /// Every live stream that took an operation.
    known: Vec<WeakStream>,
    /// Reasons to launch nothing.
    n_pauses: u32,
}

impl StreamOrder {
    pub(crate) fn new(event: Event) -> Self {
        Self { event, last_eager: None, last_captured: None, known: Vec::new(), n_pauses: 0 }
    }

    /// Lets no operation in before as many calls of [`Self::resume`].
    pub(crate) fn pause(&mut self) {
        self.n_pauses += 1;
    }

    /// See [`Self::pause`].
    pub(crate) fn resume(&mut self) {
        self.n_pauses -= 1;
    }

    /// Puts the next operation, on `stream`, behind the one before it. Where it is captured, the graph gets what it is
    /// to keep.
    ///
    /// Eager operations are ordered by an event when the stream changes. Captured ones are ordered inside their capture
    /// only; replays are ordered by the caller.
    pub(crate) fn enter(&mut self, stream: &Stream, kept: impl FnOnce() -> Token) -> Result<()> {
        if self.n_pauses > 0 {
            let hint = "Comm::prepare loads kernels now; wait for its end before the next operation".into();
            return Err(ErrorKind::NotPrepared { what: "this operation".into(), hint }.into());
        }
        match stream.capture_state()? {
            CaptureState::None => self.enter_eager(stream),
            CaptureState::Active(id) => {
                self.enter_captured(id, stream)?;
                stream.capture_retain(kept())
            }
            CaptureState::Invalidated => {
                Err(capture("the stream's capture has failed; end it before more work is captured"))
            }
        }
    }

    /// Waits until the last eager operation is done.
    pub(crate) fn quiesce(&self, timeout: Duration) -> Result<()> {
        if self.record_last(&self.event)? { self.event.wait(timeout) } else { Ok(()) }
    }

    /// Sets the mark behind the last eager operation, if there was one.
    pub(crate) fn record_last(&self, event: &Event) -> Result<bool> {
        let Some(stream) = &self.last_eager else { return Ok(false) };
        self.refuse_capture(stream)?;
        event.record(stream)?;
        Ok(true)
    }

    /// Whether the stream of the last eager operation is not being captured now.
    pub(crate) fn is_outside_capture(&self) -> Result<bool> {
        let state = self.last_eager.as_ref().map(Stream::capture_state).transpose()?;
        Ok(state.is_none_or(|state| state == CaptureState::None))
    }

    /// Refuses what cannot be done in a capture: of a stream that had an operation of this communicator, or by the calling
    /// thread. What another thread or library captures on other streams is not known here.
    pub(crate) fn refuse_in_capture(&self, what: &str) -> Result<()> {
        let mut is_captured = is_capturing();
        for stream in self.known.iter().filter_map(WeakStream::upgrade) {
            is_captured |= stream.capture_state()? != CaptureState::None;
        }
        if is_captured {
            let what = format!("{what} while a stream is being captured; do it before the capture");
            return Err(capture(&what));
        }
        Ok(())
    }

    fn know(&mut self, stream: &Stream) {
        self.known.retain(|known| known.upgrade().is_some_and(|known| known != *stream));
        self.known.push(stream.downgrade());
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
            self.know(stream);
        }
        Ok(())
    }

    fn enter_captured(&mut self, id: u64, stream: &Stream) -> Result<()> {
        let before = self.last_captured.as_ref().filter(|(last_id, last)| *last_id == id && last != stream);
        if let Some((_, last)) = before {
            self.event.record(last)?;
            stream.wait_event(&self.event)?;
        }
        self.last_captured = Some((id, stream.clone()));
        self.know(stream);
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
