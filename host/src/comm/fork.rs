//! Work beside that of a stream: forked from it, and joined again.

use super::operations::keep;
use crate::Result;
use crate::backend::CaptureState;
use crate::stream::{Event, Stream};

/// A stream for work beside another's, and the event that orders them.
#[derive(Debug)]
struct Fork {
    stream: Stream,
    event: Event,
}

/// Those of a communicator, made when they are needed: one for all eager operations, one for each capture in progress.
#[derive(Debug, Default)]
pub(crate) struct Forks(Vec<Fork>);

impl Forks {
    /// Puts `beside` into a stream of its own, and `work`, which goes to `stream`, beside it. What comes into `stream` later
    /// is behind both, also where one of them fails. A capture keeps the fork until its graph has gone: a stream that is
    /// destroyed while it takes part breaks the capture.
    ///
    /// # Errors
    ///
    /// What either returns, and what the machine answers.
    pub(crate) fn beside(
        &mut self,
        stream: &Stream,
        beside: impl FnOnce(&Stream) -> Result<()>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let fork = self.free_for(stream)?;
        if stream.capture_state()? != CaptureState::None {
            stream.capture_retain(keep(stream.device().machine().released(), fork.stream.clone()))?;
        }
        fork.event.record(stream)?;
        fork.stream.wait_event(&fork.event)?;
        let done = beside(&fork.stream).and_then(|()| work());
        let joined = fork.event.record(&fork.stream).and_then(|()| stream.wait_event(&fork.event));
        done.and(joined)
    }

    /// One that no other capture has: a stream that was drawn into a capture is part of it until that ends (CUDA driver API
    /// 6.18, `cuStreamBeginCapture`).
    fn free_for(&mut self, stream: &Stream) -> Result<&Fork> {
        let own = stream.capture_state()?;
        for index in 0..self.0.len() {
            let state = self.0[index].stream.capture_state()?;
            if state == CaptureState::None || state == own {
                return Ok(&self.0[index]);
            }
        }
        let device = stream.device();
        self.0.push(Fork { stream: Stream::new(device)?, event: Event::new(device)? });
        Ok(&self.0[self.0.len() - 1])
    }
}
