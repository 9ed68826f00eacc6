//! The simulated driver: modules, streams, events, capture and graphs (CUDA driver API 6.10, 6.18, 6.19, 6.24).

mod capture;
mod copy;
mod event;
mod graph;
pub(crate) mod module;
mod parsed;
mod replace;
mod statics;
mod stream;
pub(crate) mod task;

use crate::backend::{EventHandle, FunctionHandle, GraphExecHandle, GraphHandle, ModuleHandle, StreamHandle};
use crate::{Error, Result};
use capture::Capture;
use event::{Event, Record};
use graph::{Exec, Graph};
use module::{Function, LoadedModule};
use std::collections::BTreeMap;
use std::sync::Arc;
use stream::Stream;
use task::Tasks;

use super::result::INVALID_HANDLE;

/// Numbers of live objects, for tests that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriverCounts {
    pub(crate) modules: usize,
    pub(crate) streams: usize,
    pub(crate) events: usize,
    pub(crate) graphs: usize,
    pub(crate) graph_execs: usize,
}

/// Everything that the host made, except memory.
#[derive(Debug, Default)]
pub(crate) struct Driver {
    next_handle: u64,
    modules: BTreeMap<ModuleHandle, LoadedModule>,
    functions: BTreeMap<FunctionHandle, Arc<Function>>,
    streams: BTreeMap<StreamHandle, Stream>,
    events: BTreeMap<EventHandle, Event>,
    captures: BTreeMap<u64, Capture>,
    graphs: BTreeMap<GraphHandle, Arc<Graph>>,
    execs: BTreeMap<GraphExecHandle, Exec>,
    /// Work in order.
    pub(crate) tasks: Tasks,
}

/// Finds what a handle stands for.
fn find<'t, H: Ord + std::fmt::Debug, T>(
    table: &'t BTreeMap<H, T>,
    handle: H,
    call: &'static str,
) -> Result<&'t T> {
    table.get(&handle).ok_or_else(|| dead(handle, call))
}

/// As [`find`], to change it.
fn find_mut<'t, H: Ord + std::fmt::Debug, T>(
    table: &'t mut BTreeMap<H, T>,
    handle: H,
    call: &'static str,
) -> Result<&'t mut T> {
    match table.get_mut(&handle) {
        Some(found) => Ok(found),
        None => Err(dead(handle, call)),
    }
}

#[cold]
fn dead(handle: impl std::fmt::Debug, call: &'static str) -> Error {
    INVALID_HANDLE.of(call, format!("{handle:?} is not alive"))
}

impl Driver {
    /// Numbers of live objects.
    pub(crate) fn counts(&self) -> DriverCounts {
        DriverCounts {
            modules: self.modules.len(),
            streams: self.streams.len(),
            events: self.events.len(),
            graphs: self.graphs.len(),
            graph_execs: self.execs.len(),
        }
    }

    fn next_handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    /// Drops all unfinished work. Every stream and event that had some remembers why.
    pub(crate) fn fail(&mut self, error: &Error) {
        for stream in self.streams.values_mut() {
            if stream.tail.is_some_and(|tail| !self.tasks.is_done(tail)) {
                stream.error = Some(error.clone());
            }
        }
        for event in self.events.values_mut() {
            if matches!(event.record, Record::Task(task) if !self.tasks.is_done(task)) {
                event.record = Record::Failed(error.clone());
            }
        }
        self.tasks.clear();
    }
}
