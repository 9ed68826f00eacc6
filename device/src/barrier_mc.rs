//! The barrier across ranks by multicast: block b of a rank meets block b of every other rank, with one
//! `multimem.red` each instead of a store to each peer.
//!
//! Memory: one inbox word per block, to which every rank, this one too, adds 1 at each barrier, and one epoch word per
//! block: what the inbox held when all had come to the last barrier. Both grow by the number of ranks, so nothing is ever
//! reset. Apart from the words of [`crate::barrier`].
//!
//! Ordering. As there: the block barrier at the start hands what the block did to thread 0, whose `red.release.sys` is
//! cumulative; it polls with relaxed loads and fences, and the block barrier at the end hands the order on. A release
//! pattern through reductions of others is a release sequence (PTX ISA 8.9.1).
//!
//! Unicast and multicast addresses of one memory are two proxies, ordered only by a `fence.proxy.alias` on the causality
//! path (PTX ISA 8.3, 8.9.5). The first one, before the red, is for data: whatever the block, or earlier kernels of its
//! rank, did by either kind of address comes before what any rank does by the other kind behind the barrier. The second
//! one, between the red and the poll, is for the inbox itself, which the reds reach by multicast and the poll by unicast.

use crate::abi::{DevBaseLayout, DevComm, PEER_UNKNOWN};
use crate::ptx;
use crate::team::Team;
use crate::thread;
use crate::wait::{Awaited, Watch};

/// The multicast barrier of one block in one kernel.
pub struct BarrierMc {
    team: Team,
    base_mc: u64,
    layout: DevBaseLayout,
    block: u32,
    /// What the inbox holds when all have come to the last barrier that the block passed.
    epoch: u32,
}

impl BarrierMc {
    /// Takes up the barrier where the block's last kernel left it.
    #[inline(always)]
    pub fn begin(comm: &DevComm) -> Self {
        let (team, layout, block) =
            (Team::new(comm), DevBaseLayout::new(comm.n_ranks), thread::block_idx_x());
        // SAFETY: `DevBase` is mapped; the word was last written by this block's previous kernel.
        let epoch = unsafe { ptx::ld_weak_b32(team.own_address(layout.mc_barrier_epoch_offset(block))) };
        Self { team, base_mc: comm.base_mc, layout, block, epoch }
    }

    /// Waits for this block on every rank; see [`crate::barrier::Barrier::sync`].
    #[inline(always)]
    pub fn sync(&mut self, watch: &mut Watch, step: u32) -> bool {
        if thread::sync_threads_or(!watch.is_well()) {
            return false;
        }
        if intact!("mc_barrier_epoch_step") {
            self.epoch = self.epoch.wrapping_add(self.team.n_ranks());
        }
        if thread::thread_idx_x() == 0 {
            self.meet(watch, step);
        }
        !thread::sync_threads_or(!watch.is_well())
    }

    /// Leaves the epoch for the block's next kernel. Behind the last [`Self::sync`].
    #[inline(always)]
    pub fn end(self) {
        if thread::thread_idx_x() == 0 && intact!("mc_barrier_epoch_save") {
            let word = self.team.own_address(self.layout.mc_barrier_epoch_offset(self.block));
            // SAFETY: `DevBase` is mapped; the block's other threads read the word before the last block barrier.
            unsafe { ptx::st_weak_b32(word, self.epoch) }
        }
    }

    #[inline(always)]
    fn meet(&self, watch: &mut Watch, step: u32) {
        let inbox = self.layout.mc_barrier_inbox_offset(self.block);
        ptx::fence_proxy_alias();
        // SAFETY: `DevBase` of every rank is bound in the multicast space.
        unsafe { ptx::multimem_red_release_sys_add_u32(self.base_mc + inbox, 1) };
        ptx::fence_proxy_alias();
        let mine = self.team.own_address(inbox);
        watch.until(Awaited { peer: PEER_UNKNOWN, step, epoch: self.epoch }, || {
            // SAFETY: `DevBase` is mapped for this device.
            let seen = unsafe { ptx::ld_relaxed_sys_b32(mine) };
            // Peers may already be one barrier ahead; the distance is signed so that the words may wrap.
            (seen.wrapping_sub(self.epoch) as i32 >= 0, seen)
        });
        ptx::fence_acq_rel_sys();
    }
}
