//! What a communicator's worker asks of the operations in flight, and what captured ones keep alive.

use crate::Result;
use crate::backend::Token;
use crate::comm::init::Process;
use crate::comm::record::Record;
use crate::comm::worker::{Shared, lock};
use crate::kernels::Kernels;
use crate::machine::Released;
use crate::stream::Event;
use crate::symmetric::WindowInner;
use std::sync::Arc;

/// The operations of one rank, as its worker sees them.
pub(crate) struct Operations<'a> {
    pub(crate) shared: &'a Shared,
    /// The worker's own, so that it waits without keeping launches out.
    pub(crate) event: &'a Event,
}

impl Operations<'_> {
    /// Whether an end of the last operation can be waited for: not while its stream is being captured.
    pub(crate) fn can_be_waited_for(&self) -> Result<bool> {
        lock(&self.shared.order).is_outside_capture()
    }

    /// Waits, a bounded time, until the last eager operation is done. Launches go on meanwhile.
    pub(crate) fn wait(&self) -> Result<()> {
        let is_recorded = lock(&self.shared.order).record_last(self.event)?;
        if is_recorded { self.event.wait(self.shared.host_timeout) } else { Ok(()) }
    }
}

/// What a graph keeps until it has gone.
#[derive(Debug)]
struct Kept<T: Send + Sync + 'static> {
    released: Arc<Released>,
    held: Option<Box<T>>,
}

/// A token that holds `held`, and hands it over when the graph has gone.
pub(crate) fn keep<T: Send + Sync + 'static>(released: &Arc<Released>, held: T) -> Token {
    Token::new(Kept { released: released.clone(), held: Some(Box::new(held)) })
}

/// On whatever thread the machine likes: only a queue is touched.
impl<T: Send + Sync + 'static> Drop for Kept<T> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.released.push(held);
        }
    }
}

/// What the kernels of a captured operation touch, held for its destructors. Its graph may be launched as long as all ranks'
/// graphs live.
#[derive(Debug)]
pub(crate) struct Touched {
    _windows: Vec<Arc<WindowInner>>,
    _kernels: Arc<Kernels>,
    _record: Arc<Record>,
    _process: Arc<Process>,
}

impl Touched {
    pub(crate) fn new(
        windows: &[&Arc<WindowInner>],
        kernels: &Arc<Kernels>,
        record: &Arc<Record>,
        process: &Arc<Process>,
    ) -> Self {
        Self {
            _windows: windows.iter().copied().cloned().collect(),
            _kernels: kernels.clone(),
            _record: record.clone(),
            _process: process.clone(),
        }
    }
}
