//! Each rank hands a message to the next one. `exchange` is right; `exchange_without_release` lacks one order, which
//! `cargo xtask check --launch examples/exchange/wrong.json` finds.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

#[cfg(target_arch = "nvptx64")]
mod kernels {
    use symmem_device::abi::DevComm;
    use symmem_device::team::{SymPtr, Team};
    use symmem_device::wait::{Awaited, Watch};
    use symmem_device::{ptx, thread};

    /// One word a thread, from `input` to `inbox` of the next rank and from there to `output`; `flag` is the word that
    /// says that the message is there.
    #[unsafe(no_mangle)]
    pub extern "ptx-kernel" fn exchange(comm: DevComm, input: u64, inbox: u64, flag: u64, output: u64) {
        // SAFETY: the host vouches for the offsets.
        run(&comm, [input, inbox, flag, output], |flag| unsafe { ptx::st_release_sys_b32(flag, 1) });
    }

    /// The same, but nothing orders the message before the flag.
    #[unsafe(no_mangle)]
    pub extern "ptx-kernel" fn exchange_without_release(
        comm: DevComm,
        input: u64,
        inbox: u64,
        flag: u64,
        output: u64,
    ) {
        // SAFETY: the host vouches for the offsets.
        run(&comm, [input, inbox, flag, output], |flag| unsafe { ptx::st_relaxed_sys_b32(flag, 1) });
    }

    #[inline(always)]
    fn run(comm: &DevComm, [input, inbox, flag, output]: [u64; 4], raise: impl Fn(u64)) {
        let team = Team::new(comm);
        let mut watch = Watch::enter(comm);
        let (next, previous) = (team.neighbour(1), team.neighbour(team.n_ranks() - 1));
        let thread = u64::from(thread::thread_idx_x());
        let word = |buffer: u64| SymPtr::<u32>::new(buffer).add(thread);
        // SAFETY: the host vouches for the offsets, and that each buffer has a word for every thread.
        unsafe { ptx::st_weak_b32(word(inbox).at(team, next), ptx::ld_weak_b32(word(input).own(team))) };
        thread::sync_threads();
        if thread == 0 {
            let flag = SymPtr::<u32>::new(flag);
            raise(flag.at(team, next));
            watch.until(Awaited { peer: previous, step: 0, epoch: 1 }, || {
                // SAFETY: as above.
                let seen = unsafe { ptx::ld_relaxed_sys_b32(flag.own(team)) };
                (seen == 1, seen)
            });
            ptx::fence_acq_rel_sys();
        }
        thread::sync_threads();
        // SAFETY: as above.
        unsafe { ptx::st_weak_b32(word(output).own(team), ptx::ld_weak_b32(word(inbox).own(team))) };
        watch.leave();
    }
}
