//! Work beside that of a stream: forked from it, and joined again.

use super::operations::keep;
use crate::Result;
use crate::backend::CaptureState;
use crate::stream::{Event, Stream};

/// A stream for work beside another's, and the event that orders them.
#[derive(Debug)]
pub(crate) struct Fork {
    stream: Stream,
    event: Event,
}

impl Fork {
    fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self { stream: Stream::new(device)?, event: Event::new(device)? })
    }

    /// Puts `beside` into the fork of `stream`, and `work`, which goes to `stream` itself, beside it. What comes into `stream`
    /// later is behind both, also where one of them fails.
    ///
    /// # Errors
    ///
    /// What either returns, and what the machine answers.
    pub(crate) fn beside(
        &self,
        stream: &Stream,
        beside: impl FnOnce(&Stream) -> Result<()>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.event.record(stream)?;
        self.stream.wait_event(&self.event)?;
        let done = beside(&self.stream).and_then(|()| work());
        let joined = self.event.record(&self.stream).and_then(|()| stream.wait_event(&self.event));
        done.and(joined)
    }
}

/// Those of a communicator, made when they are needed: one for all eager operations, one for each capture in progress.
#[derive(Debug, Default)]
pub(crate) struct Forks(Vec<Fork>);

impl Forks {
    /// One that no other capture has: a stream that was drawn into a capture is part of it until that ends (CUDA driver API
    /// 6.18, `cuStreamBeginCapture`). A capture keeps it until its graph has gone: the capture would break if the stream were
    /// destroyed in it.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub(crate) fn of(&mut self, stream: &Stream) -> Result<&Fork> {
        let own = stream.capture_state()?;
        let mut free = None;
        for (index, fork) in self.0.iter().enumerate() {
            let state = fork.stream.capture_state()?;
            if state == CaptureState::None || state == own {
                free = Some(index);
                break;
            }
        }
        if free.is_none() {
            self.0.push(Fork::new(stream)?);
        }
        let fork = &self.0[free.unwrap_or(self.0.len() - 1)];
        if own != CaptureState::None {
            stream.capture_retain(keep(stream.device().machine().released(), fork.stream.clone()))?;
        }
        Ok(fork)
    }
}
