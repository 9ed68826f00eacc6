//! Streams, events and graphs: owners of what a machine orders work with.

use crate::backend::{
    CaptureState, EventHandle, GraphExecHandle, GraphFacts, GraphHandle, StreamHandle, Token,
};
use crate::machine::{Device, Machine};
use crate::{ErrorKind, Result};
use std::cell::Cell;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A queue of work on one device. Cloning gives another handle to the same stream.
#[derive(Clone, Debug)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

#[derive(Debug)]
struct StreamInner {
    device: Device,
    handle: StreamHandle,
    is_owned: bool,
}

impl Stream {
    /// Makes a stream on `device` that does not synchronise with the default stream.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn new(device: &Device) -> Result<Self> {
        let handle = device.machine().backend().stream_create(device.index())?;
        Ok(Self { inner: Arc::new(StreamInner { device: device.clone(), handle, is_owned: true }) })
    }

    /// Wraps a stream that somebody else owns, e.g. a `CUstream` of another library. It is not destroyed on drop.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Foreign`] for a stream of another device or machine.
    ///
    /// # Safety
    ///
    /// `raw` is a live stream, and stays alive as long as this value and every communicator that used it.
    pub unsafe fn from_raw(device: &Device, raw: u64) -> Result<Self> {
        // SAFETY: by this function's contract.
        let handle = unsafe { device.machine().backend().stream_adopt(device.index(), raw) }?;
        Ok(Self { inner: Arc::new(StreamInner { device: device.clone(), handle, is_owned: false }) })
    }

    /// The device it works on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The machine's word for it: a `CUstream` on GPUs.
    pub fn handle(&self) -> StreamHandle {
        self.inner.handle
    }

    /// The stream for another library's calls: a `CUstream` on GPUs, which is what CUDA's runtime calls `cudaStream_t`.
    /// It lives as long as any handle to it.
    pub fn raw(&self) -> u64 {
        self.machine().backend().stream_raw(self.handle())
    }

    /// Waits until all its work is done. Kernels of this crate end by themselves: each wait in them is bounded.
    ///
    /// # Errors
    ///
    /// A fault of the work, or a deadlock that the simulated machine found. What a communicator's kernels report is
    /// returned by [`crate::Comm::synchronize`], not here.
    pub fn synchronize(&self) -> Result<()> {
        let done = self.machine().backend().stream_synchronize(self.handle());
        self.machine().drain();
        done
    }

    /// Makes its later work wait for `event`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Foreign`] for an event of another machine; what the machine answers.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        event.machine.expect("the event", self.machine())?;
        self.machine().backend().stream_wait_event(self.handle(), event.handle)
    }

    /// Records what `work` puts into this stream instead of running it.
    ///
    /// # Errors
    ///
    /// What `work` returns, or what the machine says of the capture; the capture is ended in either case.
    pub fn capture(&self, work: impl FnOnce() -> Result<()>) -> Result<Graph> {
        let backend = self.machine().backend();
        backend.capture_begin(self.handle())?;
        let _counted = Capturing::begin();
        // A panic must not leave the stream capturing for ever.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let graph = backend.capture_end(self.handle());
        let graph = graph.map(|handle| Graph { machine: self.machine().clone(), handle });
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(graph)
    }

    /// A handle that does not keep it alive.
    pub(crate) fn downgrade(&self) -> WeakStream {
        WeakStream { inner: Arc::downgrade(&self.inner) }
    }

    /// Keeps `token` as long as the graph that it is being captured into.
    pub(crate) fn capture_retain(&self, token: Token) -> Result<()> {
        self.machine().backend().capture_retain(self.handle(), token)
    }

    pub(crate) fn capture_state(&self) -> Result<CaptureState> {
        self.machine().backend().capture_state(self.handle())
    }

    fn machine(&self) -> &Machine {
        self.inner.device.machine()
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.handle() == other.handle() && self.machine().is_same(other.machine())
    }
}

thread_local! {
    /// Captures that this thread is in.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
}

/// A capture of this thread, counted.
struct Capturing;

impl Capturing {
    fn begin() -> Self {
        CAPTURES.set(CAPTURES.get() + 1);
        Self
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        CAPTURES.set(CAPTURES.get() - 1);
    }
}

/// Whether this thread is in [`Stream::capture`], of whatever stream.
pub(crate) fn is_capturing() -> bool {
    CAPTURES.get() > 0
}

/// A stream that may be gone.
#[derive(Clone, Debug)]
pub(crate) struct WeakStream {
    inner: Weak<StreamInner>,
}

impl WeakStream {
    pub(crate) fn upgrade(&self) -> Option<Stream> {
        self.inner.upgrade().map(|inner| Stream { inner })
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        if self.is_owned {
            let machine = self.device.machine();
            machine.defer(machine.backend().stream_destroy(self.handle));
        }
    }
}

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    machine: Machine,
    handle: EventHandle,
}

impl Event {
    /// Makes an event on `device` that only orders.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn new(device: &Device) -> Result<Self> {
        Self::make(device, false)
    }

    /// Makes an event that also takes the time.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn with_timing(device: &Device) -> Result<Self> {
        Self::make(device, true)
    }

    fn make(device: &Device, timing: bool) -> Result<Self> {
        let handle = device.machine().backend().event_create(device.index(), timing)?;
        Ok(Self { machine: device.machine().clone(), handle })
    }

    /// Sets the mark behind the work now in `stream`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Foreign`] for a stream of another machine; what the machine answers.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.machine().expect("the stream", &self.machine)?;
        self.machine.backend().event_record(self.handle, stream.handle())
    }

    /// Microseconds from `start` to this event; `None` on the simulated machine, which has no time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Foreign`] for an event of another machine; what the machine answers, e.g. if either is not done.
    pub fn elapsed_us_since(&self, start: &Event) -> Result<Option<f64>> {
        start.machine.expect("the first event", &self.machine)?;
        self.machine.backend().event_elapsed_us(start.handle, self.handle)
    }

    /// Polls until the work before the mark is done.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Deadline`] after `timeout`, or a fault of the work.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.machine.backend().event_is_done(self.handle)? {
            if start.elapsed() > timeout {
                let what = "work in a stream".to_owned();
                let timeout_ms = timeout.as_millis() as u64;
                return Err(ErrorKind::Deadline { what, timeout_ms, missing: vec![] }.into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().event_destroy(self.handle));
    }
}

/// Captured work.
#[derive(Debug)]
pub struct Graph {
    machine: Machine,
    handle: GraphHandle,
}

impl Graph {
    /// Makes it executable.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn instantiate(&self) -> Result<GraphExec> {
        let handle = self.machine.backend().graph_instantiate(self.handle)?;
        Ok(GraphExec { machine: self.machine.clone(), handle })
    }

    /// Number and kind of its nodes.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn facts(&self) -> Result<GraphFacts> {
        self.machine.backend().graph_facts(self.handle)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().graph_destroy(self.handle));
        self.machine.drain();
    }
}

/// Captured work that can be launched again and again.
#[derive(Debug)]
pub struct GraphExec {
    machine: Machine,
    handle: GraphExecHandle,
}

impl GraphExec {
    /// Launches all of it into `stream`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Foreign`] for a stream of another machine; what the machine answers.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        stream.machine().expect("the stream", &self.machine)?;
        self.machine.backend().graph_launch(self.handle, stream.handle())
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().graph_exec_destroy(self.handle));
        self.machine.drain();
    }
}
