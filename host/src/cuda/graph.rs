//! Stream capture and graphs (CUDA driver API, section 6.24 "Graph Management").

use super::check::call;
use super::device::Devices;
use super::handle;
use crate::Result;
use crate::backend::{CaptureState, GraphExecHandle, GraphFacts, GraphHandle, StreamHandle};
use cust_raw::{CUgraph, CUgraphNode, CUgraphNodeType, CUstreamCaptureMode, CUstreamCaptureStatus};

/// Starts to capture a stream; other threads go on as they are.
pub(super) fn capture_begin(devices: &Devices, stream: StreamHandle) -> Result<()> {
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: the handle is that of a live stream.
        unsafe { call!(cuStreamBeginCapture_v2(handle::pointer(stream.0), mode), "stream {:#x}", stream.0) }
    })
}

/// Ends a capture and gives the graph. A broken capture is ended too, and is an error.
pub(super) fn capture_end(devices: &Devices, stream: StreamHandle) -> Result<GraphHandle> {
    let device = handle::device(stream.0);
    devices.within(device, |_| {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the handle is that of a live stream; the out-pointer lives through the call.
        unsafe {
            call!(cuStreamEndCapture(handle::pointer(stream.0), &mut graph), "stream {:#x}", stream.0)
        }?;
        Ok(GraphHandle(handle::pack(device, graph)?))
    })
}

/// Whether a stream is being captured.
pub(super) fn capture_state(devices: &Devices, stream: StreamHandle) -> Result<CaptureState> {
    const ACTIVE: i32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE as i32;
    const NONE: i32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as i32;
    devices.within(handle::device(stream.0), |_| {
        let (mut status, mut id) = (NONE, 0);
        let (graph, dependencies, n) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the handle is that of a live stream; the out-pointers live through the call or are null, which asks
        // for nothing.
        unsafe {
            call!(
                cuStreamGetCaptureInfo_v2(
                    handle::pointer(stream.0),
                    &mut status,
                    &mut id,
                    graph,
                    dependencies,
                    n
                ),
                "stream {:#x}",
                stream.0
            )
        }?;
        Ok(match status {
            NONE => CaptureState::None,
            ACTIVE => CaptureState::Active(id),
            _ => CaptureState::Invalidated,
        })
    })
}

/// Counts the nodes at the top level of a graph; a child graph is one node.
pub(super) fn facts(devices: &Devices, graph: GraphHandle) -> Result<GraphFacts> {
    const KERNEL: i32 = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as i32;
    devices.within(handle::device(graph.0), |_| {
        let nodes = nodes(handle::pointer(graph.0))?;
        let kinds = nodes.iter().map(|node| kind(*node)).collect::<Result<Vec<_>>>()?;
        let n_kernel_nodes = kinds.iter().filter(|kind| **kind == KERNEL).count() as u32;
        Ok(GraphFacts { n_nodes: nodes.len() as u32, n_kernel_nodes })
    })
}

fn nodes(graph: CUgraph) -> Result<Vec<CUgraphNode>> {
    let mut n_nodes = 0;
    // SAFETY: a null list asks for the number alone.
    unsafe { call!(cuGraphGetNodes(graph, std::ptr::null_mut(), &mut n_nodes), "graph {graph:p}") }?;
    // The driver refuses to fill an empty list.
    if n_nodes == 0 {
        return Ok(Vec::new());
    }
    let mut nodes = vec![std::ptr::null_mut(); n_nodes];
    // SAFETY: the list has room for `n_nodes`.
    unsafe { call!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut n_nodes), "graph {graph:p}") }?;
    nodes.truncate(n_nodes);
    Ok(nodes)
}

/// Kind of a node as a number: a later driver knows kinds that the enum here lacks.
fn kind(node: CUgraphNode) -> Result<i32> {
    let mut kind = 0_i32;
    // SAFETY: the driver writes an `int`; the out-pointer lives through the call.
    unsafe { call!(cuGraphNodeGetType(node, (&raw mut kind).cast()), "node {node:p}") }?;
    Ok(kind)
}

/// Makes a graph executable.
pub(super) fn instantiate(devices: &Devices, graph: GraphHandle) -> Result<GraphExecHandle> {
    let device = handle::device(graph.0);
    devices.within(device, |_| {
        let mut exec = std::ptr::null_mut();
        // SAFETY: the handle is that of a live graph; the out-pointer lives through the call.
        unsafe {
            call!(cuGraphInstantiateWithFlags(&mut exec, handle::pointer(graph.0), 0), "graph {:#x}", graph.0)
        }?;
        Ok(GraphExecHandle(handle::pack(device, exec)?))
    })
}

/// Launches an executable graph into a stream.
pub(super) fn launch(devices: &Devices, exec: GraphExecHandle, stream: StreamHandle) -> Result<()> {
    devices.within(handle::device(stream.0), |_| {
        // SAFETY: both handles are live.
        unsafe {
            call!(
                cuGraphLaunch(handle::pointer(exec.0), handle::pointer(stream.0)),
                "graph {:#x}, stream {:#x}",
                exec.0,
                stream.0
            )
        }
    })
}

/// Destroys a graph.
pub(super) fn destroy(devices: &Devices, graph: GraphHandle) -> Result<()> {
    devices.within(handle::device(graph.0), |_| {
        // SAFETY: the handle came from `capture_end`; its owner destroys it once.
        unsafe { call!(cuGraphDestroy(handle::pointer(graph.0)), "graph {:#x}", graph.0) }
    })
}

/// Destroys an executable graph; launches of it still complete.
pub(super) fn exec_destroy(devices: &Devices, exec: GraphExecHandle) -> Result<()> {
    devices.within(handle::device(exec.0), |_| {
        // SAFETY: the handle came from `instantiate`; its owner destroys it once.
        unsafe { call!(cuGraphExecDestroy(handle::pointer(exec.0)), "graph {:#x}", exec.0) }
    })
}
