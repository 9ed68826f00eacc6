//! The simulated machine behind the seam.

use super::config::MulticastCall;
use super::engine::resident_blocks;
use super::machine::SimMachine;
use super::memory::GRANULARITY_BYTES;
use super::result::NOT_SUPPORTED;
use crate::backend::{
    Access, Backend, CaptureState, DeviceFacts, EventHandle, FabricHandle, FunctionFacts, FunctionHandle,
    Granularity, GraphExecHandle, GraphFacts, GraphHandle, HostMapped, LaunchShape, MachineKind,
    ModuleHandle, PhysicalHandle, PointerFacts, StreamHandle, Token, WorkCounters,
};
use crate::{Error, ErrorKind, Result};
use std::os::fd::{BorrowedFd, OwnedFd};

impl SimMachine {
    pub(super) fn check_device(&self, device: u32) -> Result<()> {
        let found = self.config.n_devices;
        if device < found { Ok(()) } else { Err(ErrorKind::NoSuchDevice { device, found }.into()) }
    }
}

#[cold]
fn no_fabric() -> Error {
    let (what, hint) =
        ("a fabric handle".into(), "the simulated machine is one host; export a file descriptor");
    ErrorKind::Unsupported { what, hint: hint.into() }.into()
}

// SAFETY: the memory is mapped pages of the machine, which go when they are freed.
unsafe impl Backend for SimMachine {
    fn kind(&self) -> MachineKind {
        MachineKind::Sim
    }

    fn device_count(&self) -> u32 {
        self.config.n_devices
    }

    fn device_facts(&self, device: u32) -> Result<DeviceFacts> {
        self.check_device(device)?;
        let mut uuid = *b"symmem-sim--\0\0\0\0";
        uuid[12..].copy_from_slice(&device.to_be_bytes());
        Ok(DeviceFacts {
            name: "simulated GPU".into(),
            uuid,
            memory_bytes: self.config.device_memory_bytes,
            sm: self.config.sm,
            n_multiprocessors: self.config.n_multiprocessors,
        })
    }

    fn driver_version(&self) -> Result<(u32, u32)> {
        Ok(self.config.driver_version)
    }

    fn can_access_peer(&self, device: u32, peer: u32) -> Result<bool> {
        self.check_device(device)?;
        self.check_device(peer)?;
        Ok(self.config.can_access(device, peer))
    }

    fn granularity(&self, device: u32) -> Result<Granularity> {
        self.check_device(device)?;
        Ok(Granularity { minimum_bytes: GRANULARITY_BYTES, recommended_bytes: GRANULARITY_BYTES })
    }

    fn memory_free_bytes(&self, device: u32) -> Result<u64> {
        self.check_device(device)?;
        Ok(self.lock().memory.free_bytes(device))
    }

    fn mem_create(&self, device: u32, len_bytes: u64) -> Result<PhysicalHandle> {
        self.check_device(device)?;
        self.lock().memory.create(device, len_bytes, true)
    }

    fn mem_release(&self, physical: PhysicalHandle) -> Result<()> {
        self.lock().memory.release(physical)
    }

    fn mem_retain(&self, address: u64) -> Result<PhysicalHandle> {
        self.lock().memory.retain(address)
    }

    fn mem_is_exportable(&self, physical: PhysicalHandle) -> Result<bool> {
        self.lock().memory.is_exportable(physical)
    }

    fn mem_export(&self, physical: PhysicalHandle) -> Result<OwnedFd> {
        self.lock().memory.export(physical)
    }

    fn mem_import(&self, fd: BorrowedFd<'_>) -> Result<PhysicalHandle> {
        self.lock().memory.import(fd)
    }

    fn mem_create_fabric(&self, device: u32, _: u64) -> Result<PhysicalHandle> {
        self.check_device(device)?;
        Err(no_fabric())
    }

    fn mem_export_fabric(&self, _: PhysicalHandle) -> Result<FabricHandle> {
        Err(no_fabric())
    }

    fn mem_import_fabric(&self, _: &FabricHandle) -> Result<PhysicalHandle> {
        Err(no_fabric())
    }

    fn address_reserve(&self, len_bytes: u64, align_bytes: u64, hint: u64) -> Result<u64> {
        self.lock().memory.reserve(len_bytes, align_bytes, hint)
    }

    fn address_free(&self, address: u64, len_bytes: u64) -> Result<()> {
        self.lock().memory.free_reservation(address, len_bytes)
    }

    fn mem_map(&self, address: u64, len_bytes: u64, physical: PhysicalHandle) -> Result<()> {
        let mut core = self.with_team("cuMemMap", physical)?;
        if core.memory.is_multicast(physical) {
            self.multicast_fault(&mut core, MulticastCall::Map, None)?;
        }
        core.memory.map_at(address, len_bytes, physical)
    }

    fn mem_unmap(&self, address: u64, len_bytes: u64) -> Result<()> {
        self.lock().memory.unmap(address, len_bytes)
    }

    fn mem_set_access(&self, address: u64, len_bytes: u64, device: u32, access: Access) -> Result<()> {
        self.check_device(device)?;
        let can_access = |owner| self.config.can_access(device, owner);
        self.lock().memory.set_access(address, len_bytes, device, access, can_access)
    }

    fn mem_alloc(&self, device: u32, len_bytes: u64) -> Result<u64> {
        self.check_device(device)?;
        self.lock().memory.alloc(device, len_bytes)
    }

    fn mem_free(&self, device: u32, address: u64) -> Result<()> {
        self.check_device(device)?;
        self.lock().memory.free(device, address)
    }

    fn multicast_supported(&self, device: u32) -> Result<bool> {
        self.check_device(device)?;
        Ok(self.has_multicast(device))
    }

    fn multicast_granularity(&self, _: u32, _: u64) -> Result<Granularity> {
        self.require_any_multicast("cuMulticastGetGranularity")?;
        Ok(Granularity { minimum_bytes: GRANULARITY_BYTES, recommended_bytes: GRANULARITY_BYTES })
    }

    fn multicast_create(&self, n_devices: u32, len_bytes: u64) -> Result<PhysicalHandle> {
        self.require_any_multicast("cuMulticastCreate")?;
        let mut core = self.lock();
        self.multicast_fault(&mut core, MulticastCall::Create, None)?;
        core.memory.multicast_create(n_devices, len_bytes, self.config.multicast_objects_max)
    }

    fn multicast_add_device(&self, multicast: PhysicalHandle, device: u32) -> Result<()> {
        self.check_device(device)?;
        if !self.has_multicast(device) {
            let operand = format!("device {device}, which has no multicast");
            return Err(NOT_SUPPORTED.of("cuMulticastAddDevice", operand));
        }
        self.change(|core| {
            self.multicast_fault(core, MulticastCall::AddDevice, Some(device))?;
            core.memory.multicast_add(multicast, device)
        })
    }

    fn multicast_bind(
        &self,
        multicast: PhysicalHandle,
        offset_bytes: u64,
        physical: PhysicalHandle,
        physical_offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()> {
        let mut core = self.with_team("cuMulticastBindMem", multicast)?;
        let device = core.memory.owner_of(physical);
        self.multicast_fault(&mut core, MulticastCall::Bind, device)?;
        core.memory.multicast_bind(multicast, offset_bytes, physical, physical_offset_bytes, len_bytes)
    }

    fn multicast_unbind(
        &self,
        multicast: PhysicalHandle,
        device: u32,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<()> {
        self.check_device(device)?;
        self.lock().memory.multicast_unbind(multicast, device, offset_bytes, len_bytes)
    }

    fn pointer_facts(&self, address: u64) -> Result<PointerFacts> {
        self.lock().memory.pointer_facts(address)
    }

    fn host_alloc(&self, len_bytes: u64) -> Result<HostMapped> {
        self.lock().memory.host_alloc(len_bytes)
    }

    fn host_free(&self, memory: HostMapped) -> Result<()> {
        self.lock().memory.host_free(memory)
    }

    fn write(&self, device: u32, address: u64, source: &[u8]) -> Result<()> {
        self.check_device(device)?;
        self.change(|core| {
            core.memory.write(device, address, source)?;
            core.host_access(address, source.len() as u64, true)
        })
    }

    fn read(&self, device: u32, address: u64, target: &mut [u8]) -> Result<()> {
        self.check_device(device)?;
        let mut core = self.lock();
        core.memory.read(device, address, target)?;
        core.host_access(address, target.len() as u64, false)
    }

    fn fill(&self, device: u32, address: u64, byte: u8, len_bytes: u64) -> Result<()> {
        self.check_device(device)?;
        self.change(|core| {
            core.memory.fill(device, address, byte, len_bytes)?;
            core.host_access(address, len_bytes, true)
        })
    }

    fn copy_within_device(&self, device: u32, from: u64, to: u64, len_bytes: u64) -> Result<()> {
        self.check_device(device)?;
        self.change(|core| {
            core.memory.copy(device, from, to, len_bytes)?;
            core.host_access(from, len_bytes, false)?;
            core.host_access(to, len_bytes, true)
        })
    }

    fn module_load(&self, device: u32, ptx: &str, origin: &str) -> Result<ModuleHandle> {
        self.check_device(device)?;
        let core = &mut *self.lock();
        core.driver.module_load(&mut core.memory, &self.config, device, ptx, origin)
    }

    fn module_unload(&self, module: ModuleHandle) -> Result<()> {
        let core = &mut *self.lock();
        core.driver.module_unload(&mut core.memory, module)
    }

    fn function(&self, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        self.lock().driver.function(module, name)
    }

    fn function_facts(&self, function: FunctionHandle) -> Result<FunctionFacts> {
        self.lock().driver.function_facts(function)
    }

    fn resident_blocks(&self, function: FunctionHandle, threads: u32, shared_bytes: u32) -> Result<u32> {
        let core = self.lock();
        let function = core.driver.find_function(function, "cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        Ok(resident_blocks(&self.config, threads, function.kernel.shared_bytes + shared_bytes))
    }

    fn stream_create(&self, device: u32) -> Result<StreamHandle> {
        self.check_device(device)?;
        Ok(self.lock().driver.stream_create(device))
    }

    unsafe fn stream_adopt(&self, device: u32, raw: u64) -> Result<StreamHandle> {
        self.check_device(device)?;
        self.lock().driver.stream_adopt(device, StreamHandle(raw))
    }

    fn stream_raw(&self, stream: StreamHandle) -> u64 {
        stream.0
    }

    fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        self.lock().driver.stream_destroy(stream)
    }

    fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        self.synchronize(stream)
    }

    fn stream_is_done(&self, stream: StreamHandle) -> Result<bool> {
        self.poll(|core| core.driver.stream_is_done(stream, "cuStreamQuery"))
    }

    fn event_create(&self, device: u32, timing: bool) -> Result<EventHandle> {
        self.check_device(device)?;
        Ok(self.lock().driver.event_create(device, timing))
    }

    fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.lock().driver.event_destroy(event)
    }

    fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.lock().driver.event_record(event, stream)
    }

    fn event_is_done(&self, event: EventHandle) -> Result<bool> {
        self.poll(|core| core.driver.event_is_done(event))
    }

    fn event_elapsed_us(&self, start: EventHandle, end: EventHandle) -> Result<Option<f64>> {
        self.lock().driver.event_elapsed_us(start, end)
    }

    fn stream_wait_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        self.change(|core| core.driver.stream_wait_event(stream, event))
    }

    fn launch(
        &self,
        stream: StreamHandle,
        function: FunctionHandle,
        shape: LaunchShape,
        argument: &[u8],
    ) -> Result<()> {
        self.change(|core| core.driver.launch(stream, function, shape, argument))
    }

    fn stream_copy(&self, stream: StreamHandle, from: u64, to: u64, len_bytes: u64) -> Result<()> {
        self.change(|core| core.driver.stream_copy(&core.memory, stream, from, to, len_bytes))
    }

    fn capture_begin(&self, stream: StreamHandle) -> Result<()> {
        self.lock().driver.capture_begin(stream)
    }

    fn capture_end(&self, stream: StreamHandle) -> Result<GraphHandle> {
        self.lock().driver.capture_end(stream)
    }

    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState> {
        self.lock().driver.capture_state(stream)
    }

    fn capture_retain(&self, stream: StreamHandle, token: Token) -> Result<()> {
        self.lock().driver.capture_retain(stream, token)
    }

    fn graph_facts(&self, graph: GraphHandle) -> Result<GraphFacts> {
        self.lock().driver.graph_facts(graph)
    }

    fn graph_instantiate(&self, graph: GraphHandle) -> Result<GraphExecHandle> {
        self.lock().driver.graph_instantiate(graph)
    }

    fn graph_launch(&self, graph: GraphExecHandle, stream: StreamHandle) -> Result<()> {
        self.change(|core| core.driver.graph_launch(graph, stream))
    }

    fn graph_destroy(&self, graph: GraphHandle) -> Result<()> {
        self.lock().driver.graph_destroy(graph)
    }

    fn graph_exec_destroy(&self, graph: GraphExecHandle) -> Result<()> {
        self.lock().driver.graph_exec_destroy(graph)
    }

    fn counters(&self) -> Option<WorkCounters> {
        Some(self.lock().engine.counters())
    }
}
