//! Graphs: captured work that can be launched again and again.

use super::module::Launch;
use super::task::TaskId;
use super::{Driver, find, find_mut};
use crate::Result;
use crate::backend::{GraphExecHandle, GraphFacts, GraphHandle, StreamHandle, Token};
use std::sync::Arc;

/// A node's place in its graph. Nodes come behind what they wait for.
pub(super) type NodeIndex = usize;

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A kernel.
    Kernel(Arc<Launch>),
    /// A copy, by a kernel of the machine's own.
    Copy(Arc<Launch>),
    /// A whole graph, from a graph launch that was captured.
    Child(Arc<Graph>),
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) work: Work,
    pub(super) after: Vec<NodeIndex>,
}

/// A graph.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Held for its destructors.
    pub(super) _kept: Vec<Token>,
}

/// An executable graph. Launches of one never overlap.
#[derive(Debug)]
pub(super) struct Exec {
    graph: Arc<Graph>,
    last: Option<TaskId>,
}

impl Driver {
    /// Counts nodes (`cuGraphGetNodes`).
    pub(crate) fn graph_facts(&self, handle: GraphHandle) -> Result<GraphFacts> {
        let nodes = &find(&self.graphs, handle, "cuGraphGetNodes")?.nodes;
        let n_kernel_nodes = nodes.iter().filter(|node| matches!(node.work, Work::Kernel(_))).count();
        Ok(GraphFacts { n_nodes: nodes.len() as u32, n_kernel_nodes: n_kernel_nodes as u32 })
    }

    /// `cuGraphInstantiate`.
    pub(crate) fn graph_instantiate(&mut self, handle: GraphHandle) -> Result<GraphExecHandle> {
        let graph = find(&self.graphs, handle, "cuGraphInstantiate")?.clone();
        let exec = GraphExecHandle(self.next_handle());
        self.execs.insert(exec, Exec { graph, last: None });
        Ok(exec)
    }

    /// `cuGraphLaunch`, or a child node when the stream is being captured.
    pub(crate) fn graph_launch(&mut self, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        const CALL: &str = "cuGraphLaunch";
        let Exec { graph, last } = find(&self.execs, exec, CALL)?;
        let (graph, last) = (graph.clone(), *last);
        let found = find(&self.streams, stream, CALL)?;
        if found.capture.is_some() {
            return self.capture_node(stream, Work::Child(graph), CALL);
        }
        let entry: Vec<TaskId> = found.tail.into_iter().chain(last).collect();
        let done = self.add_nodes(&graph, &entry);
        find_mut(&mut self.streams, stream, CALL)?.tail = Some(done);
        find_mut(&mut self.execs, exec, CALL)?.last = Some(done);
        Ok(())
    }

    /// Adds a graph's work behind `entry`; gives the task that ends it.
    fn add_nodes(&mut self, graph: &Arc<Graph>, entry: &[TaskId]) -> TaskId {
        let mut tasks: Vec<TaskId> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let behind: Vec<TaskId> = node.after.iter().map(|&index| tasks[index]).collect();
            let behind = if behind.is_empty() { entry } else { &behind };
            tasks.push(match &node.work {
                Work::Kernel(launch) | Work::Copy(launch) => self.tasks.add(Some(launch.clone()), behind),
                Work::Child(child) => self.add_nodes(child, behind),
            });
        }
        tasks.extend(entry);
        self.tasks.add_end(graph.clone(), &tasks)
    }

    /// `cuGraphDestroy`. Executable graphs made of it live on.
    pub(crate) fn graph_destroy(&mut self, handle: GraphHandle) -> Result<()> {
        find(&self.graphs, handle, "cuGraphDestroy")?;
        self.graphs.remove(&handle);
        Ok(())
    }

    /// `cuGraphExecDestroy`. Launches of it still complete.
    pub(crate) fn graph_exec_destroy(&mut self, handle: GraphExecHandle) -> Result<()> {
        find(&self.execs, handle, "cuGraphExecDestroy")?;
        self.execs.remove(&handle);
        Ok(())
    }
}
