//! Tests of the machine as a whole, through the seam. The kernels are small PTX files in `tests/ptx`.

mod capture;
mod determinism;
mod kernels;
mod multicast;
mod order;
mod races;
mod reports;
mod schedules;
mod vmm;

use super::{LiveCounts, ProbeKind, SimConfig, SimMachine};
use crate::backend::{Access, Backend, FunctionHandle, LaunchShape, ModuleHandle, StreamHandle};
use crate::{Error, ErrorKind};
use std::sync::Arc;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GRAIN: u64 = 2 * MIB;

pub(crate) const KERNELS: &str = include_str!("ptx/kernels.ptx");

/// A machine with memory that every device can access.
pub(crate) struct Bed {
    pub(crate) machine: Arc<SimMachine>,
    modules: Vec<ModuleHandle>,
    pub(crate) streams: Vec<StreamHandle>,
}

impl Bed {
    pub(crate) fn new(config: SimConfig) -> Self {
        let machine = SimMachine::new(config).unwrap();
        let devices = 0..machine.device_count();
        let load = |device| machine.module_load(device, KERNELS, "tests/kernels.ptx").unwrap();
        let modules = devices.clone().map(load).collect();
        let streams = devices.map(|device| machine.stream_create(device).unwrap()).collect();
        Self { machine, modules, streams }
    }

    pub(crate) fn with_devices(n_devices: u32) -> Self {
        Self::new(SimConfig { n_devices, probe: ProbeKind::Hops, ..SimConfig::default() })
    }

    /// Memory of `device` that all can read and write.
    pub(crate) fn alloc(&self, device: u32, len_bytes: u64) -> u64 {
        let len_bytes = len_bytes.next_multiple_of(GRAIN);
        let physical = self.machine.mem_create(device, len_bytes).unwrap();
        let address = self.machine.address_reserve(len_bytes, 0, 0).unwrap();
        self.machine.mem_map(address, len_bytes, physical).unwrap();
        for peer in 0..self.machine.device_count() {
            self.machine.mem_set_access(address, len_bytes, peer, Access::ReadWrite).unwrap();
        }
        address
    }

    pub(crate) fn function(&self, device: u32, name: &str) -> FunctionHandle {
        self.machine.function(self.modules[device as usize], name).unwrap()
    }

    /// Launches a kernel with 64-bit arguments on the device's stream.
    pub(crate) fn launch(&self, device: u32, name: &str, (blocks, threads): (u32, u32), arguments: &[u64]) {
        let function = self.function(device, name);
        let shape = LaunchShape { blocks, threads, shared_bytes: 0, waits_itself: false };
        let bytes: Vec<u8> = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.machine.launch(self.streams[device as usize], function, shape, &bytes).unwrap();
    }

    pub(crate) fn synchronize(&self, device: u32) -> Result<(), Error> {
        self.machine.stream_synchronize(self.streams[device as usize])
    }

    pub(crate) fn words(&self, device: u32, address: u64, n: usize) -> Vec<u32> {
        let mut bytes = vec![0; n * 4];
        self.machine.read(device, address, &mut bytes).unwrap();
        bytes.as_chunks::<4>().0.iter().map(|chunk| u32::from_le_bytes(*chunk)).collect()
    }

    pub(crate) fn set_words(&self, device: u32, address: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.machine.write(device, address, &bytes).unwrap();
    }
}

/// The `CUresult` of a refusal.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Error>, code: u32) {
    match result.unwrap_err().kind() {
        ErrorKind::Driver { code: found, .. } if *found == code => {}
        other => panic!("expected CUresult {code}, found {other:?}"),
    }
}

#[test]
fn a_machine_starts_empty() {
    assert_eq!(SimMachine::new(SimConfig::default()).unwrap().live(), LiveCounts::default());
}
