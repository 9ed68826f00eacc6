//! Work that a communicator's worker has been asked for, and its result.

use crate::symmetric::{Window, WindowInner};
use crate::{Error, ErrorKind, Result};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where the worker leaves a result. Dropped without one, it says that nobody will.
#[derive(Debug)]
pub(crate) struct Promise<R> {
    slot: Arc<Slot<R>>,
}

/// The caller's side of a [`Promise`].
#[derive(Debug)]
pub(crate) struct Pending<R> {
    slot: Arc<Slot<R>>,
    what: &'static str,
    /// Longer than what the worker itself waits, so that its error arrives.
    deadline: Duration,
}

#[derive(Debug)]
struct Slot<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
}

#[derive(Debug)]
enum State<R> {
    Open,
    Done(Result<R>),
    Taken,
    Abandoned,
}

impl<R> Slot<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Promise<R> {
    /// A promise of `what`, and the side that waits for it up to `deadline`.
    pub(crate) fn new(what: &'static str, deadline: Duration) -> (Self, Pending<R>) {
        let slot = Arc::new(Slot { state: Mutex::new(State::Open), changed: Condvar::new() });
        (Self { slot: slot.clone() }, Pending { slot, what, deadline })
    }

    /// Keeps the promise. A result that nobody waits for any more is dropped.
    pub(crate) fn keep(self, result: Result<R>) {
        *self.slot.lock() = State::Done(result);
    }
}

impl<R> Drop for Promise<R> {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        if matches!(*state, State::Open) {
            *state = State::Abandoned;
        }
        self.slot.changed.notify_all();
    }
}

impl<R> Pending<R> {
    fn is_done(&self) -> bool {
        !matches!(*self.slot.lock(), State::Open)
    }

    /// Waits until there is a result, which stays where it is.
    fn wait_done(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        let mut state = self.slot.lock();
        while matches!(*state, State::Open) {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.slot.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn take(&self) -> Option<Result<R>> {
        let mut state = self.slot.lock();
        if matches!(*state, State::Open) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(result) => Some(result.map_err(|error| error.context(self.what))),
            taken => {
                let was_taken = matches!(taken, State::Taken);
                let detail = if was_taken { "its result was taken" } else { "its communicator has ended" };
                let what = self.what.to_owned();
                Some(Err(ErrorKind::Foreign { what, detail: detail.into() }.into()))
            }
        }
    }

    fn wait(&self, timeout: Duration) -> Result<R> {
        self.wait_done(timeout);
        self.take().unwrap_or_else(|| Err(self.late(timeout)))
    }

    fn late(&self, timeout: Duration) -> Error {
        let timeout_ms = timeout.as_millis() as u64;
        ErrorKind::Deadline { what: self.what.to_owned(), timeout_ms, missing: vec![] }.into()
    }
}

/// A registration in progress. Collective: it ends when all ranks have asked for the same.
///
/// Dropping it does not stop it; what it makes is then given back.
#[derive(Debug)]
#[must_use = "a registration that nobody waits for is given back"]
pub struct Registration<T> {
    pending: Pending<Arc<WindowInner>>,
    element: PhantomData<T>,
}

impl<T: Pod> Registration<T> {
    pub(crate) fn new(pending: Pending<Arc<WindowInner>>) -> Self {
        Self { pending, element: PhantomData }
    }

    pub(crate) fn watch(&self) -> Watch<Arc<WindowInner>> {
        self.pending.watch()
    }

    /// Whether [`Self::wait`] will return at once.
    pub fn is_done(&self) -> bool {
        self.pending.is_done()
    }

    /// The window or the error, once, if the registration has ended. Waits for nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::wait`]; [`ErrorKind::Foreign`] once the result was taken.
    pub fn poll(&mut self) -> Option<Result<Window<T>>> {
        self.pending.take().map(|result| result.map(Window::new))
    }

    /// Waits for all ranks, as long as the communicator's own deadlines allow.
    ///
    /// # Errors
    ///
    /// The same on all ranks: [`ErrorKind::Mismatch`] if they asked for different things, [`ErrorKind::RankFailed`] if
    /// one could not do its part ([`Error::cause`] says why), [`ErrorKind::Deadline`] if one did not come.
    pub fn wait(self) -> Result<Window<T>> {
        self.pending.wait(self.pending.deadline).map(Window::new)
    }

    /// As [`Self::wait`], but no longer than `timeout`. A registration that has not ended by then goes on without the
    /// caller, and its window is given back.
    ///
    /// # Errors
    ///
    /// As [`Self::wait`]; [`ErrorKind::Deadline`] after `timeout`.
    pub fn wait_for(self, timeout: Duration) -> Result<Window<T>> {
        self.pending.wait(timeout).map(Window::new)
    }
}

/// A deregistration in progress. Collective: it ends when all ranks have asked for the same window's.
#[derive(Debug)]
pub struct Deregistration {
    pending: Pending<bool>,
}

impl Deregistration {
    pub(crate) fn new(pending: Pending<bool>) -> Self {
        Self { pending }
    }

    pub(crate) fn watch(&self) -> Watch<bool> {
        self.pending.watch()
    }

    /// Whether [`Self::wait`] will return at once.
    pub fn is_done(&self) -> bool {
        self.pending.is_done()
    }

    /// Waits for all ranks; says whether the memory was unmapped on all of them, so that its addresses are free again.
    /// It was not if any rank still uses it: by a clone of the window, another window in the same allocation, or a
    /// captured graph. It goes when they have gone.
    ///
    /// # Errors
    ///
    /// The same on all ranks, as [`Registration::wait`]. The window is dropped in any case.
    pub fn wait(self) -> Result<bool> {
        self.pending.wait(self.pending.deadline)
    }
}

/// Kernels that are being loaded. Collective: it ends when all ranks have asked for the same.
#[derive(Debug)]
#[must_use = "operations are refused until it has ended"]
pub struct Preparation {
    pending: Pending<()>,
}

impl Preparation {
    pub(crate) fn new(pending: Pending<()>) -> Self {
        Self { pending }
    }

    pub(crate) fn watch(&self) -> Watch<()> {
        self.pending.watch()
    }

    /// Whether [`Self::wait`] will return at once.
    pub fn is_done(&self) -> bool {
        self.pending.is_done()
    }

    /// Waits until the kernels are loaded on all ranks.
    ///
    /// # Errors
    ///
    /// The same on all ranks, as [`Registration::wait`]; nothing is loaded then that was not before.
    pub fn wait(self) -> Result<()> {
        self.pending.wait(self.pending.deadline)
    }
}

/// Something in progress, whatever its result.
pub(crate) trait Awaited {
    /// Waits until it has ended, or its deadline has passed.
    fn wait_done(&self);
}

/// A second look at a [`Pending`], which leaves its result to the first.
#[derive(Debug)]
pub(crate) struct Watch<R>(Pending<R>);

impl<R> Awaited for Watch<R> {
    fn wait_done(&self) {
        self.0.wait_done(self.0.deadline);
    }
}

impl<R> Pending<R> {
    pub(crate) fn watch(&self) -> Watch<R> {
        Watch(Self { slot: self.slot.clone(), what: self.what, deadline: self.deadline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHAT: &str = "a test";

    #[test]
    fn a_result_is_given_once() {
        let (promise, pending) = Promise::new(WHAT, Duration::from_secs(60));
        assert!(!pending.is_done() && pending.take().is_none());
        promise.keep(Ok(7));
        assert!(pending.is_done());
        assert!(matches!(pending.wait(Duration::ZERO), Ok(7)));
        let again = pending.wait(Duration::ZERO).expect_err("it was taken");
        assert!(again.to_string().contains("taken"), "{again}");
    }

    #[test]
    fn a_promise_that_is_dropped_is_an_error_at_once() {
        let (promise, pending) = Promise::<()>::new(WHAT, Duration::from_secs(600));
        let waits = std::thread::spawn(move || pending.wait(pending.deadline));
        drop(promise);
        let error = waits.join().expect("no panic").expect_err("nobody kept it");
        assert!(error.to_string().contains("has ended"), "{error}");
    }

    #[test]
    fn a_caller_waits_no_longer_than_it_said() {
        let (promise, pending) = Promise::<()>::new(WHAT, Duration::from_secs(600));
        let error = pending.wait(Duration::from_millis(1)).expect_err("nobody kept it");
        assert!(matches!(error.kind(), ErrorKind::Deadline { timeout_ms: 1, .. }), "{error}");
        promise.keep(Ok(()));
        assert!(matches!(pending.take(), Some(Ok(()))), "a late result is still there");
    }

    #[test]
    fn a_watch_leaves_the_result() {
        let (promise, pending) = Promise::new(WHAT, Duration::from_secs(60));
        let watch = pending.watch();
        promise.keep(Ok(1));
        watch.wait_done();
        assert!(matches!(pending.take(), Some(Ok(1))));
    }
}
