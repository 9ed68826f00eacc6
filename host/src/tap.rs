//! A machine whose calls can be watched and refused: for tests of faults, and to measure what calls leave behind.

use crate::Result;
use crate::backend::{
    Access, Backend, CaptureState, DeviceFacts, EventHandle, FabricHandle, FunctionFacts, FunctionHandle,
    Granularity, GraphExecHandle, GraphFacts, GraphHandle, HostMapped, LaunchShape, MachineKind,
    ModuleHandle, PhysicalHandle, PointerFacts, StreamHandle, Token, WorkCounters,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// One call of the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The method of [`Backend`].
    pub name: &'static str,
    /// The device that it is about: the one it names, or the one that owns what it names; `None` where there is none,
    /// e.g. for addresses that nothing is mapped to.
    pub device: Option<u32>,
    /// Bytes that it is about; 0 where there are none.
    pub len_bytes: u64,
}

/// Who watches.
pub trait Watch: Debug + Send + Sync {
    /// Called before each call; an error is the call's answer, and the machine never sees it.
    ///
    /// # Errors
    ///
    /// What the watcher wants the call to answer.
    fn before(&self, call: &Call) -> Result<()>;

    /// Called when a call has succeeded; an error is the call's answer in its place. What such a call has made is lost.
    ///
    /// # Errors
    ///
    /// What the watcher wants the call to answer.
    fn after(&self, call: &Call) -> Result<()>;
}

impl<W: Watch + ?Sized> Watch for Arc<W> {
    fn before(&self, call: &Call) -> Result<()> {
        (**self).before(call)
    }

    fn after(&self, call: &Call) -> Result<()> {
        (**self).after(call)
    }
}

/// A machine with a watcher.
#[derive(Debug)]
pub struct Tap<W> {
    inner: Arc<dyn Backend>,
    watch: W,
    owners: Mutex<BTreeMap<Object, u32>>,
}

/// Something that belongs to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Physical(PhysicalHandle),
    /// The first address of a mapping.
    Address(u64),
    Stream(StreamHandle),
    Event(EventHandle),
    Module(ModuleHandle),
    Function(FunctionHandle),
    Graph(GraphHandle),
    GraphExec(GraphExecHandle),
}

/// What a call is about.
enum About {
    Device(u32),
    Object(Object),
    Nothing,
}

use About::{Device, Nothing};

impl From<Object> for About {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl<W: Watch> Tap<W> {
    /// `inner`, watched.
    pub fn new(inner: Arc<dyn Backend>, watch: W) -> Self {
        Self { inner, watch, owners: Mutex::default() }
    }

    /// The watcher.
    pub fn watch(&self) -> &W {
        &self.watch
    }

    fn owner(&self, about: About) -> Option<u32> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        match about {
            Device(device) => Some(device),
            Nothing => None,
            // An address inside a mapping belongs to the mapping that starts last before it.
            About::Object(Object::Address(address)) => {
                let below = owners.range(Object::Address(0)..=Object::Address(address));
                below.last().map(|(_, device)| *device)
            }
            About::Object(object) => owners.get(&object).copied(),
        }
    }

    /// Makes a call; what it makes belongs to the call's device.
    fn call<T>(
        &self,
        name: &'static str,
        (about, len_bytes): (About, u64),
        make: impl FnOnce() -> Result<T>,
        made: impl FnOnce(&T) -> Option<Object>,
    ) -> Result<T> {
        let call = Call { name, device: self.owner(about), len_bytes };
        self.watch.before(&call)?;
        let value = make()?;
        if let (Some(object), Some(device)) = (made(&value), call.device) {
            self.owners.lock().unwrap_or_else(PoisonError::into_inner).insert(object, device);
        }
        self.watch.after(&call)?;
        Ok(value)
    }
}

/// Writes methods that pass a call on: `name(arguments) -> what it gives; what it is about, its bytes; what it makes`.
macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;
        $about:expr, $len_bytes:expr; $made:expr;)*) => {$(
        fn $name(&self, $($argument: $type),*) -> Result<$result> {
            let about = ($about.into(), $len_bytes);
            self.call(stringify!($name), about, || self.inner.$name($($argument),*), $made)
        }
    )*};
}

// SAFETY: what it gives is what the machine behind it gave.
unsafe impl<W: Watch> Backend for Tap<W> {
    fn kind(&self) -> MachineKind {
        self.inner.kind()
    }

    fn device_count(&self) -> u32 {
        self.inner.device_count()
    }

    fn counters(&self) -> Option<WorkCounters> {
        self.inner.counters()
    }

    fn stream_raw(&self, stream: StreamHandle) -> u64 {
        self.inner.stream_raw(stream)
    }

    unsafe fn stream_adopt(&self, device: u32, raw: u64) -> Result<StreamHandle> {
        // SAFETY: by this function's contract, which is the same.
        let adopt = || unsafe { self.inner.stream_adopt(device, raw) };
        self.call("stream_adopt", (Device(device), 0), adopt, |stream| Some(Object::Stream(*stream)))
    }

    passed_on! {
        fn device_facts(device: u32) -> DeviceFacts; Device(device), 0; |_| None;
        fn driver_version() -> (u32, u32); Nothing, 0; |_| None;
        fn can_access_peer(device: u32, peer: u32) -> bool; Device(device), 0; |_| None;
        fn granularity(device: u32) -> Granularity; Device(device), 0; |_| None;
        fn memory_free_bytes(device: u32) -> u64; Device(device), 0; |_| None;
        fn mem_create(device: u32, len_bytes: u64) -> PhysicalHandle;
            Device(device), len_bytes; |made| Some(Object::Physical(*made));
        fn mem_release(physical: PhysicalHandle) -> (); Object::Physical(physical), 0; |_| None;
        fn mem_retain(address: u64) -> PhysicalHandle;
            Object::Address(address), 0; |made| Some(Object::Physical(*made));
        fn mem_is_exportable(physical: PhysicalHandle) -> bool; Object::Physical(physical), 0; |_| None;
        fn mem_export(physical: PhysicalHandle) -> OwnedFd; Object::Physical(physical), 0; |_| None;
        fn mem_import(fd: BorrowedFd<'_>) -> PhysicalHandle; Nothing, 0; |_| None;
        fn mem_create_fabric(device: u32, len_bytes: u64) -> PhysicalHandle;
            Device(device), len_bytes; |made| Some(Object::Physical(*made));
        fn mem_export_fabric(physical: PhysicalHandle) -> FabricHandle; Object::Physical(physical), 0; |_| None;
        fn mem_import_fabric(handle: &FabricHandle) -> PhysicalHandle; Nothing, 0; |_| None;
        fn address_reserve(len_bytes: u64, align_bytes: u64, hint: u64) -> u64; Nothing, len_bytes; |_| None;
        fn address_free(address: u64, len_bytes: u64) -> (); Nothing, len_bytes; |_| None;
        fn mem_map(address: u64, len_bytes: u64, physical: PhysicalHandle) -> ();
            Object::Physical(physical), len_bytes; |()| Some(Object::Address(address));
        fn mem_unmap(address: u64, len_bytes: u64) -> (); Object::Address(address), len_bytes; |_| None;
        fn mem_set_access(address: u64, len_bytes: u64, device: u32, access: Access) -> ();
            Object::Address(address), len_bytes; |_| None;
        fn mem_alloc(device: u32, len_bytes: u64) -> u64;
            Device(device), len_bytes; |made| Some(Object::Address(*made));
        fn mem_free(device: u32, address: u64) -> (); Device(device), 0; |_| None;
        fn multicast_supported(device: u32) -> bool; Device(device), 0; |_| None;
        fn multicast_granularity(n_devices: u32, len_bytes: u64) -> Granularity; Nothing, len_bytes; |_| None;
        fn multicast_create(n_devices: u32, len_bytes: u64) -> PhysicalHandle; Nothing, len_bytes; |_| None;
        fn multicast_add_device(multicast: PhysicalHandle, device: u32) -> (); Device(device), 0; |_| None;
        fn multicast_bind(
            multicast: PhysicalHandle, offset_bytes: u64,
            physical: PhysicalHandle, physical_offset_bytes: u64, len_bytes: u64
        ) -> (); Object::Physical(physical), len_bytes; |_| None;
        fn multicast_unbind(multicast: PhysicalHandle, device: u32, offset_bytes: u64, len_bytes: u64) -> ();
            Device(device), len_bytes; |_| None;
        fn pointer_facts(address: u64) -> PointerFacts; Object::Address(address), 0; |_| None;
        fn host_alloc(len_bytes: u64) -> HostMapped; Nothing, len_bytes; |_| None;
        fn host_free(memory: HostMapped) -> (); Nothing, memory.len_bytes; |_| None;

        fn write(device: u32, address: u64, source: &[u8]) -> (); Device(device), source.len() as u64; |_| None;
        fn read(device: u32, address: u64, target: &mut [u8]) -> (); Device(device), target.len() as u64; |_| None;
        fn fill(device: u32, address: u64, byte: u8, len_bytes: u64) -> (); Device(device), len_bytes; |_| None;
        fn copy_within_device(device: u32, from: u64, to: u64, len_bytes: u64) -> ();
            Device(device), len_bytes; |_| None;

        fn module_load(device: u32, ptx: &str, origin: &str) -> ModuleHandle;
            Device(device), ptx.len() as u64; |made| Some(Object::Module(*made));
        fn module_unload(module: ModuleHandle) -> (); Object::Module(module), 0; |_| None;
        fn function(module: ModuleHandle, name: &str) -> FunctionHandle;
            Object::Module(module), 0; |made| Some(Object::Function(*made));
        fn function_facts(function: FunctionHandle) -> FunctionFacts; Object::Function(function), 0; |_| None;
        fn resident_blocks(function: FunctionHandle, threads: u32, shared_bytes: u32) -> u32;
            Object::Function(function), 0; |_| None;

        fn stream_create(device: u32) -> StreamHandle; Device(device), 0; |made| Some(Object::Stream(*made));
        fn stream_destroy(stream: StreamHandle) -> (); Object::Stream(stream), 0; |_| None;
        fn stream_synchronize(stream: StreamHandle) -> (); Object::Stream(stream), 0; |_| None;
        fn stream_is_done(stream: StreamHandle) -> bool; Object::Stream(stream), 0; |_| None;
        fn event_create(device: u32, timing: bool) -> EventHandle;
            Device(device), 0; |made| Some(Object::Event(*made));
        fn event_destroy(event: EventHandle) -> (); Object::Event(event), 0; |_| None;
        fn event_record(event: EventHandle, stream: StreamHandle) -> (); Object::Event(event), 0; |_| None;
        fn event_is_done(event: EventHandle) -> bool; Object::Event(event), 0; |_| None;
        fn event_elapsed_us(start: EventHandle, end: EventHandle) -> Option<f64>;
            Object::Event(start), 0; |_| None;
        fn stream_wait_event(stream: StreamHandle, event: EventHandle) -> (); Object::Stream(stream), 0; |_| None;
        fn launch(stream: StreamHandle, function: FunctionHandle, shape: LaunchShape, argument: &[u8]) -> ();
            Object::Stream(stream), 0; |_| None;
        fn stream_copy(stream: StreamHandle, from: u64, to: u64, len_bytes: u64) -> ();
            Object::Stream(stream), len_bytes; |_| None;

        fn capture_begin(stream: StreamHandle) -> (); Object::Stream(stream), 0; |_| None;
        fn capture_end(stream: StreamHandle) -> GraphHandle;
            Object::Stream(stream), 0; |made| Some(Object::Graph(*made));
        fn capture_state(stream: StreamHandle) -> CaptureState; Object::Stream(stream), 0; |_| None;
        fn capture_retain(stream: StreamHandle, token: Token) -> (); Object::Stream(stream), 0; |_| None;
        fn graph_facts(graph: GraphHandle) -> GraphFacts; Object::Graph(graph), 0; |_| None;
        fn graph_instantiate(graph: GraphHandle) -> GraphExecHandle;
            Object::Graph(graph), 0; |made| Some(Object::GraphExec(*made));
        fn graph_launch(graph: GraphExecHandle, stream: StreamHandle) -> (); Object::Stream(stream), 0; |_| None;
        fn graph_destroy(graph: GraphHandle) -> (); Object::Graph(graph), 0; |_| None;
        fn graph_exec_destroy(graph: GraphExecHandle) -> (); Object::GraphExec(graph), 0; |_| None;
    }
}
