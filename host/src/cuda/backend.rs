//! The seam's calls, each answered by the file of its topic.

use super::{CudaMachine, copy, fabric, graph, host_memory, launch, module, multicast, plain, stream, vmm};
use crate::Result;
use crate::backend::{
    Access, Backend, CaptureState, DeviceFacts, EventHandle, FabricHandle, FunctionFacts, FunctionHandle,
    Granularity, GraphExecHandle, GraphFacts, GraphHandle, HostMapped, LaunchShape, MachineKind,
    ModuleHandle, PhysicalHandle, PointerFacts, StreamHandle, Token, WorkCounters,
};
use std::os::fd::{BorrowedFd, OwnedFd};

// SAFETY: `cuMemHostAlloc` gives such memory.
unsafe impl Backend for CudaMachine {
    fn kind(&self) -> MachineKind {
        MachineKind::Cuda
    }

    fn device_count(&self) -> u32 {
        self.devices.count()
    }

    fn device_facts(&self, device: u32) -> Result<DeviceFacts> {
        self.devices.facts(device)
    }

    fn driver_version(&self) -> Result<(u32, u32)> {
        Ok(self.driver)
    }

    fn can_access_peer(&self, device: u32, peer: u32) -> Result<bool> {
        self.devices.can_access_peer(device, peer)
    }

    fn granularity(&self, device: u32) -> Result<Granularity> {
        vmm::granularity(&self.devices, device)
    }

    fn memory_free_bytes(&self, device: u32) -> Result<u64> {
        plain::free_bytes(&self.devices, device)
    }

    fn mem_create(&self, device: u32, len_bytes: u64) -> Result<PhysicalHandle> {
        vmm::create(&self.devices, device, len_bytes)
    }

    fn mem_release(&self, physical: PhysicalHandle) -> Result<()> {
        vmm::release(&self.devices, physical)
    }

    fn mem_retain(&self, address: u64) -> Result<PhysicalHandle> {
        vmm::retain(&self.devices, address)
    }

    fn mem_is_exportable(&self, physical: PhysicalHandle) -> Result<bool> {
        vmm::is_exportable(&self.devices, physical)
    }

    fn mem_export(&self, physical: PhysicalHandle) -> Result<OwnedFd> {
        vmm::export(&self.devices, physical)
    }

    fn mem_import(&self, fd: BorrowedFd<'_>) -> Result<PhysicalHandle> {
        vmm::import(&self.devices, fd)
    }

    fn mem_create_fabric(&self, device: u32, len_bytes: u64) -> Result<PhysicalHandle> {
        fabric::create(&self.devices, device, len_bytes)
    }

    fn mem_export_fabric(&self, physical: PhysicalHandle) -> Result<FabricHandle> {
        fabric::export(&self.devices, physical)
    }

    fn mem_import_fabric(&self, handle: &FabricHandle) -> Result<PhysicalHandle> {
        fabric::import(&self.devices, handle)
    }

    fn address_reserve(&self, len_bytes: u64, align_bytes: u64, hint: u64) -> Result<u64> {
        vmm::reserve(&self.devices, len_bytes, align_bytes, hint)
    }

    fn address_free(&self, address: u64, len_bytes: u64) -> Result<()> {
        vmm::free(&self.devices, address, len_bytes)
    }

    fn mem_map(&self, address: u64, len_bytes: u64, physical: PhysicalHandle) -> Result<()> {
        vmm::map(&self.devices, address, len_bytes, physical)
    }

    fn mem_unmap(&self, address: u64, len_bytes: u64) -> Result<()> {
        vmm::unmap(&self.devices, address, len_bytes)
    }

    fn mem_set_access(&self, address: u64, len_bytes: u64, device: u32, access: Access) -> Result<()> {
        vmm::set_access(&self.devices, address, len_bytes, device, access)
    }

    fn mem_alloc(&self, device: u32, len_bytes: u64) -> Result<u64> {
        plain::alloc(&self.devices, device, len_bytes)
    }

    fn mem_free(&self, device: u32, address: u64) -> Result<()> {
        plain::free(&self.devices, device, address)
    }

    fn multicast_supported(&self, device: u32) -> Result<bool> {
        multicast::supported(&self.devices, device)
    }

    fn multicast_granularity(&self, n_devices: u32, len_bytes: u64) -> Result<Granularity> {
        multicast::granularity(n_devices, len_bytes)
    }

    fn multicast_create(&self, n_devices: u32, len_bytes: u64) -> Result<PhysicalHandle> {
        multicast::create(&self.devices, n_devices, len_bytes)
    }

    fn multicast_add_device(&self, multicast: PhysicalHandle, device: u32) -> Result<()> {
        multicast::add_device(&self.devices, multicast, device)
    }

    fn multicast_bind(
        &self,
        multicast: PhysicalHandle,
        offset_bytes: u64,
        physical: PhysicalHandle,
        physical_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()> {
        let parts = (offset_bytes, physical_offset_bytes, len_bytes);
        multicast::bind(&self.devices, multicast, physical, parts)
    }

    fn multicast_unbind(
        &self,
        multicast: PhysicalHandle,
        device: u32,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()> {
        multicast::unbind(&self.devices, multicast, device, (offset_bytes, len_bytes))
    }

    fn pointer_facts(&self, address: u64) -> Result<PointerFacts> {
        vmm::pointer_facts(&self.devices, address)
    }

    fn host_alloc(&self, len_bytes: u64) -> Result<HostMapped> {
        host_memory::alloc(&self.devices, len_bytes)
    }

    fn host_free(&self, memory: HostMapped) -> Result<()> {
        host_memory::free(&self.devices, memory)
    }

    fn write(&self, device: u32, address: u64, source: &[u8]) -> Result<()> {
        copy::write(&self.devices, device, address, source)
    }

    fn read(&self, device: u32, address: u64, target: &mut [u8]) -> Result<()> {
        copy::read(&self.devices, device, address, target)
    }

    fn fill(&self, device: u32, address: u64, byte: u8, len_bytes: u64) -> Result<()> {
        copy::fill(&self.devices, device, address, byte, len_bytes)
    }

    fn copy_within_device(&self, device: u32, from: u64, to: u64, len_bytes: u64) -> Result<()> {
        copy::within_device(&self.devices, device, from, to, len_bytes)
    }

    fn module_load(&self, device: u32, ptx: &str, origin: &str) -> Result<ModuleHandle> {
        module::load(&self.devices, self.driver, device, ptx, origin)
    }

    fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        module::unload(&self.devices, module)
    }

    fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        module::function(&self.devices, module, name)
    }

    fn function_facts(&self, function: FunctionHandle) -> Result<FunctionFacts> {
        module::function_facts(&self.devices, function)
    }

    fn resident_blocks(&self, function: FunctionHandle, threads: u32, shared_bytes: u32) -> Result<u32> {
        module::resident_blocks(&self.devices, function, threads, shared_bytes)
    }

    fn stream_create(&self, device: u32) -> Result<StreamHandle> {
        stream::create(&self.devices, device)
    }

    unsafe fn stream_adopt(&self, device: u32, raw: u64) -> Result<StreamHandle> {
        // SAFETY: by this function's contract.
        unsafe { stream::adopt(&self.devices, device, raw as usize as _) }
    }

    fn stream_raw(&self, stream: StreamHandle) -> u64 {
        self.raw_stream(stream) as u64
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        stream::destroy(&self.devices, stream)
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        stream::synchronize(&self.devices, stream)
    }

    fn stream_is_done(&self, stream: StreamHandle) -> Result<bool> {
        stream::is_done(&self.devices, stream)
    }

    fn event_create(&self, device: u32, timing: bool) -> Result<EventHandle> {
        stream::event_create(&self.devices, device, timing)
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        stream::event_destroy(&self.devices, event)
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        stream::event_record(&self.devices, event, stream)
    }

    fn event_is_done(&self, event: EventHandle) -> Result<bool> {
        stream::event_is_done(&self.devices, event)
    }

    fn event_elapsed_us(&self, start: EventHandle, end: EventHandle) -> Result<Option<f64>> {
        stream::event_elapsed_us(&self.devices, start, end).map(Some)
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        stream::wait_event(&self.devices, stream, event)
    }

    fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        argument: &[u8],
    ) -> Result<()> {
        launch::launch(&self.devices, stream, function, shape, argument)
    }

    fn stream_copy(&self, stream: StreamHandle, from: u64, to: u64, len_bytes: u64) -> Result<()> {
        copy::in_stream(&self.devices, stream, from, to, len_bytes)
    }

    fn capture_begin(&self, stream: StreamHandle) -> Result<()> {
        graph::capture_begin(&self.devices, stream)
    }

    fn capture_end(&self, stream: StreamHandle) -> Result<GraphHandle> {
        graph::capture_end(&self.devices, stream)
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        graph::capture_state(&self.devices, stream)
    }

    fn capture_retain(&self, stream: StreamHandle, token: Token) -> Result<()> {
        graph::capture_retain(&self.devices, stream, token)
    }

    fn graph_facts(&self, graph: GraphHandle) -> Result<GraphFacts> {
        graph::facts(&self.devices, graph)
    }

    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        graph::instantiate(&self.devices, graph)
    }

    fn graph_launch(&self, graph: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        graph::launch(&self.devices, graph, stream)
    }

    fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        graph::destroy(&self.devices, graph)
    }

    fn graph_exec_destroy(&self, graph: GraphExecHandle) -> Result<()> {
        graph::exec_destroy(&self.devices, graph)
    }

    fn counters(&self) -> Option<WorkCounters> {
        None
    }
}
