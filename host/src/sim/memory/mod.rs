//! Memory of the simulated machine, with the rules of CUDA's virtual memory management.
//!
//! Device pointers are addresses of this process: a physical allocation is a `memfd`, a reservation a range without
//! memory, a mapping the one made visible in the other. So a kernel's access is an access to real bytes, and a
//! descriptor exported here is one that another process can map.

pub(crate) mod access;
pub(crate) mod address_map;
mod copy;
pub(crate) mod multicast;
mod physical;
mod plain;
mod reservation;
mod transfer;
mod vmm;

use crate::backend::{HostMapped, PhysicalHandle};
use address_map::AddressMap;
use multicast::Multicast;
use physical::Physical;
use reservation::Reservation;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Multiple of sizes and addresses of device memory in bytes.
pub(crate) const GRANULARITY_BYTES: u64 = 2 << 20;
/// Multiple of sizes of host memory in bytes.
const PAGE_BYTES: u64 = 4096;

/// What a handle stands for: one name of a physical allocation. It lives while it is referenced or mapped.
#[derive(Debug)]
struct Handle {
    physical: u32,
    references: u32,
    mappings: u32,
}

/// A physical allocation or multicast object, and what keeps it: handles that name it, and bindings of it.
#[derive(Debug)]
struct Allocation {
    memory: Physical,
    handles: u32,
    bindings: u32,
    /// All of it at addresses of this process alone, once it is reached by a multicast address.
    view: Option<Arc<Reservation>>,
    multicast: Option<Multicast>,
}

/// Host memory that every device can access.
#[derive(Debug)]
struct HostMemory {
    /// Keeps the addresses and the bytes.
    _place: Reservation,
    memory: HostMapped,
    physical: u32,
}

/// Memory of one device with an address, for that device alone.
#[derive(Debug)]
struct PlainMemory {
    /// Keeps the addresses.
    place: Reservation,
    device: u32,
    physical: u32,
}

/// Numbers of live objects, for tests that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryCounts {
    pub(crate) physical_handles: usize,
    pub(crate) mappings: usize,
    pub(crate) reservations: usize,
    pub(crate) host_allocations: usize,
    pub(crate) plain_allocations: usize,
    pub(crate) multicast_bindings: usize,
}

/// All memory of one machine.
#[derive(Debug)]
pub(crate) struct Memory {
    n_devices: u32,
    device_memory_bytes: u64,
    map: AddressMap,
    reservations: BTreeMap<u64, Reservation>,
    handles: HashMap<PhysicalHandle, Handle>,
    /// By number; a number is used again when its allocation is gone.
    allocations: Vec<Option<Allocation>>,
    host: BTreeMap<u64, HostMemory>,
    plain: BTreeMap<u64, PlainMemory>,
    /// Bytes in use on each device.
    used_bytes: Vec<u64>,
    next_handle: u64,
    /// Numbers of allocations that are gone, for whoever keeps something beside the memory.
    gone: Vec<u32>,
    /// Numbers of the multicast objects.
    multicasts: Vec<u32>,
    /// Grows with every allocation that comes or goes.
    n_kept_or_gone: u64,
}

impl Memory {
    /// Memory of `n_devices` devices with `device_memory_bytes` each, all free.
    pub(crate) fn new(n_devices: u32, device_memory_bytes: u64) -> Self {
        Self {
            n_devices,
            device_memory_bytes,
            map: AddressMap::default(),
            reservations: BTreeMap::new(),
            handles: HashMap::new(),
            allocations: Vec::new(),
            host: BTreeMap::new(),
            plain: BTreeMap::new(),
            used_bytes: vec![0; n_devices as usize],
            next_handle: 1,
            gone: Vec::new(),
            multicasts: Vec::new(),
            n_kept_or_gone: 0,
        }
    }

    /// Which mapping covers which address.
    pub(crate) fn map(&self) -> &AddressMap {
        &self.map
    }

    /// Numbers of live objects.
    pub(crate) fn counts(&self) -> MemoryCounts {
        MemoryCounts {
            physical_handles: self.handles.values().filter(|handle| handle.references > 0).count(),
            mappings: self.map.iter().filter(|mapping| mapping.handle.is_some()).count(),
            reservations: self.reservations.len(),
            host_allocations: self.host.len(),
            plain_allocations: self.plain.len(),
            multicast_bindings: self.n_bindings(),
        }
    }

    /// Whether memory of another process is here: that process may change it at any time.
    pub(crate) fn is_shared(&self) -> bool {
        self.allocations.iter().flatten().any(|allocation| match &allocation.multicast {
            Some(multicast) => multicast.is_imported,
            None => allocation.memory.device != address_map::HOST && !allocation.memory.charged,
        })
    }

    /// Memory of a device that nobody uses, in bytes.
    pub(crate) fn free_bytes(&self, device: u32) -> u64 {
        self.device_memory_bytes - self.used_bytes[device as usize]
    }

    /// Numbers of the allocations that went since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.gone)
    }

    fn allocation(&self, physical: u32) -> &Physical {
        &self.allocations[physical as usize].as_ref().expect("a named allocation lives").memory
    }

    /// Gives a new handle to an allocation.
    fn name(&mut self, physical: u32) -> PhysicalHandle {
        let handle = PhysicalHandle(self.next_handle);
        self.next_handle += 1;
        self.allocations[physical as usize].as_mut().expect("a named allocation lives").handles += 1;
        self.handles.insert(handle, Handle { physical, references: 1, mappings: 0 });
        handle
    }

    /// Numbers an allocation.
    fn keep(&mut self, memory: Physical) -> u32 {
        self.n_kept_or_gone += 1;
        let allocation = Some(Allocation { memory, handles: 0, bindings: 0, view: None, multicast: None });
        match self.allocations.iter().position(Option::is_none) {
            Some(free) => {
                self.allocations[free] = allocation;
                free as u32
            }
            None => {
                self.allocations.push(allocation);
                self.allocations.len() as u32 - 1
            }
        }
    }

    /// Forgets a handle that is neither referenced nor mapped, and its allocation with the last handle.
    fn forget_if_unused(&mut self, handle: PhysicalHandle) {
        let Some(&Handle { physical, references: 0, mappings: 0 }) = self.handles.get(&handle) else {
            return;
        };
        self.handles.remove(&handle);
        let allocation = self.allocations[physical as usize].as_mut().expect("a named allocation lives");
        allocation.handles -= 1;
        if allocation.handles == 0 && allocation.bindings == 0 {
            self.discard(physical);
        }
    }

    fn discard(&mut self, physical: u32) {
        let allocation = self.allocations[physical as usize].take().expect("a named allocation lives");
        if allocation.memory.charged {
            self.used_bytes[allocation.memory.device as usize] -= allocation.memory.len_bytes;
        }
        self.multicasts.retain(|&number| number != physical);
        self.n_kept_or_gone += 1;
        self.gone.push(physical);
    }
}
