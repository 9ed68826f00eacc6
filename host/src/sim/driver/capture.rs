//! Capture of streams into a graph (CUDA driver API 6.18, `cuStreamBeginCapture`, thread-local mode).
//!
//! Copies and queries that concern no capturing stream are allowed to a thread that captures, as in CUDA when they are
//! made in relaxed mode (`cuThreadExchangeStreamCaptureMode`).

use super::graph::{Graph, Node, NodeIndex, Work};
use super::{Driver, find, find_mut};
use crate::Result;
use crate::backend::{CaptureState, GraphHandle, StreamHandle, Token};
use crate::sim::result::{
    CAPTURE_INVALIDATED, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, CAPTURE_WRONG_THREAD, ILLEGAL_STATE,
};
use std::sync::Arc;
use std::thread::ThreadId;

/// How a stream takes part in a capture.
#[derive(Debug)]
pub(super) struct StreamCapture {
    pub(super) id: u64,
    /// The nodes that the next one comes behind.
    pub(super) after: Vec<NodeIndex>,
}

/// A capture in progress.
#[derive(Debug)]
pub(super) struct Capture {
    origin: StreamHandle,
    thread: ThreadId,
    nodes: Vec<Node>,
    kept: Vec<Token>,
    invalidated: bool,
}

impl Driver {
    /// `cuStreamBeginCapture`.
    pub(crate) fn capture_begin(&mut self, handle: StreamHandle) -> Result<()> {
        const CALL: &str = "cuStreamBeginCapture";
        let id = self.next_handle();
        let stream = find_mut(&mut self.streams, handle, CALL)?;
        if stream.capture.is_some() {
            return Err(ILLEGAL_STATE.of(CALL, format!("{handle:?}, which is being captured already")));
        }
        stream.capture = Some(StreamCapture { id, after: Vec::new() });
        let thread = std::thread::current().id();
        let (nodes, kept) = (Vec::new(), Vec::new());
        self.captures.insert(id, Capture { origin: handle, thread, nodes, kept, invalidated: false });
        Ok(())
    }

    /// `cuStreamEndCapture`. Whatever the answer, the capture is over.
    pub(crate) fn capture_end(&mut self, handle: StreamHandle) -> Result<GraphHandle> {
        const CALL: &str = "cuStreamEndCapture";
        let Some(own) = &find(&self.streams, handle, CALL)?.capture else {
            return Err(ILLEGAL_STATE.of(CALL, format!("{handle:?}, which is not being captured")));
        };
        let (id, joined) = (own.id, own.after.clone());
        let capture = &self.captures[&id];
        if capture.origin != handle {
            self.invalidate(id);
            return Err(CAPTURE_UNMATCHED.of(CALL, format!("{handle:?}, on which the capture did not begin")));
        }
        if capture.thread != std::thread::current().id() {
            self.invalidate(id);
            return Err(
                CAPTURE_WRONG_THREAD.of(CALL, format!("{handle:?}, whose capture another thread began"))
            );
        }
        let unjoined = self.unjoined(id, &joined);
        for stream in self.streams.values_mut() {
            stream.capture.take_if(|part| part.id == id);
        }
        let capture = self.captures.remove(&id).expect("a stream names a live capture");
        if capture.invalidated {
            return Err(
                CAPTURE_INVALIDATED.of(CALL, format!("{handle:?}, whose capture an earlier call broke"))
            );
        }
        if let Some(stream) = unjoined {
            return Err(CAPTURE_UNJOINED.of(CALL, format!("{stream:?}, which was forked and not joined")));
        }
        let graph = GraphHandle(self.next_handle());
        self.graphs.insert(graph, Arc::new(Graph { nodes: capture.nodes, _kept: capture.kept }));
        Ok(graph)
    }

    /// A forked stream with work that nothing in `joined` comes behind.
    fn unjoined(&self, id: u64, joined: &[NodeIndex]) -> Option<StreamHandle> {
        let capture = &self.captures[&id];
        let mut reached = vec![false; capture.nodes.len()];
        let mut open = joined.to_vec();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend(&capture.nodes[node].after);
            }
        }
        self.streams.iter().find_map(|(&handle, stream)| {
            let part = stream.capture.as_ref().filter(|part| part.id == id)?;
            part.after.iter().any(|&node| !reached[node]).then_some(handle)
        })
    }

    /// `cuGraphRetainUserObject`, on the graph that a stream is being captured into.
    pub(crate) fn capture_retain(&mut self, handle: StreamHandle, token: Token) -> Result<()> {
        const CALL: &str = "cuGraphRetainUserObject";
        self.refuse_broken_capture(handle, CALL)?;
        let Some(part) = &find(&self.streams, handle, CALL)?.capture else {
            return Err(ILLEGAL_STATE.of(CALL, format!("{handle:?}, which is not being captured")));
        };
        self.captures.get_mut(&part.id).expect("a stream names a live capture").kept.push(token);
        Ok(())
    }

    /// `cuStreamIsCapturing`, with the capture's id.
    pub(crate) fn capture_state(&self, handle: StreamHandle) -> Result<CaptureState> {
        Ok(match &find(&self.streams, handle, "cuStreamGetCaptureInfo")?.capture {
            None => CaptureState::None,
            Some(part) if self.captures[&part.id].invalidated => CaptureState::Invalidated,
            Some(part) => CaptureState::Active(part.id),
        })
    }

    /// Adds a node behind what the capturing stream has done so far.
    pub(super) fn capture_node(
        &mut self,
        handle: StreamHandle,
        work: Work,
        call: &'static str,
    ) -> Result<()> {
        self.refuse_broken_capture(handle, call)?;
        let stream = find_mut(&mut self.streams, handle, call)?;
        let part = stream.capture.as_mut().expect("the caller saw a capture");
        let nodes = &mut self.captures.get_mut(&part.id).expect("a stream names a live capture").nodes;
        nodes.push(Node { work, after: std::mem::take(&mut part.after) });
        part.after = vec![nodes.len() - 1];
        Ok(())
    }

    /// Makes a stream part of a capture and puts its next node behind `nodes` too.
    pub(super) fn draw_in(&mut self, handle: StreamHandle, id: u64, nodes: &[NodeIndex]) -> Result<()> {
        let stream = find_mut(&mut self.streams, handle, "cuStreamWaitEvent")?;
        let part = stream.capture.get_or_insert(StreamCapture { id, after: Vec::new() });
        part.after.extend(nodes);
        part.after.sort_unstable();
        part.after.dedup();
        Ok(())
    }

    /// Breaks a capture, if it is still in progress.
    pub(super) fn invalidate(&mut self, id: u64) {
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.invalidated = true;
        }
    }

    /// Refuses work on a stream whose capture is broken.
    pub(super) fn refuse_broken_capture(&self, handle: StreamHandle, call: &'static str) -> Result<()> {
        match self.capture_state(handle)? {
            CaptureState::Invalidated => {
                Err(CAPTURE_INVALIDATED.of(call, format!("{handle:?}, whose capture an earlier call broke")))
            }
            _ => Ok(()),
        }
    }
}
