//! The seam: what a machine can do. `cuda` and `sim` implement it; nothing else knows a machine.
//!
//! The calls have the shape and the rules of the CUDA driver API (sections 6.13 "Virtual Memory Management", 6.15
//! "Multicast Object Management", 6.18 "Stream Management", 6.24 "Graph Management"). Handles are plain words: owners
//! with `Drop` are built on top, in [`crate::vmm`] and [`crate::stream`]. Every call may be made from any thread; a
//! machine makes its own contexts current.

use crate::Result;
use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};

macro_rules! handle {
    ($(#[$doc:meta] $name:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);
    )*};
}

handle! {
    /// A physical allocation or a multicast object (`CUmemGenericAllocationHandle`).
    PhysicalHandle;
    /// A stream (`CUstream`).
    StreamHandle;
    /// An event (`CUevent`).
    EventHandle;
    /// A loaded module (`CUmodule`).
    ModuleHandle;
    /// A kernel of a loaded module (`CUfunction`).
    FunctionHandle;
    /// A captured graph (`CUgraph`).
    GraphHandle;
    /// An executable graph (`CUgraphExec`).
    GraphExecHandle;
}

/// Which machine this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineKind {
    /// Real GPUs.
    Cuda,
    /// The simulated machine.
    Sim,
}

/// What is known of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Marketing name.
    pub name: String,
    /// UUID, 16 bytes.
    pub uuid: [u8; 16],
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Compute capability as major × 10 + minor, e.g. 90.
    pub sm: u32,
    /// Streaming multiprocessors.
    pub n_multiprocessors: u32,
}

/// Access that one device has to one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None: any access faults.
    None,
    /// Loads only.
    Read,
    /// Loads, stores and atomics.
    ReadWrite,
}

/// What a mapped address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerFacts {
    /// Start of the mapping that covers the address.
    pub mapping_base: u64,
    /// Length of that mapping in bytes.
    pub mapping_len_bytes: u64,
    /// The device that owns the memory.
    pub device: u32,
}

/// Multiples that sizes and addresses of memory on one device must have, powers of two
/// (`CUmemAllocationGranularity_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granularity {
    /// The least that works.
    pub minimum_bytes: u64,
    /// What works best: a multiple of the minimum.
    pub recommended_bytes: u64,
}

/// A name of a physical allocation that other hosts of a multi-node NVLink domain can import (`CUmemFabricHandle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricHandle(pub [u8; 64]);

/// Host memory that the devices can load and store, pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMapped {
    /// Address for the host.
    pub host: u64,
    /// Address for the devices.
    pub device: u64,
    /// Length in bytes.
    pub len_bytes: u64,
}

/// Shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in the (one-dimensional) grid.
    pub blocks: u32,
    /// Threads per (one-dimensional) block.
    pub threads: u32,
    /// Dynamic shared memory per block in bytes.
    pub shared_bytes: u32,
    /// The kernel waits by itself (`griddepcontrol.wait`) for the work before it in the stream, so that its launch may
    /// overlap the end of that work (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`).
    pub waits_itself: bool,
}

/// Limits of a loaded kernel on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionFacts {
    /// Largest number of threads per block, registers considered.
    pub threads_max: u32,
    /// Registers per thread.
    pub registers: u32,
}

/// Whether a stream is being captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureState {
    /// It is not.
    None,
    /// It is, under this id.
    Active(u64),
    /// It was, and the capture was broken.
    Invalidated,
}

/// Something that a captured graph keeps alive.
///
/// A machine drops it on whatever thread it likes, where no call of the machine is allowed (CUDA driver API 6.24,
/// `cuUserObjectCreate`): the destructor only hands over what it holds.
pub struct Token(Box<dyn Send + Sync>);

impl Token {
    /// Wraps what is to be kept.
    pub fn new(kept: impl Send + Sync + 'static) -> Self {
        Self(Box::new(kept))
    }
}

impl Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({:p})", self.0)
    }
}

/// What a graph consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphFacts {
    /// All nodes.
    pub n_nodes: u32,
    /// Kernel nodes among them.
    pub n_kernel_nodes: u32,
}

/// Work that the simulated machine counts; `None` on GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounters {
    /// PTX instructions interpreted, summed over all threads of all devices.
    pub instructions: u64,
    /// Bytes that loads, stores and atomics moved between two devices.
    pub link_bytes: u64,
    /// Longest chain of dependent link crossings so far: a remote store is 1, a remote load 2 (there and back).
    /// Grows monotonically; the difference over an operation is that operation's hops.
    pub hops: u64,
}

/// A machine.
///
/// # Errors
///
/// Each call returns what the machine answered. A refusal of the driver is [`Driver`](crate::ErrorKind::Driver), with
/// the function, the code and what it was given, and the simulated machine refuses as the driver would; a function that
/// the driver lacks is [`MissingSymbol`](crate::ErrorKind::MissingSymbol), a device that is not there
/// [`NoSuchDevice`](crate::ErrorKind::NoSuchDevice).
///
/// # Safety
///
/// Memory of [`Backend::host_alloc`] is at the host's address that it says, zeroed, and stays until it is freed; the rest
/// of this crate accesses it. The simulated machine checks what its calls are given; of the driver see
/// [`crate::Machine::raw_backend`].
#[expect(clippy::missing_errors_doc, reason = "the trait's documentation says it once for all calls")]
pub unsafe trait Backend: Debug + Send + Sync {
    /// Which machine this is.
    fn kind(&self) -> MachineKind;
    /// Number of devices; devices are named 0..n.
    fn device_count(&self) -> u32;
    /// Facts of `device`.
    fn device_facts(&self, device: u32) -> Result<DeviceFacts>;
    /// Highest CUDA version that the driver supports, (major, minor).
    fn driver_version(&self) -> Result<(u32, u32)>;
    /// Whether `device` can load and store memory of `peer`.
    fn can_access_peer(&self, device: u32, peer: u32) -> Result<bool>;

    /// Multiples that sizes and addresses of memory on `device` must have (`cuMemGetAllocationGranularity`).
    fn granularity(&self, device: u32) -> Result<Granularity>;
    /// Memory of `device` that nobody uses, in bytes (`cuMemGetInfo`).
    fn memory_free_bytes(&self, device: u32) -> Result<u64>;
    /// Makes a physical allocation on `device` that can be exported as a file descriptor (`cuMemCreate`).
    fn mem_create(&self, device: u32, len_bytes: u64) -> Result<PhysicalHandle>;
    /// Drops one reference to a physical allocation (`cuMemRelease`).
    fn mem_release(&self, physical: PhysicalHandle) -> Result<()>;
    /// The physical allocation behind any mapped address; adds a reference (`cuMemRetainAllocationHandle`).
    fn mem_retain(&self, address: u64) -> Result<PhysicalHandle>;
    /// Whether [`Backend::mem_export`] would export a physical allocation. Much cheaper than to export it
    /// (`cuMemGetAllocationPropertiesFromHandle`).
    fn mem_is_exportable(&self, physical: PhysicalHandle) -> Result<bool>;
    /// Exports a physical allocation (`cuMemExportToShareableHandle`, POSIX file descriptor).
    fn mem_export(&self, physical: PhysicalHandle) -> Result<OwnedFd>;
    /// Imports a physical allocation for use by this process (`cuMemImportFromShareableHandle`); the descriptor stays
    /// the caller's.
    fn mem_import(&self, fd: BorrowedFd<'_>) -> Result<PhysicalHandle>;
    /// Makes a physical allocation on `device` that can be exported as a fabric handle alone (`cuMemCreate` with
    /// `CU_MEM_HANDLE_TYPE_FABRIC`).
    fn mem_create_fabric(&self, device: u32, len_bytes: u64) -> Result<PhysicalHandle>;
    /// Exports an allocation of [`Backend::mem_create_fabric`] (`cuMemExportToShareableHandle`).
    fn mem_export_fabric(&self, physical: PhysicalHandle) -> Result<FabricHandle>;
    /// Imports a physical allocation by its fabric handle (`cuMemImportFromShareableHandle`).
    fn mem_import_fabric(&self, handle: &FabricHandle) -> Result<PhysicalHandle>;
    /// Reserves addresses (`cuMemAddressReserve`); `hint` 0 is none. The hint may be ignored.
    fn address_reserve(&self, len_bytes: u64, align_bytes: u64, hint: u64) -> Result<u64>;
    /// Gives a whole reservation back (`cuMemAddressFree`); nothing may be mapped in it.
    fn address_free(&self, address: u64, len_bytes: u64) -> Result<()>;
    /// Maps a whole physical allocation or multicast object into a reservation (`cuMemMap`). Nobody has access yet.
    /// Blocks until a multicast object's team is complete.
    fn mem_map(&self, address: u64, len_bytes: u64, physical: PhysicalHandle) -> Result<()>;
    /// Removes a whole mapping (`cuMemUnmap`).
    fn mem_unmap(&self, address: u64, len_bytes: u64) -> Result<()>;
    /// Sets `device`'s access to a whole mapping (`cuMemSetAccess`).
    fn mem_set_access(&self, address: u64, len_bytes: u64, device: u32, access: Access) -> Result<()>;
    /// Memory of `device` with an address, for that device alone (`cuMemAlloc`); its bytes are undefined. It can be
    /// neither exported nor retained.
    fn mem_alloc(&self, device: u32, len_bytes: u64) -> Result<u64>;
    /// Frees memory of [`Backend::mem_alloc`] on `device` by its first address (`cuMemFree`).
    fn mem_free(&self, device: u32, address: u64) -> Result<()>;

    /// Whether `device` can be in the team of a multicast object (`CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`). Where
    /// [`crate::multicast_switch`] is off none can, and nothing is asked.
    fn multicast_supported(&self, device: u32) -> Result<bool>;
    /// Multiples that offsets and sizes of a multicast object of `len_bytes` for `n_devices` must have
    /// (`cuMulticastGetGranularity`).
    fn multicast_granularity(&self, n_devices: u32, len_bytes: u64) -> Result<Granularity>;
    /// Makes a multicast object for a team of `n_devices`, which can be exported as a file descriptor
    /// (`cuMulticastCreate`). It is exported, imported, mapped (whole), and released as physical allocations are.
    fn multicast_create(&self, n_devices: u32, len_bytes: u64) -> Result<PhysicalHandle>;
    /// Puts `device` in the team, for the life of the object (`cuMulticastAddDevice`). Binding and mapping block until
    /// the team is complete.
    fn multicast_add_device(&self, multicast: PhysicalHandle, device: u32) -> Result<()>;
    /// Binds `len_bytes` of a physical allocation of one of the team's devices, from `physical_offset_bytes` on, at
    /// `offset_bytes` of the object (`cuMulticastBindMem`). Blocks until the team is complete.
    fn multicast_bind(
        &self,
        multicast: PhysicalHandle,
        offset_bytes: u64,
        physical: PhysicalHandle,
        physical_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()>;
    /// Undoes one binding of `device`'s memory, named by the offset and the length that it was made with
    /// (`cuMulticastUnbind`).
    fn multicast_unbind(
        &self,
        multicast: PhysicalHandle,
        device: u32,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()>;

    /// What `address` belongs to (`cuPointerGetAttribute`: mapping base and size, device ordinal).
    fn pointer_facts(&self, address: u64) -> Result<PointerFacts>;
    /// Pinned host memory that every device can access (`cuMemHostAlloc`, portable and mapped), zeroed.
    fn host_alloc(&self, len_bytes: u64) -> Result<HostMapped>;
    /// Frees host memory from [`Backend::host_alloc`].
    fn host_free(&self, memory: HostMapped) -> Result<()>;

    /// Copies to device memory; returns when `source` may be reused (`cuMemcpyHtoD`). Waits for no stream.
    fn write(&self, device: u32, address: u64, source: &[u8]) -> Result<()>;
    /// Copies from device memory; returns when the bytes are there (`cuMemcpyDtoH`). Waits for no stream.
    fn read(&self, device: u32, address: u64, target: &mut [u8]) -> Result<()>;
    /// Sets every byte of a range of `device`'s memory and waits for it (`cuMemsetD8`). Waits for no other stream.
    fn fill(&self, device: u32, address: u64, byte: u8, len_bytes: u64) -> Result<()>;

    /// Copies `len_bytes` from one place of `device`'s memory to another and waits for it (`cuMemcpyDtoD`); the ranges
    /// do not overlap. Waits for no other stream.
    fn copy_within_device(&self, device: u32, from: u64, to: u64, len_bytes: u64) -> Result<()>;

    /// Loads PTX on `device` (`cuModuleLoadData`). `origin` names it in errors.
    fn module_load(&self, device: u32, ptx: &str, origin: &str) -> Result<ModuleHandle>;
    /// Unloads a module.
    fn module_unload(&self, module: ModuleHandle) -> Result<()>;
    /// Finds a kernel in a module; the error names it when it is not there.
    fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle>;
    /// Limits of a kernel.
    fn function_facts(&self, function: FunctionHandle) -> Result<FunctionFacts>;
    /// Blocks of `threads` that can be resident on one multiprocessor at once.
    fn resident_blocks(&self, function: FunctionHandle, threads: u32, shared_bytes: u32) -> Result<u32>;

    /// Makes a stream that does not synchronise with the default stream.
    fn stream_create(&self, device: u32) -> Result<StreamHandle>;
    /// Takes a stream of `device` that other code made (`CUstream` on GPUs), so that it can be passed to this machine. It
    /// stays that code's to destroy.
    ///
    /// # Safety
    ///
    /// `raw` is a live stream, and stays so for as long as the handle is used.
    unsafe fn stream_adopt(&self, device: u32, raw: u64) -> Result<StreamHandle>;
    /// A stream as other code knows it: a `CUstream` on GPUs, what [`Backend::stream_adopt`] takes.
    fn stream_raw(&self, stream: StreamHandle) -> u64;
    /// Destroys a stream; work in it still completes.
    fn stream_destroy(&self, stream: StreamHandle) -> Result<()>;
    /// Waits until all work of a stream is done. A fault or deadlock of the simulated machine is returned here.
    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()>;
    /// Whether all work of a stream is done. On the simulated machine this runs a slice of the work first, so that a
    /// host that polls makes progress.
    fn stream_is_done(&self, stream: StreamHandle) -> Result<bool>;
    /// Makes an event on `device`; with `timing` for [`Backend::event_elapsed_us`].
    fn event_create(&self, device: u32, timing: bool) -> Result<EventHandle>;
    /// Destroys an event.
    fn event_destroy(&self, event: EventHandle) -> Result<()>;
    /// Records an event behind the work now in a stream.
    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;
    /// Whether all work that an event was recorded behind is done; true if it was never recorded.
    fn event_is_done(&self, event: EventHandle) -> Result<bool>;
    /// Time between two recorded events in microseconds; `None` on the simulated machine, which has no time.
    fn event_elapsed_us(&self, start: EventHandle, end: EventHandle) -> Result<Option<f64>>;
    /// Makes later work of a stream wait for an event.
    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;
    /// Launches a kernel with one argument, a structure by value, as bytes.
    fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        argument: &[u8],
    ) -> Result<()>;
    /// Copies `len_bytes` from one address to another behind the work of a stream (`cuMemcpyDtoDAsync`); either may be that
    /// of a peer's memory, and the ranges do not overlap. In a capture it becomes a copy node.
    fn stream_copy(&self, stream: StreamHandle, from: u64, to: u64, len_bytes: u64) -> Result<()>;

    /// Starts to capture a stream (`cuStreamBeginCapture`, thread-local mode).
    fn capture_begin(&self, stream: StreamHandle) -> Result<()>;
    /// Ends a capture and gives the graph.
    fn capture_end(&self, stream: StreamHandle) -> Result<GraphHandle>;
    /// Whether a stream is being captured.
    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState>;
    /// Keeps `token` as long as the graph that `stream` is being captured into, any executable graph made of it, or any
    /// launch of one of these (`cuGraphRetainUserObject`).
    fn capture_retain(&self, stream: StreamHandle, token: Token) -> Result<()>;
    /// Counts the nodes of a graph.
    fn graph_facts(&self, graph: GraphHandle) -> Result<GraphFacts>;
    /// Makes a graph executable.
    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle>;
    /// Launches an executable graph into a stream.
    fn graph_launch(&self, graph: GraphExecHandle, stream: StreamHandle) -> Result<()>;
    /// Destroys a graph.
    fn graph_destroy(&self, graph: GraphHandle) -> Result<()>;
    /// Destroys an executable graph; launches of it still complete.
    fn graph_exec_destroy(&self, graph: GraphExecHandle) -> Result<()>;

    /// Work counted so far; `None` on GPUs.
    fn counters(&self) -> Option<WorkCounters>;
}
