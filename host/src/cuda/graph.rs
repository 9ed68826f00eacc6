//! Stream capture and graphs (CUDA driver API, section 6.24 "Graph Management").

use super::check::call;
use super::device::Devices;
use super::handle;
use crate::backend::{CaptureState, GraphExecHandle, GraphFacts, GraphHandle, StreamHandle, Token};
use crate::{ErrorKind, Result};
use cust_raw::{
    CUgraph, CUgraphNode, CUgraphNodeType, CUstreamCaptureMode, CUstreamCaptureStatus, CUuserObject,
};
use std::ffi::{c_uint, c_void};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which every user object must have.
const NO_DESTRUCTOR_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the caller's references become the graph's.
const MOVE: c_uint = 1;

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
    devices.within(handle::device(stream.0), |_| Ok(capture_info(stream)?.0))
}

/// Whether a stream is being captured, and into which graph.
fn capture_info(stream: StreamHandle) -> Result<(CaptureState, CUgraph)> {
    const ACTIVE: i32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE as i32;
    const NONE: i32 = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as i32;
    let (mut status, mut id, mut graph) = (NONE, 0, std::ptr::null_mut());
    let (dependencies, n) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the handle is that of a live stream; the out-pointers live through the call or are null, which asks for
    // nothing.
    unsafe {
        call!(
            cuStreamGetCaptureInfo_v2(
                handle::pointer(stream.0),
                &mut status,
                &mut id,
                &mut graph,
                dependencies,
                n
            ),
            "stream {:#x}",
            stream.0
        )
    }?;
    let state = match status {
        NONE => CaptureState::None,
        ACTIVE => CaptureState::Active(id),
        _ => CaptureState::Invalidated,
    };
    Ok((state, graph))
}

/// Keeps `token` with the graph that a stream is being captured into, by a user object that the graph owns.
pub(super) fn capture_retain(devices: &Devices, stream: StreamHandle, token: Token) -> Result<()> {
    devices.within(handle::device(stream.0), |_| {
        let (state, graph) = capture_info(stream)?;
        if !matches!(state, CaptureState::Active(_)) {
            let what =
                format!("stream {:#x} is not being captured, so no graph can keep anything for it", stream.0);
            return Err(ErrorKind::Capture { what }.into());
        }
        let object = user_object(token)?;
        // SAFETY: the graph is alive while it is captured into, and may be added to; the one reference to the object
        // moves to it.
        let moved = unsafe { call!(cuGraphRetainUserObject(graph, object, 1, MOVE), "graph {graph:p}") };
        moved.or_else(|error| {
            // SAFETY: the reference did not move.
            unsafe { call!(cuUserObjectRelease(object, 1), "a user object") }?;
            Err(error)
        })
    })
}

/// A user object with one reference that drops the token when the last reference goes.
fn user_object(token: Token) -> Result<CUuserObject> {
    let token = Box::into_raw(Box::new(token));
    let mut object = std::ptr::null_mut();
    // SAFETY: the out-pointer lives through the call; `release` takes what `token` points to, once.
    let created = unsafe {
        call!(cuUserObjectCreate(&mut object, token.cast(), Some(release), 1, NO_DESTRUCTOR_SYNC), "a token")
    };
    if created.is_err() {
        // SAFETY: no object took it.
        drop(unsafe { Box::from_raw(token) });
    }
    created.map(|()| object)
}

/// Drops a token, on a thread of the driver. Its destructor makes no call of CUDA.
///
/// # Safety
/// `token` came from [`user_object`] and is not used again.
unsafe extern "C" fn release(token: *mut c_void) {
    // SAFETY: by this function's contract.
    drop(unsafe { Box::from_raw(token.cast::<Token>()) });
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
