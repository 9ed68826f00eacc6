//! LL packets: data and flag travel in one store, so that nothing else needs to be waited for.
//!
//! A slot is 16 bytes, two halves {data32, epoch32}. It is sent by one `st.relaxed.sys.v2.b64` and polled by
//! `ld.relaxed.sys.v2.b64` until both halves carry the epoch. Each half is one 8-byte access and so single-copy atomic
//! (PTX ISA 8.2): a half with the right epoch has the right data, and no fence is needed.
//!
//! Every block owns its slots, two banks of them used by turns, and one epoch word. A bank is written again two epochs
//! later. Rank p may write bank e + 2 of rank q only when q has read bank e. It does so after it received a slot of
//! epoch e + 1 from q, and q sent that after its whole block had read epoch e: inside a kernel by the block barrier in
//! [`LlSession::next_epoch`], from kernel to kernel by their order on the stream. This rests on two assumptions beyond
//! PTX: H1, no store becomes visible before the loads that its branch tested have returned; H2, a kernel's stores are
//! performed before any store of the next kernel on that stream. It also means that in every epoch each rank sends at
//! least one slot to each other rank, per block: a block whose share is empty on all ranks steps no epoch.
//!
//! Epochs are compared for equality. Before they wrap, each bank is zeroed in its last epoch and the count goes on at 2,
//! so that neither old slots nor zeroed ones are taken for new.

use crate::abi::{DevBaseLayout, DevComm, LL_SLOT_BYTES, STEP_LL_RECEIVE};
use crate::ptx;
use crate::team::Team;
use crate::thread;
use crate::wait::{Awaited, Watch};

/// The last epoch of all, in the odd bank; the one before it is the last of the even bank.
const EPOCH_LAST: u32 = u32::MAX;
/// The epoch after [`EPOCH_LAST`]: even, and other than what zeroed slots hold.
const EPOCH_AFTER_LAST: u32 = 2;

/// The LL packets of one block in one kernel.
pub struct LlSession {
    team: Team,
    layout: DevBaseLayout,
    block: u32,
    epoch: u32,
}

impl LlSession {
    /// Starts the block's next epoch.
    #[inline(always)]
    pub fn begin(comm: &DevComm) -> Self {
        let (team, layout, block) =
            (Team::new(comm), DevBaseLayout::new(comm.n_ranks), thread::block_idx_x());
        // SAFETY: `DevBase` is mapped; the word was last written by this block's previous kernel.
        let last = unsafe { ptx::ld_weak_b32(team.own_address(layout.ll_epoch_offset(block))) };
        let epoch = if intact!("ll_epoch_step") { after(last) } else { last };
        Self { team, layout, block, epoch }
    }

    /// Sends 8 bytes to slot `index` of `peer`.
    #[inline(always)]
    pub fn send(&self, peer: u32, index: u32, payload: u64) {
        let offset = self.slot_offset(self.team.rank(), index);
        // SAFETY: `DevBase` of every rank is mapped for this device and `index` is below the layout's number of slots.
        unsafe { ptx::st_relaxed_sys_v2_b64(self.team.address(peer, offset), self.packet(payload)) }
    }

    /// Receives the slots `index`, `index + step`, … of `sender`, as many as `wanted` names from the first on.
    ///
    /// All of them are loaded before the first is looked at, so that `N` polls cost one round trip to memory.
    #[inline(always)]
    pub fn receive<const N: usize>(
        &self,
        watch: &mut Watch,
        sender: u32,
        index: u32,
        step: u32,
        wanted: [bool; N],
    ) -> [u64; N] {
        let mut packets = [[0u64; 2]; N];
        watch.until(Awaited { peer: sender, step: STEP_LL_RECEIVE, epoch: self.epoch }, || {
            for n in 0..N {
                if wanted[n] {
                    let offset = self.slot_offset(sender, index + n as u32 * step);
                    // SAFETY: `DevBase` is mapped and the caller's indices are below the layout's number of slots.
                    packets[n] = unsafe { ptx::ld_relaxed_sys_v2_b64(self.team.own_address(offset)) };
                }
            }
            let mut late = self.epoch;
            for n in 0..N {
                for half in if intact!("ll_second_half") { packets[n] } else { [packets[n][0]; 2] } {
                    if wanted[n] && (half >> 32) as u32 != self.epoch {
                        late = (half >> 32) as u32;
                    }
                }
            }
            (late == self.epoch, late)
        });
        let mut payloads = [0; N];
        for n in 0..N {
            payloads[n] = (packets[n][0] & 0xffff_ffff) | (packets[n][1] << 32);
        }
        payloads
    }

    /// Leaves the epoch for the block's next kernel. Executed by the whole block in its last epoch, best between the
    /// sends and the receives, where it costs nothing.
    #[inline(always)]
    pub fn save_epoch(&self) {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 && intact!("ll_epoch_save") {
            let word = self.team.own_address(self.layout.ll_epoch_offset(self.block));
            // SAFETY: `DevBase` is mapped; the block's threads have read the word before the block barrier above.
            unsafe { ptx::st_weak_b32(word, self.epoch) }
        }
    }

    /// Goes on to the next epoch of the same kernel; says whether no thread of the block has given up. Executed by the
    /// whole block, which gets one answer, behind [`Self::retire_bank`].
    #[inline(always)]
    pub fn next_epoch(&mut self, watch: &Watch) -> bool {
        if intact!("ll_epoch_step_in_kernel") {
            self.epoch = after(self.epoch);
        }
        !thread::sync_threads_or(!watch.is_well())
    }

    /// Zeroes the bank if this is its last epoch before the wrap. Executed by the whole block in every epoch, behind its
    /// receives.
    #[inline(always)]
    pub fn retire_bank(&self) {
        if self.epoch < EPOCH_LAST - 1 || !intact!("ll_bank_zeroing") {
            return;
        }
        thread::sync_threads();
        let n_slots = self.layout.ll_slots_per_block() * self.team.n_ranks();
        let mut slot = thread::thread_idx_x();
        while slot < n_slots {
            let offset = self.slot_offset(0, slot);
            // SAFETY: the slots of all senders to this block lie behind each other in its own `DevBase`.
            unsafe { ptx::st_relaxed_sys_v2_b64(self.team.own_address(offset), [0, 0]) };
            slot += thread::block_dim_x();
        }
        thread::sync_threads();
        // Behind the barrier, so that each thread's later sends release what all threads of the block have zeroed: a
        // release is a fence and a store of one thread (PTX ISA 8.9.1).
        ptx::fence_acq_rel_sys();
    }

    #[inline(always)]
    fn slot_offset(&self, sender: u32, index: u32) -> u64 {
        let bank = if intact!("ll_bank_switch") { self.epoch } else { 0 };
        self.layout.ll_slots_offset(self.block, bank, sender) + index as u64 * LL_SLOT_BYTES
    }

    #[inline(always)]
    fn packet(&self, payload: u64) -> [u64; 2] {
        let flag = (self.epoch as u64) << 32;
        [(payload & 0xffff_ffff) | flag, (payload >> 32) | flag]
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
