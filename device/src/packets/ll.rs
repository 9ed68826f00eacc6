//! LL packets: an epoch beside the data.
//!
//! [`Ll`]: a slot is two halves {data32, epoch32}, sent by one `st.relaxed.sys.v2.b64` and polled by
//! `ld.relaxed.sys.v2.b64` until both halves carry the epoch. Each half is one 8-byte access and so single-copy atomic
//! (PTX ISA 8.2): a half with the right epoch has the right data, and no fence is needed.
//!
//! [`Ll128`]: a slot is {data32, data32, data32, epoch32}, sent and polled by one `.b128` access. Those are single-copy
//! atomic as wholes (PTX ISA 8.2.2: a scalar access of 128 bits), as long as both sides are `.b128`.
//!
//! Each protocol has two banks of slots, used by turns. Rank p may write bank e + 2 of rank q only when q has read bank
//! e. It does so after it received a slot of epoch e + 1 from q, and q sent that after its whole block had read epoch e:
//! inside a kernel by the block barrier in `next_epoch`, from kernel to kernel by their order on the stream.
//!
//! Epochs are compared for equality. Before they wrap, each bank is zeroed in its last epoch and the count goes on at 2,
//! so that neither old slots nor zeroed ones are taken for new.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

mod multicast;

pub use multicast::LlMc;

use super::{Packets, for_all_peers};
use crate::abi::{DevBaseLayout, DevComm, LL_128_PAYLOAD_BYTES, LL_PAYLOAD_BYTES, SLOT_BYTES, STEP_RECEIVE};
use crate::element::Pack;
use crate::ptx;
use crate::team::Team;
use crate::thread;
use crate::wait::{Awaited, Watch};
use core::marker::PhantomData;

/// The last epoch of all, in the odd bank; the one before it is the last of the even bank.
const EPOCH_LAST: u32 = u32::MAX;
/// The epoch after [`EPOCH_LAST`]: even, and other than what zeroed slots hold.
const EPOCH_AFTER_LAST: u32 = 2;

/// LL packets with 8 of 16 bytes of data.
pub type Ll = Flagged<Halves>;
/// LL packets with 12 of 16 bytes of data (sm_90).
pub type Ll128 = Flagged<Whole>;

/// How data and epoch share a slot.
pub trait Format: Sized {
    /// Bytes of data.
    const BYTES: u64;
    /// Where the block's epoch stands.
    fn epoch_offset(layout: DevBaseLayout, block: u32) -> u64;
    /// Slots in which one sender reaches one block in one epoch.
    fn n_slots(layout: DevBaseLayout) -> u32;
    /// Where the slots of `sender` start.
    fn slots_offset(layout: DevBaseLayout, block: u32, epoch: u32, sender: u32) -> u64;
    /// Stores a slot.
    ///
    /// # Safety
    ///
    /// The slot is mapped for this device.
    unsafe fn store(address: u64, payload: Pack, epoch: u32);
    /// Loads a slot: its data, and an epoch other than `epoch` if any of the slot's is.
    ///
    /// # Safety
    ///
    /// The slot is mapped for this device.
    unsafe fn load(address: u64, epoch: u32) -> (Pack, u32);

    /// What is due at the start of an epoch, in every thread.
    #[inline(always)]
    fn open() {}

    /// Sends a payload to slot `index` of every peer.
    #[inline(always)]
    fn send_to_all(packets: &Flagged<Self>, index: u32, payload: Pack) {
        for_all_peers(packets.team, |peer| packets.send(peer, index, payload));
    }
}

/// Two halves {data32, epoch32}.
pub struct Halves;
/// One whole {data96, epoch32}.
pub struct Whole;

impl Halves {
    #[inline(always)]
    fn slot(payload: Pack, epoch: u32) -> [u64; 2] {
        let flag = (epoch as u64) << 32;
        [(payload[0] & 0xffff_ffff) | flag, (payload[0] >> 32) | flag]
    }
}

impl Format for Halves {
    const BYTES: u64 = LL_PAYLOAD_BYTES;

    #[inline(always)]
    fn epoch_offset(layout: DevBaseLayout, block: u32) -> u64 {
        layout.ll_epoch_offset(block)
    }

    #[inline(always)]
    fn n_slots(layout: DevBaseLayout) -> u32 {
        layout.ll_slots_per_block()
    }

    #[inline(always)]
    fn slots_offset(layout: DevBaseLayout, block: u32, epoch: u32, sender: u32) -> u64 {
        layout.ll_slots_offset(block, epoch, sender)
    }

    #[inline(always)]
    unsafe fn store(address: u64, payload: Pack, epoch: u32) {
        // SAFETY: as the caller says.
        unsafe { ptx::st_relaxed_sys_v2_b64(address, Self::slot(payload, epoch)) }
    }

    #[inline(always)]
    unsafe fn load(address: u64, epoch: u32) -> (Pack, u32) {
        // SAFETY: as the caller says.
        let [low, high] = unsafe { ptx::ld_relaxed_sys_v2_b64(address) };
        let (first, second) = ((low >> 32) as u32, (high >> 32) as u32);
        let seen = if first == epoch && intact!("ll_second_half") { second } else { first };
        ([(low & 0xffff_ffff) | (high << 32), 0], seen)
    }
}

impl Format for Whole {
    const BYTES: u64 = LL_128_PAYLOAD_BYTES;

    #[inline(always)]
    fn epoch_offset(layout: DevBaseLayout, block: u32) -> u64 {
        layout.ll_128_epoch_offset(block)
    }

    #[inline(always)]
    fn n_slots(layout: DevBaseLayout) -> u32 {
        layout.ll_slots_per_block()
    }

    #[inline(always)]
    fn slots_offset(layout: DevBaseLayout, block: u32, epoch: u32, sender: u32) -> u64 {
        layout.ll_128_slots_offset(block, epoch, sender)
    }

    #[inline(always)]
    unsafe fn store(address: u64, payload: Pack, epoch: u32) {
        let slot = [payload[0], (payload[1] & 0xffff_ffff) | (epoch as u64) << 32];
        // SAFETY: as the caller says.
        unsafe { ptx::st_relaxed_sys_b128(address, slot) }
    }

    #[inline(always)]
    unsafe fn load(address: u64, _epoch: u32) -> (Pack, u32) {
        // SAFETY: as the caller says.
        let [low, high] = unsafe { ptx::ld_relaxed_sys_b128(address) };
        ([low, high & 0xffff_ffff], (high >> 32) as u32)
    }
}

/// LL packets of one format.
pub struct Flagged<F> {
    team: Team,
    layout: DevBaseLayout,
    block: u32,
    epoch: u32,
    /// Where the multicast space is, if there is one.
    base_mc: u64,
    format: PhantomData<F>,
}

impl<F: Format> Packets for Flagged<F> {
    const BYTES: u64 = F::BYTES;
    const HAS_TILES: bool = false;

    #[inline(always)]
    fn capacity(layout: DevBaseLayout) -> u32 {
        F::n_slots(layout)
    }

    #[inline(always)]
    fn begin(comm: &DevComm) -> Self {
        let (team, layout, block) =
            (Team::new(comm), DevBaseLayout::new(comm.n_ranks), thread::block_idx_x());
        // SAFETY: `DevBase` is mapped; the word was last written by this block's previous kernel.
        let last = unsafe { ptx::ld_weak_b32(team.own_address(F::epoch_offset(layout, block))) };
        let epoch = if intact!("ll_epoch_step") { after(last) } else { last };
        Self { team, layout, block, epoch, base_mc: comm.base_mc, format: PhantomData }
    }

    #[inline(always)]
    fn open(&self) {
        F::open();
    }

    #[inline(always)]
    fn send(&self, peer: u32, index: u32, payload: Pack) {
        let address = self.team.address(peer, self.slot_offset(self.team.rank(), index));
        // SAFETY: `DevBase` of every rank is mapped for this device and `index` is below the layout's number of slots.
        unsafe { F::store(address, payload, self.epoch) }
    }

    #[inline(always)]
    fn send_to_all(&self, index: u32, payload: Pack) {
        F::send_to_all(self, index, payload);
    }

    #[inline(always)]
    fn receive<const N: usize>(
        &self,
        watch: &mut Watch,
        sender: u32,
        index: u32,
        step: u32,
        count: u32,
    ) -> [Pack; N] {
        let mut slots = [([0; 2], self.epoch); N];
        if count == 0 {
            return [[0; 2]; N];
        }
        watch.until(Awaited { peer: sender, step: STEP_RECEIVE, epoch: self.epoch }, || {
            for n in 0..N {
                let slot = index + (n as u32).min(count - 1) * step;
                // SAFETY: `DevBase` is mapped and the caller's indices are below the layout's number of slots.
                slots[n] =
                    unsafe { F::load(self.team.own_address(self.slot_offset(sender, slot)), self.epoch) };
            }
            let mut seen = self.epoch;
            for n in 0..N {
                if slots[n].1 != self.epoch {
                    seen = slots[n].1;
                }
            }
            (seen == self.epoch, seen)
        });
        let mut payloads = [[0; 2]; N];
        for n in 0..N {
            payloads[n] = slots[n].0;
        }
        payloads
    }

    #[inline(always)]
    fn save(&self) {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 && intact!("ll_epoch_save") {
            let word = self.team.own_address(F::epoch_offset(self.layout, self.block));
            // SAFETY: `DevBase` is mapped; the block's threads have read the word before the block barrier above.
            unsafe { ptx::st_weak_b32(word, self.epoch) }
        }
    }

    #[inline(always)]
    fn has_to_retire(&self) -> bool {
        self.epoch >= EPOCH_LAST - 1
    }

    /// Zeroes the bank if this is its last epoch before the wrap.
    #[inline(always)]
    fn retire(&self) {
        if !self.has_to_retire() || !intact!("ll_bank_zeroing") {
            return;
        }
        thread::sync_threads();
        let n_slots = F::n_slots(self.layout) * self.team.n_ranks();
        let mut slot = thread::thread_idx_x();
        while slot < n_slots {
            // SAFETY: the slots of all senders to this block lie behind each other in its own `DevBase`.
            unsafe { F::store(self.team.own_address(self.slot_offset(0, slot)), [0; 2], 0) };
            slot += thread::block_dim_x();
        }
        thread::sync_threads();
        // Behind the barrier, so that each thread's later sends release what all threads of the block have zeroed: a
        // release is a fence and a store of one thread (PTX ISA 8.9.1).
        ptx::fence_acq_rel_sys();
    }

    #[inline(always)]
    fn next_epoch(&mut self, watch: &Watch) -> bool {
        if intact!("ll_epoch_step_in_kernel") {
            self.epoch = after(self.epoch);
        }
        !thread::sync_threads_or(!watch.is_well())
    }
}

impl<F: Format> Flagged<F> {
    #[inline(always)]
    fn slot_offset(&self, sender: u32, index: u32) -> u64 {
        let bank = if intact!("ll_bank_switch") { self.epoch } else { 0 };
        F::slots_offset(self.layout, self.block, bank, sender) + index as u64 * SLOT_BYTES
    }
}

#[inline(always)]
fn after(epoch: u32) -> u32 {
    if epoch == EPOCH_LAST && intact!("ll_epoch_after_wrap") {
        EPOCH_AFTER_LAST
    } else {
        epoch.wrapping_add(1)
    }
}
