//! Bounded waits: no spin of a kernel is without an end.
//!
//! Every spin counts its polls. Every [`POLLS_PER_LOOK`] of them it looks at the poison word of its own rank, at the
//! abort word that the host may raise, and at the clock. A thread that gives up waits for nothing any more, but still
//! meets the barriers of its block, so that the kernel ends. It sends no more to its peers and arrives at no more
//! barriers across ranks, nor does its block from its next barrier on: whoever still waits for it shall not take what is
//! not there for arrived. At the end of the kernel the first such thread of a rank takes the claim word, writes the
//! [`FaultRecord`] for the host and poisons every rank, so that no peer, and no later kernel of a graph, waits its own
//! bound out. Outputs of the rank are then unspecified.

use crate::abi::{
    DevBaseHeader, DevComm, FaultRecord, STATE_ABORTED, STATE_OK, STATE_POISONED, STATE_TIMEOUT, STEP_ENTRY,
};
use crate::ptx;
use crate::team::Team;
use crate::thread;
use core::hint::cold_path;
use core::mem::offset_of;

/// Polls between two looks at the clock and the words that end a wait.
pub const POLLS_PER_LOOK: u32 = 4096;

/// What a thread waits for; told to the host when it does not come.
#[derive(Clone, Copy)]
pub struct Awaited {
    /// The peer that should write.
    pub peer: u32,
    /// One of the `STEP_*` values of [`crate::abi`].
    pub step: u32,
    /// The epoch that should appear.
    pub epoch: u32,
}

/// The waits of one thread in one kernel.
#[derive(Clone, Copy)]
pub struct Watch {
    team: Team,
    record: u64,
    /// [`STATE_OK`], or why the thread gave up.
    state: u32,
    awaited: Awaited,
    seen: u32,
}

impl Watch {
    /// Starts a kernel: waits for the work before it, since the host launches kernels early (`LaunchShape::waits_itself`);
    /// on a poisoned communicator nothing else will be waited for. Memory is touched behind this call alone.
    #[inline(always)]
    pub fn enter(comm: &DevComm) -> Self {
        let team = Team::new(comm);
        // Computed while the kernel before ends.
        let address = ptx::mov_b64(team.own_address(offset_of!(DevBaseHeader, poison) as u64));
        #[cfg(target_feature = "sm_90")]
        ptx::griddepcontrol_wait();
        // No branch on the word, so that the loads that follow need not wait for it.
        // SAFETY: `DevBase` is mapped for this device as long as the communicator lives.
        let poison = unsafe { ptx::ld_relaxed_sys_b32(address) };
        let awaited = Awaited { peer: poison.wrapping_sub(1), step: STEP_ENTRY, epoch: 0 };
        let state = if poison == 0 || !intact!("poison_on_entry") { STATE_OK } else { STATE_POISONED };
        Self { team, record: comm.record, state, awaited, seen: 0 }
    }

    /// As [`Self::enter`]; then lets the next kernel be launched, so that it stands ready when this one ends. Behind the
    /// wait, so that no more than one kernel's blocks stand ready. For kernels that end soon: the blocks take room.
    #[inline(always)]
    pub fn enter_with_next_ready(comm: &DevComm) -> Self {
        let watch = Self::enter(comm);
        #[cfg(target_feature = "sm_90")]
        ptx::griddepcontrol_launch_dependents();
        watch
    }

    /// Whether the thread has not given up: only then is what it waited for there.
    #[inline(always)]
    pub fn is_well(&self) -> bool {
        self.state == STATE_OK
    }

    /// Polls until `poll` says that the awaited has come, with what it saw; returns at once in a thread that gave up.
    #[inline(always)]
    pub fn until(&mut self, awaited: Awaited, mut poll: impl FnMut() -> (bool, u32)) {
        let mut start_ns = 0u64;
        while self.state == STATE_OK {
            let (mut polls, mut seen) = (0, 0);
            // Nothing else is in the loop that spins: what has come is seen a poll later, at most, and polls are short.
            while polls < POLLS_PER_LOOK {
                let (has_come, found) = poll();
                if has_come {
                    return;
                }
                (polls, seen) = (polls + 1, found);
            }
            cold_path();
            self.look(awaited, seen, &mut start_ns);
        }
    }

    /// Gives up for what was found, one of the `STATE_*` values, unless the thread has already.
    #[inline(always)]
    pub fn refuse(&mut self, state: u32, found: Awaited) {
        if self.is_well() {
            self.give_up(state, found, 0);
        }
    }

    /// Ends a kernel: the first thread of the rank that gave up tells the host and poisons every rank. Says whether the
    /// thread has not given up.
    #[inline(always)]
    pub fn leave(self) -> bool {
        self.leave_with(|_| ())
    }

    /// As [`Self::leave`]; `write_more` writes more of the record, whose address it is given.
    #[inline(always)]
    pub fn leave_with(self, write_more: impl FnOnce(u64)) -> bool {
        if self.state == STATE_OK {
            return true;
        }
        cold_path();
        let claim = self.team.own_address(offset_of!(DevBaseHeader, claim) as u64);
        // SAFETY: `DevBase` of every rank and the record are mapped for this device.
        unsafe {
            if ptx::atom_relaxed_gpu_cas_b32(claim, STATE_OK, self.state) == STATE_OK {
                write_more(self.record);
                self.write_record();
                self.poison_all();
            }
        }
        false
    }

    #[inline(always)]
    fn look(&mut self, awaited: Awaited, seen: u32, start_ns: &mut u64) {
        let now_ns = ptx::globaltimer_ns();
        if *start_ns == 0 {
            *start_ns = now_ns;
        }
        let poison = poison(self.team);
        if poison != 0 {
            self.give_up(STATE_POISONED, Awaited { peer: poison - 1, ..awaited }, seen);
        } else if self.is_aborted() {
            self.give_up(STATE_ABORTED, awaited, seen);
        } else if now_ns - *start_ns > self.timeout_ns() {
            self.give_up(STATE_TIMEOUT, awaited, seen);
        }
    }

    #[inline(always)]
    fn give_up(&mut self, state: u32, awaited: Awaited, seen: u32) {
        (self.state, self.awaited, self.seen) = (state, awaited, seen);
    }

    #[inline(always)]
    fn is_aborted(&self) -> bool {
        // SAFETY: the record is host memory that every device maps as long as the communicator lives.
        unsafe { ptx::ld_relaxed_sys_b32(self.record + offset_of!(FaultRecord, abort) as u64) != 0 }
    }

    #[inline(always)]
    fn timeout_ns(&self) -> u64 {
        // SAFETY: `DevBase` is mapped; the host wrote the word before the first launch.
        unsafe { ptx::ld_weak_b64(self.team.own_address(offset_of!(DevBaseHeader, timeout_ns) as u64)) }
    }

    /// Poisons every rank, unless another rank has done so.
    #[inline(always)]
    unsafe fn poison_all(&self) {
        let mut distance = if self.state == STATE_POISONED { self.team.n_ranks() } else { 0 };
        while distance < self.team.n_ranks() {
            let peer = self.team.neighbour(distance);
            let poison = self.team.address(peer, offset_of!(DevBaseHeader, poison) as u64);
            // SAFETY: the caller vouches for `DevBase` of every rank.
            unsafe { ptx::st_relaxed_sys_b32(poison, self.team.rank() + 1) };
            distance += 1;
        }
    }

    /// Writes the record, its state last: the host that sees the state by an acquiring load sees all of it.
    #[inline(always)]
    unsafe fn write_record(&self) {
        let field = |offset: usize| self.record + offset as u64;
        // SAFETY: the caller vouches for the record; only the thread that took the claim word writes it.
        unsafe {
            ptx::st_relaxed_sys_b32(field(offset_of!(FaultRecord, rank)), self.team.rank());
            ptx::st_relaxed_sys_b32(field(offset_of!(FaultRecord, peer)), self.awaited.peer);
            ptx::st_relaxed_sys_b32(field(offset_of!(FaultRecord, block)), thread::block_idx_x());
            ptx::st_relaxed_sys_b32(field(offset_of!(FaultRecord, step)), self.awaited.step);
            ptx::st_relaxed_sys_b32(field(offset_of!(FaultRecord, epoch_expected)), self.awaited.epoch);
            ptx::st_relaxed_sys_b32(field(offset_of!(FaultRecord, epoch_seen)), self.seen);
            ptx::st_release_sys_b32(field(offset_of!(FaultRecord, state)), self.state);
        }
    }
}

#[inline(always)]
fn poison(team: Team) -> u32 {
    let address = team.own_address(offset_of!(DevBaseHeader, poison) as u64);
    // SAFETY: `DevBase` is mapped for this device as long as the communicator lives.
    unsafe { ptx::ld_relaxed_sys_b32(address) }
}
