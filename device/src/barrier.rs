//! The barrier across ranks: block b of a rank meets block b of every other rank, never another block.
//!
//! Memory: one inbox word per (block, sender), written by that sender alone, and one epoch word per block, written by
//! the block itself. Words only grow, so nothing is ever reset and a captured graph may be replayed.
//!
//! The words of block b stand at its number, those of the check before a collective ([`crate::kernels::CHECK_ENTER`]) at a
//! place of their own.
//!
//! Ordering. What any thread of the block did before [`Barrier::sync`] happens before the block barrier at its start
//! (`bar.red` orders the threads of a block, PTX ISA 8.9.5), hence before the `st.release.sys` of each arriving thread,
//! which is cumulative. The waiting thread polls that word by relaxed loads and then reads it by an acquiring one, which
//! sees the same store or a later one of that peer's: release and acquire patterns that synchronise (PTX ISA 8.9.2). The
//! block barrier at the end hands the order on to all threads of the block. So everything before the barrier on any rank
//! happens before everything after it on every rank, block by block.

use crate::abi::{DevBaseLayout, DevComm};
use crate::ptx;
use crate::team::Team;
use crate::thread;
use crate::wait::{Awaited, Watch};

/// The barrier of one block in one kernel.
pub struct Barrier {
    team: Team,
    epoch_offset: u64,
    /// Of sender 0's word; the others' lie behind it.
    inboxes_offset: u64,
    /// Epoch of the last barrier that the block passed.
    epoch: u32,
}

impl Barrier {
    /// Takes up the barrier where the block's last kernel left it.
    #[inline(always)]
    pub fn begin(comm: &DevComm) -> Self {
        let (layout, block) = (DevBaseLayout::new(comm.n_ranks), thread::block_idx_x());
        Self::at(comm, layout.barrier_epoch_offset(block), layout.barrier_inbox_offset(block, 0))
    }

    /// The barrier of the one block that meets in these words.
    #[inline(always)]
    pub fn at(comm: &DevComm, epoch_offset: u64, inboxes_offset: u64) -> Self {
        let team = Team::new(comm);
        // SAFETY: `DevBase` is mapped; the word was last written by this block's previous kernel.
        let epoch = unsafe { ptx::ld_weak_b32(team.own_address(epoch_offset)) };
        Self { team, epoch_offset, inboxes_offset, epoch }
    }

    /// Waits for this block on every rank; says whether all came. Executed by the whole block, which gets one answer.
    ///
    /// A block in which a thread has given up does not arrive: its peers must not go on as if it had done its part.
    #[inline(always)]
    pub fn sync(&mut self, watch: &mut Watch, step: u32) -> bool {
        self.arrive(watch) && self.wait(watch, step)
    }

    /// The first half of [`Self::sync`]: tells all ranks that this block is there, unless one of its threads has given up.
    #[inline(always)]
    pub fn arrive(&self, watch: &Watch) -> bool {
        if thread::sync_threads_or(!watch.is_well()) && intact!("poison_before_arrival") {
            return false;
        }
        self.for_my_peers(|peer| {
            let theirs = self.team.address(peer, self.inbox_offset(self.team.rank()));
            // SAFETY: `DevBase` of every rank is mapped for this device.
            unsafe { ptx::st_release_sys_b32(theirs, self.next()) };
        });
        true
    }

    /// The second half: waits until all ranks have arrived. Behind one [`Self::arrive`].
    #[inline(always)]
    pub fn wait(&mut self, watch: &mut Watch, step: u32) -> bool {
        let next = self.next();
        self.for_my_peers(|peer| {
            let mine = self.team.own_address(self.inbox_offset(peer));
            watch.until(Awaited { peer, step, epoch: next }, || {
                // SAFETY: `DevBase` is mapped.
                let seen = unsafe { ptx::ld_relaxed_sys_b32(mine) };
                // A peer may already be one barrier ahead; the distance is signed so that the words may wrap.
                (seen.wrapping_sub(next) as i32 >= 0 || !intact!("barrier_wait"), seen)
            });
            // Reads what was seen, or what the peer wrote later: it orders like a fence here and costs less than one.
            // SAFETY: as above.
            unsafe { ptx::ld_acquire_sys_b32(mine) };
        });
        self.epoch = next;
        !thread::sync_threads_or(!watch.is_well())
    }

    /// Leaves the epoch for the block's next kernel. Behind the last [`Self::sync`].
    #[inline(always)]
    pub fn end(self) {
        if thread::thread_idx_x() == 0 && intact!("barrier_epoch_save") {
            let word = self.team.own_address(self.epoch_offset);
            // SAFETY: `DevBase` is mapped; the block's other threads read the word before the last block barrier.
            unsafe { ptx::st_weak_b32(word, self.epoch) }
        }
    }

    #[inline(always)]
    fn inbox_offset(&self, sender: u32) -> u64 {
        self.inboxes_offset + sender as u64 * 4
    }

    /// The epoch of the barrier to come.
    #[inline(always)]
    pub fn next(&self) -> u32 {
        self.epoch.wrapping_add(intact!("barrier_epoch_step") as u32)
    }

    /// Calls `f` with each peer that this thread meets: most threads have none.
    #[inline(always)]
    fn for_my_peers(&self, mut f: impl FnMut(u32)) {
        let mut distance = thread::thread_idx_x() + 1;
        while distance < self.team.n_ranks() {
            f(self.team.neighbour(distance));
            distance += thread::block_dim_x();
        }
    }
}
