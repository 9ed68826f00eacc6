//! Memory of one device with an address, and copies within a device.

use super::address_map::Mapping;
use super::copy::{copy_in, copy_out};
use super::{GRANULARITY_BYTES, Memory, PlainMemory, reservation::Reservation};
use crate::Result;
use crate::backend::Access;
use crate::sim::result::INVALID_VALUE;

/// Bytes that a copy moves at a time.
const COPY_BYTES: u64 = 64 << 10;

impl Memory {
    /// `cuMemAlloc`. It takes whole granules from the device, and only that device has access.
    pub(crate) fn alloc(&mut self, device: u32, len_bytes: u64) -> Result<u64> {
        const CALL: &str = "cuMemAlloc";
        let len_bytes = len_bytes
            .checked_next_multiple_of(GRANULARITY_BYTES)
            .filter(|&bytes| bytes > 0)
            .ok_or_else(|| INVALID_VALUE.of(CALL, format!("{len_bytes} bytes")))?;
        let place = Reservation::new(len_bytes, GRANULARITY_BYTES, 0)?;
        let physical = self.charge(device, len_bytes, CALL)?;
        let start = place.start();
        if let Err(error) = place.map(start, len_bytes, self.allocation(physical).fd()) {
            self.discard(physical);
            return Err(error);
        }
        let mut rights = vec![Access::None; self.n_devices as usize];
        rights[device as usize] = Access::ReadWrite;
        self.map.insert(Mapping {
            start,
            len_bytes,
            physical,
            number: 0,
            handle: None,
            owner: device,
            rights,
            members: None,
        });
        self.plain.insert(start, PlainMemory { place, device, physical });
        Ok(start)
    }

    /// `cuMemFree`.
    pub(crate) fn free(&mut self, device: u32, address: u64) -> Result<()> {
        if self.plain.get(&address).is_none_or(|found| found.device != device) {
            let operand = format!("{address:#x} is no start of plain memory of device {device}");
            return Err(INVALID_VALUE.of("cuMemFree", operand));
        }
        let memory = self.plain.remove(&address).expect("just found");
        let indices = self.map.exactly(address, memory.place.len_bytes());
        self.map.remove(indices.expect("plain memory is one mapping"));
        self.discard(memory.physical);
        Ok(())
    }

    /// Refuses a copy between ranges that overlap, or that `device` has no access to.
    pub(crate) fn check_copy(
        &self,
        call: &'static str,
        device: u32,
        from: u64,
        to: u64,
        len_bytes: u64,
    ) -> Result<()> {
        if from.abs_diff(to) < len_bytes {
            let operand = format!("{len_bytes:#x} bytes from {from:#x} to {to:#x}, which overlap");
            return Err(INVALID_VALUE.of(call, operand));
        }
        self.for_each_part(call, device, (from, len_bytes), Access::Read, |_, _, _| Ok(()))?;
        self.for_each_part(call, device, (to, len_bytes), Access::ReadWrite, |_, _, _| Ok(()))
    }

    /// `cuMemcpyDtoD` between disjoint ranges.
    pub(crate) fn copy(&self, device: u32, from: u64, to: u64, len_bytes: u64) -> Result<()> {
        // Both ranges are looked at before the first byte goes.
        self.check_copy("cuMemcpyDtoD", device, from, to, len_bytes)?;
        let mut buffer = vec![0; COPY_BYTES.min(len_bytes) as usize];
        for start in (0..len_bytes).step_by(COPY_BYTES as usize) {
            let part = &mut buffer[..COPY_BYTES.min(len_bytes - start) as usize];
            // SAFETY: both ranges are mapped throughout, and the machine touches their bytes only by atomics. Mappings
            // that follow each other are neighbours in this process too.
            unsafe {
                copy_out(from + start, part);
                copy_in(to + start, part);
            }
        }
        Ok(())
    }
}
