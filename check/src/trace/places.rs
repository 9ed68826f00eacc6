//! What lies at an address of a communicator.

use symmem::Comm;
use symmem::symmetric::FlatOffset;
use symmem_device::abi::{DevBaseHeader, DevBaseLayout};

/// Names the memory of a communicator: parts of `DevBase`, and buffers by their flat offsets.
pub(super) struct Places {
    layout: DevBaseLayout,
    base: u64,
    stride_bytes: u64,
    buffers: Vec<(String, u64, u64)>,
}

impl Places {
    /// `buffers`: name, flat offset, bytes.
    pub(super) fn new(comm: &Comm, buffers: Vec<(String, u64, u64)>) -> Self {
        let space = comm.space();
        let base = space.address(0, FlatOffset::new(0));
        Self { layout: DevBaseLayout::new(comm.n_ranks()), base, stride_bytes: space.stride_bytes(), buffers }
    }

    /// What lies there.
    pub(super) fn name(&self, owner: Option<u32>, address: u64) -> String {
        if owner.is_none() {
            return "memory of host or block".into();
        }
        let Some(distance) = address.checked_sub(self.base) else { return format!("{address:#x}") };
        let offset = distance % self.stride_bytes;
        if offset < self.layout.len_bytes() {
            return self.dev_base(offset).into();
        }
        let buffer = self.buffers.iter().find(|(_, start, len)| (*start..start + len).contains(&offset));
        buffer.map_or_else(|| format!("offset {offset:#x}"), |(name, ..)| name.clone())
    }

    fn dev_base(&self, offset: u64) -> &'static str {
        let layout = self.layout;
        let slots = layout.ll_slots_offset(0, 0, 0);
        if offset < size_of::<DevBaseHeader>() as u64 {
            let blank = std::mem::offset_of!(DevBaseHeader, blank) as u64;
            return ["poison word", "claim word", "timeout", "timeout", "blank words"]
                [(offset.min(blank) / 4) as usize];
        }
        let slots_128 = layout.ll_128_slots_offset(0, 0, 0);
        let bank_bytes = layout.ll_slots_offset(0, 1, 0) - slots;
        match offset {
            _ if offset >= layout.zeroed_bytes() => "scratch",
            _ if offset >= layout.sentinel_slots_offset(0, 0, 0) => "sentinel slots",
            _ if offset >= slots_128 => ["128-bit LL slots, bank 0", "128-bit LL slots, bank 1"]
                [((offset - slots_128) / bank_bytes % 2) as usize],
            _ if offset >= slots => {
                ["LL slots, bank 0", "LL slots, bank 1"][((offset - slots) / bank_bytes % 2) as usize]
            }
            _ if offset >= layout.check_epoch_offset() => "check of calls",
            _ if offset >= layout.barrier_inbox_offset(0, 0) => "barrier inbox",
            _ if offset >= layout.push_turn_offset(0) => "scratch turn",
            _ if offset >= layout.sentinel_epoch_offset(0) => "sentinel epoch",
            _ if offset >= layout.ll_128_epoch_offset(0) => "128-bit LL epoch",
            _ if offset >= layout.ll_epoch_offset(0) => "LL epoch",
            _ => "barrier epoch",
        }
    }
}
