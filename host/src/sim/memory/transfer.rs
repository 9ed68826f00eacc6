//! Host memory that devices can access, and copies between host slices and mapped memory.

use super::address_map::{HOST, Mapping};
use super::copy::{copy_in, copy_out, set};
use super::physical::Physical;
use super::{HostMemory, Memory, PAGE_BYTES, reservation::Reservation};
use crate::Result;
use crate::backend::{Access, HostMapped};
use crate::sim::engine::HostAccess;
use crate::sim::result::INVALID_VALUE;

/// Zero fills from this size on give pages back instead of writing them.
const DISCARD_BYTES_MIN: u64 = 64 << 10;

impl Memory {
    /// `cuMemHostAlloc`, portable and mapped; zeroed.
    pub(crate) fn host_alloc(&mut self, len_bytes: u64) -> Result<HostMapped> {
        const CALL: &str = "cuMemHostAlloc";
        let mapped_bytes = len_bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| INVALID_VALUE.of(CALL, format!("{len_bytes} bytes")))?;
        let place = Reservation::new(mapped_bytes, PAGE_BYTES, 0)?;
        let mut file = Physical::create(HOST, mapped_bytes)?;
        file.charged = false;
        let start = place.start();
        place.map(start, mapped_bytes, file.fd())?;
        let physical = self.keep(file);
        let rights = vec![Access::ReadWrite; self.n_devices as usize];
        self.map.insert(Mapping {
            start,
            len_bytes: mapped_bytes,
            physical,
            number: 0,
            handle: None,
            owner: HOST,
            rights,
            members: None,
        });
        let memory = HostMapped { host: start, device: start, len_bytes };
        self.host.insert(start, HostMemory { _place: place, memory, physical });
        Ok(memory)
    }

    /// `cuMemFreeHost`.
    pub(crate) fn host_free(&mut self, memory: HostMapped) -> Result<()> {
        if self.host.get(&memory.host).is_none_or(|found| found.memory != memory) {
            let operand = format!("{:#x} is no start of host memory of this machine", memory.host);
            return Err(INVALID_VALUE.of("cuMemFreeHost", operand));
        }
        let host = self.host.remove(&memory.host).expect("just found");
        let indices = self.map.exactly(memory.host, memory.len_bytes.next_multiple_of(PAGE_BYTES));
        self.map.remove(indices.expect("host memory is one mapping"));
        self.discard(host.physical);
        Ok(())
    }

    /// Calls `part(mapping, address, len_bytes)` for each part of a range after it has checked them all.
    pub(super) fn for_each_part(
        &self,
        call: &'static str,
        device: u32,
        (address, len_bytes): (u64, u64),
        needed: Access,
        mut part: impl FnMut(&Mapping, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let end = address.checked_add(len_bytes).ok_or_else(|| {
            INVALID_VALUE.of(call, format!("{len_bytes:#x} bytes at {address:#x} run past the address space"))
        })?;
        let mut parts = Vec::new();
        let mut at = address;
        while at < end {
            let mapping = self.map.find(at).ok_or_else(|| {
                INVALID_VALUE
                    .of(call, format!("{len_bytes:#x} bytes at {address:#x}: nothing is mapped at {at:#x}"))
            })?;
            if mapping.members.is_some() {
                let operand = format!("{at:#x} is a multicast address, which only kernels reach");
                return Err(INVALID_VALUE.of(call, operand));
            }
            let rights = mapping.rights[device as usize];
            if rights == Access::None || (needed == Access::ReadWrite && rights == Access::Read) {
                let operand = format!("device {device} has access {rights:?} at {at:#x}, needs {needed:?}");
                return Err(INVALID_VALUE.of(call, operand));
            }
            let stop = mapping.end().min(end);
            parts.push((mapping, at, stop - at));
            at = stop;
        }
        parts.into_iter().try_for_each(|(mapping, at, bytes)| part(mapping, at, bytes))
    }

    /// A range of mapped bytes by the allocations that it lies in.
    pub(crate) fn parts(&self, address: u64, len_bytes: u64, write: bool) -> Vec<HostAccess> {
        let (mut parts, mut at) = (Vec::new(), address);
        while at < address + len_bytes
            && let Some(mapping) = self.map.find(at)
        {
            let stop = mapping.end().min(address + len_bytes);
            parts.push(HostAccess {
                physical: mapping.physical,
                offset: at - mapping.start,
                len_bytes: stop - at,
                write,
            });
            at = stop;
        }
        parts
    }

    /// `cuMemcpyHtoD`.
    pub(crate) fn write(&self, device: u32, address: u64, source: &[u8]) -> Result<()> {
        let range = (address, source.len() as u64);
        self.for_each_part("cuMemcpyHtoD", device, range, Access::ReadWrite, |_, at, bytes| {
            let from = (at - address) as usize;
            // SAFETY: the part lies in a mapping, whose bytes the machine touches only by atomics.
            unsafe { copy_in(at, &source[from..from + bytes as usize]) };
            Ok(())
        })
    }

    /// `cuMemcpyDtoH`.
    pub(crate) fn read(&self, device: u32, address: u64, target: &mut [u8]) -> Result<()> {
        let range = (address, target.len() as u64);
        self.for_each_part("cuMemcpyDtoH", device, range, Access::Read, |_, at, bytes| {
            let from = (at - address) as usize;
            // SAFETY: the part lies in a mapping, whose bytes the machine touches only by atomics.
            unsafe { copy_out(at, &mut target[from..from + bytes as usize]) };
            Ok(())
        })
    }

    /// `cuMemsetD8`. Large zero fills make no pages.
    pub(crate) fn fill(&self, device: u32, address: u64, byte: u8, len_bytes: u64) -> Result<()> {
        let range = (address, len_bytes);
        self.for_each_part("cuMemsetD8", device, range, Access::ReadWrite, |mapping, at, bytes| {
            let (first, last) = (at.next_multiple_of(PAGE_BYTES), (at + bytes) / PAGE_BYTES * PAGE_BYTES);
            if byte != 0 || bytes < DISCARD_BYTES_MIN {
                // SAFETY: the part lies in a mapping, whose bytes the machine touches only by atomics.
                unsafe { set(at, byte, bytes) };
                return Ok(());
            }
            self.allocation(mapping.physical).discard(first - mapping.start, last - first)?;
            // SAFETY: as above; these are the edges that are no whole pages.
            unsafe {
                set(at, 0, first - at);
                set(last, 0, at + bytes - last);
            }
            Ok(())
        })
    }
}
