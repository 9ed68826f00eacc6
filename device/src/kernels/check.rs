//! The check before a collective, by two kernels of one block around it: [`CHECK_ENTER`] and [`CHECK_LEAVE`]. They are
//! launched only where calls are to be checked, so that the collectives' own kernels know nothing of it.
//!
//! ```text
//!   enter    busy mark: 0 → 1                 it was 1: two operations at once on this rank
//!            call of rank r ──► calls[r] of every peer
//!            barrier                          every peer's call is there
//!            calls[s] = own call?             it is not: rank s called something else
//!   the collective, which ends at once where the kernel before it gave up
//!   leave    busy mark: 1 → 0
//! ```
//!
//! Two hops before a collective, 8 bytes to each peer, and the starts of two kernels. What a call is comes as one word
//! from the host. Operations that the library launches come one behind another; it is graphs, replayed on two streams,
//! which never pass through the library, that the busy mark is for.
//!
//! Ordering: a call is stored before the arrival at the barrier, hence before its reader's load. There are two banks, used
//! by turns: a rank that stores at epoch e + 2 has passed the barrier of epoch e + 1, at which its reader arrived after it
//! had read epoch e, in an earlier kernel of one stream. The busy mark orders nothing: it is one word of one device, by
//! accesses of that device alone, each of them single-copy atomic and strong, so that of two kernels that both take it one
//! sees the other's. Who finds it taken touches nothing else, since the words are the other's.

#[cfg(not(target_arch = "nvptx64"))]
use super::promises::{LAUNCHED_EARLY, Promise, WAITS_ITSELF_SM_MIN, exactly, some};
#[cfg(not(target_arch = "nvptx64"))]
use super::set::KernelSet;
#[cfg(target_arch = "nvptx64")]
use device::{check_enter, check_leave};

/// Name of the kernel that is launched before a collective that is checked, with [`crate::abi::CheckArgs`].
pub const CHECK_ENTER: &str = "symmem_check_enter";
/// Name of the kernel that is launched behind it, with the same arguments.
pub const CHECK_LEAVE: &str = "symmem_check_leave";
/// Threads of the one block of either.
pub const CHECK_THREADS: u32 = 32;

#[cfg(not(target_arch = "nvptx64"))]
const KERNELS: [(&str, &[Promise]); 2] = [
    (
        CHECK_ENTER,
        &[
            exactly(2, "atom.relaxed.gpu.global.cas.b32"),
            some("st.release.sys.global.b32"),
            some("ld.acquire.sys"),
            exactly(3, "bar.red.or.pred"),
        ],
    ),
    (CHECK_LEAVE, &[exactly(1, "st.relaxed.sys.global.b32")]),
];

/// The kernels of the check that the PTX for `sm` has, with what each must hold. They are with those that do not reduce.
#[cfg(not(target_arch = "nvptx64"))]
pub fn check_kernels(
    sm: u32,
) -> impl Iterator<Item = (&'static str, impl Iterator<Item = &'static Promise>)> {
    let has_them = KernelSet::all_for(sm).any(|set| set == KernelSet::BYTES);
    let early = if sm >= WAITS_ITSELF_SM_MIN { LAUNCHED_EARLY } else { &[] };
    let kernels = KERNELS.iter().filter(move |_| has_them);
    kernels.map(move |&(name, promises)| (name, promises.iter().chain(early)))
}

/// The entries. The module for sm_89 has only what that for sm_80 has not.
#[cfg(all(
    target_arch = "nvptx64",
    feature = "kernels",
    any(not(target_feature = "sm_89"), target_feature = "sm_90")
))]
mod entries {
    use crate::abi::CheckArgs;

    macro_rules! entry {
        ($name:literal $run:path) => {
            const _: () = {
                #[unsafe(export_name = $name)]
                extern "ptx-kernel" fn entry(args: CheckArgs) {
                    $run(&args)
                }
            };
        };
    }

    entry! { "symmem_check_enter" super::check_enter }
    entry! { "symmem_check_leave" super::check_leave }
}

#[cfg(target_arch = "nvptx64")]
mod device {
    use crate::abi::{
        CheckArgs, DevBaseLayout, FaultRecord, STATE_CONCURRENT, STATE_MISMATCHED, STEP_CHECK, STEP_ENTRY,
    };
    use crate::barrier::Barrier;
    use crate::ptx;
    use crate::team::Team;
    use crate::thread;
    use crate::wait::{Awaited, Watch};
    use core::mem::offset_of;

    #[inline(always)]
    pub(super) fn check_enter(args: &CheckArgs) {
        let mut check = Check::new(args);
        check.take_mark();
        let mut others = args.call;
        if !thread::sync_threads_or(!check.watch.is_well()) {
            others = check.meet();
        }
        check.watch.leave_with(|record| write_calls(record, [args.call, others]));
    }

    #[inline(always)]
    pub(super) fn check_leave(args: &CheckArgs) {
        // Behind the collective: the check starts with a wait for it.
        let check = Check::new(args);
        if thread::thread_idx_x() == 0 {
            // SAFETY: `DevBase` is mapped for this device.
            unsafe { ptx::st_relaxed_sys_b32(check.busy(), 0) }
        }
    }

    struct Check<'a> {
        args: &'a CheckArgs,
        team: Team,
        layout: DevBaseLayout,
        watch: Watch,
    }

    impl<'a> Check<'a> {
        #[inline(always)]
        fn new(args: &'a CheckArgs) -> Self {
            let (team, layout) = (Team::new(&args.comm), DevBaseLayout::new(args.comm.n_ranks));
            Self { args, team, layout, watch: Watch::enter(&args.comm) }
        }

        #[inline(always)]
        fn busy(&self) -> u64 {
            self.team.own_address(self.layout.check_busy_offset())
        }

        /// Gives up, in one thread, if an operation is under way on this rank.
        #[inline(always)]
        fn take_mark(&mut self) {
            // SAFETY: `DevBase` is mapped for this device.
            if thread::thread_idx_x() == 0 && unsafe { ptx::atom_relaxed_gpu_cas_b32(self.busy(), 0, 1) } != 0
            {
                let found = Awaited { peer: self.team.rank(), step: STEP_ENTRY, epoch: 0 };
                self.watch.refuse(STATE_CONCURRENT, found);
            }
        }

        /// Tells all peers what is called here, and compares it with what they call. Gives up, in one thread, at the first
        /// that calls something else, and gives that thread what it is.
        #[inline(always)]
        fn meet(&mut self) -> u64 {
            let (epoch, inboxes) = (self.layout.check_epoch_offset(), self.layout.check_inbox_offset(0));
            let mut barrier = Barrier::at(&self.args.comm, epoch, inboxes);
            let bank = if intact!("check_bank_switch") { barrier.next() } else { 0 };
            self.tell(bank);
            let mut others = self.args.call;
            if barrier.sync(&mut self.watch, STEP_CHECK) && thread::thread_idx_x() == 0 {
                others = self.compare(bank);
            }
            barrier.end();
            others
        }

        #[inline(always)]
        fn tell(&self, bank: u32) {
            let mut distance = thread::thread_idx_x() + 1;
            while distance < self.team.n_ranks() {
                let offset = self.layout.check_call_offset(bank, self.team.rank());
                let theirs = self.team.address(self.team.neighbour(distance), offset);
                // SAFETY: `DevBase` of every rank is mapped for this device.
                unsafe { ptx::st_weak_b64(theirs, self.args.call) }
                distance += thread::block_dim_x();
            }
        }

        #[inline(always)]
        fn compare(&mut self, bank: u32) -> u64 {
            let mut distance = 1;
            while distance < self.team.n_ranks() {
                let peer = self.team.neighbour(distance);
                let mine = self.team.own_address(self.layout.check_call_offset(bank, peer));
                // SAFETY: `DevBase` is mapped; behind the barrier the peer's store is there.
                let theirs = unsafe { ptx::ld_weak_b64(mine) };
                if theirs != self.args.call {
                    self.watch.refuse(STATE_MISMATCHED, Awaited { peer, step: STEP_CHECK, epoch: 0 });
                    return theirs;
                }
                distance += 1;
            }
            self.args.call
        }
    }

    /// Writes what was called here and there, half by half.
    #[inline(always)]
    fn write_calls(record: u64, calls: [u64; 2]) {
        let first = record + offset_of!(FaultRecord, calls) as u64;
        let halves = [calls[0], calls[0] >> 32, calls[1], calls[1] >> 32];
        let mut n = 0;
        while n < halves.len() {
            // SAFETY: the record is host memory that every device maps as long as the communicator lives.
            unsafe { ptx::st_relaxed_sys_b32(first + n as u64 * 4, halves[n] as u32) }
            n += 1;
        }
    }
}
