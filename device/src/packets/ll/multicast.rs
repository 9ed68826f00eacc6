//! LL packets by multicast: one store reaches the slot of the same place at every rank.
//!
//! A slot is two halves {data32, epoch32} as in [`Ll`](super::Ll), sent by two `multimem.st.relaxed.sys.b64` (one of 16
//! bytes would tear), polled by a unicast address. Memory and epochs are the protocol's own. Every rank gets its own slots
//! back and leaves them be.
//!
//! Unicast and multicast addresses of a slot are two proxies (PTX ISA 8.3). [`Format::open`] is the
//! `fence.proxy.alias` of each thread: polls come behind it, and it stands between the zeroing of a bank and whatever
//! tells a peer that the bank may be written again.

use super::{Flagged, Format, Halves};
use crate::abi::{DevBaseLayout, LL_PAYLOAD_BYTES};
use crate::element::Pack;
use crate::ptx;

/// LL packets with 8 of 16 bytes of data, by multicast (sm_90).
pub type LlMc = Flagged<MulticastHalves>;

/// As [`Halves`], in memory of their own.
pub struct MulticastHalves;

impl Format for MulticastHalves {
    const BYTES: u64 = LL_PAYLOAD_BYTES;

    #[inline(always)]
    fn epoch_offset(layout: DevBaseLayout, block: u32) -> u64 {
        layout.ll_mc_epoch_offset(block)
    }

    #[inline(always)]
    fn n_slots(layout: DevBaseLayout) -> u32 {
        layout.ll_mc_slots_per_block()
    }

    #[inline(always)]
    fn slots_offset(layout: DevBaseLayout, block: u32, epoch: u32, sender: u32) -> u64 {
        layout.ll_mc_slots_offset(block, epoch, sender)
    }

    #[inline(always)]
    unsafe fn store(address: u64, payload: Pack, epoch: u32) {
        // SAFETY: as the caller says.
        unsafe { Halves::store(address, payload, epoch) }
    }

    #[inline(always)]
    unsafe fn load(address: u64, epoch: u32) -> (Pack, u32) {
        // SAFETY: as the caller says.
        unsafe { Halves::load(address, epoch) }
    }

    #[inline(always)]
    fn open() {
        if intact!("ll_mc_alias_fence") {
            ptx::fence_proxy_alias();
        }
    }

    /// This rank included.
    #[inline(always)]
    fn send_to_all(packets: &Flagged<Self>, index: u32, payload: Pack) {
        let address = packets.base_mc + packets.slot_offset(packets.team.rank(), index);
        let [low, high] = Halves::slot(payload, packets.epoch);
        // SAFETY: `DevBase` of every rank is bound in the multicast space and `index` is below the layout's number of
        // slots.
        unsafe {
            ptx::multimem_st_relaxed_sys_b64(address, low);
            ptx::multimem_st_relaxed_sys_b64(address + 8, high);
        }
    }
}
