//! A collective done again and again by one launch, to measure it without the launches: the kernels of f32 sum and of
//! bytes, each in a loop.
//!
//! A table of their own: no plan takes them, no communicator loads them unless it is asked to
//! (`symmem::Comm::prepare_loops`). The collectives' own kernels know nothing of it.
//!
//! ```text
//!   block b    collective │ block barrier (fence) │ collective │ block barrier (fence) │ …
//! ```
//!
//! What the end of a kernel and the start of the next give to a collective must stand between two turns of the loop.
//! Block b of a rank touches, turn after turn, the same part of input and output, its own slots, inboxes and epochs,
//! and those of block b at its peers; so it has to wait for nobody but its own threads.
//!
//! - **Words of the protocol.** Thread 0 leaves the block's epoch, state or turn; all threads read it when the next
//!   turn begins. The block barrier orders the two (PTX ISA 8.9.5).
//! - **LL slots** are used again two epochs later, behind what the peer sent after it had read them. Within a kernel as
//!   here the block barrier brings the sends of all threads behind the reads of all (`next_epoch` in `packets/ll.rs`).
//! - **Sentinel slots** are poisoned by other threads than those whose sends tell the peer that they are. From kernel
//!   to kernel that rests on H2 (see `packets`); within one it takes the fence behind the block barrier that
//!   stands in `next_epoch` of `packets/sentinel.rs`, and so it does here.
//! - **Barriers across ranks** order all that came before them by themselves. Scratch has three regions, whose order
//!   goes on from turn to turn as from kernel to kernel (`push_scratch`).
//! - **Data.** An output is stored again by the thread that stored it before, or behind a barrier across ranks. In
//!   place, the input of a turn is what the same block has stored or, by the exit barrier, what that block of a peer
//!   has.
//!
//! A block in which a thread gives up ends with that turn, which the block barrier tells all of its threads: the poison may
//! be another block's and still be under way, and what a next turn would send, or its arrival at a barrier, could pass for
//! what the peers still wait for. The turns of other blocks find the poison when they begin or at their next look. So a
//! launch that fails takes about the bound of one wait, and what it leaves in the outputs of any rank is unspecified.

#[cfg(not(target_arch = "nvptx64"))]
use super::{KERNELS, KernelSpec, Promise, promises::BLOCK_BARRIER_OR};

/// The least compute capability, as major × 10 + minor, that they are compiled for.
#[cfg(not(target_arch = "nvptx64"))]
const SM_MIN: u32 = 90;

/// What the host knows of one.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopSpec {
    /// Name of the entry point in the PTX. It takes [`crate::abi::LoopArgs`].
    pub name: &'static str,
    /// Name of the kernel that it does.
    pub repeated: &'static str,
}

#[cfg(not(target_arch = "nvptx64"))]
impl LoopSpec {
    /// The kernel that it does.
    ///
    /// # Panics
    ///
    /// Never: the tests find each in the table.
    pub fn kernel(&self) -> &'static KernelSpec {
        KERNELS.iter().find(|kernel| kernel.name == self.repeated).expect("the table of kernels has it")
    }

    /// What its PTX for `sm` must hold: what its kernel's must, and one block barrier more, at which a block that gave up
    /// ends.
    pub fn promises(&self, sm: u32) -> impl Iterator<Item = Promise> {
        self.kernel().promises(sm).map(|&promise| match promise.instruction {
            BLOCK_BARRIER_OR => promise.times_more(1),
            _ => promise,
        })
    }

    /// Whether the PTX for `sm` (80, 89 or 90) has it.
    pub fn is_compiled_for(&self, sm: u32) -> bool {
        sm >= SM_MIN
    }
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! looped {
    ($($kernel:ident $types:ident $between:ident;)*) => {
        /// All loops.
        pub static LOOPS: &[LoopSpec] = &[$(LoopSpec {
            name: concat!("symmem_loop_", stringify!($kernel), "_", stringify!($types)),
            repeated: concat!("symmem_", stringify!($kernel), "_", stringify!($types)),
        },)*];
    };
}

#[cfg(all(
    target_arch = "nvptx64",
    not(all(feature = "kernels", target_feature = "sm_90", not(symmem_mutant)))
))]
macro_rules! looped {
    ($($row:tt)*) => {};
}

/// The entries, each in a module of its own as those of the table are.
#[cfg(all(target_arch = "nvptx64", feature = "kernels", target_feature = "sm_90", not(symmem_mutant)))]
macro_rules! looped {
    ($($kernel:ident $types:ident $between:ident;)*) => {
        $(mod $kernel {
            #[unsafe(export_name = concat!("symmem_loop_", stringify!($kernel), "_", stringify!($types)))]
            extern "ptx-kernel" fn entry(args: crate::abi::LoopArgs) {
                super::device::repeat(&args, super::device::$between, once)
            }

            #[inline(always)]
            fn once(args: &crate::abi::CollectiveArgs) -> bool {
                looped!(@run $kernel $types (args))
            }
        })*
    };
    (@run $kernel:ident any_any ($args:expr)) => { crate::kernels::$kernel($args) };
    (@run $kernel:ident f32_sum ($args:expr)) => {
        crate::kernels::$kernel::<crate::element::F32, crate::element::Sum>($args)
    };
}

looped! {
    all_reduce_ll f32_sum block_barrier;
    all_reduce_ll_128 f32_sum block_barrier;
    all_reduce_ll_two_shot f32_sum block_barrier;
    all_reduce_sentinel f32_sum block_barrier_and_fence;
    all_reduce_sentinel_two_shot f32_sum block_barrier_and_fence;
    all_reduce_two_shot_ld_st f32_sum block_barrier;
    all_reduce_two_shot_push f32_sum block_barrier;
    reduce_scatter_ll f32_sum block_barrier;
    reduce_scatter_ll_128 f32_sum block_barrier;
    reduce_scatter_sentinel f32_sum block_barrier_and_fence;
    reduce_scatter_ld f32_sum block_barrier;
    reduce_scatter_push f32_sum block_barrier;
    all_gather_ll any_any block_barrier;
    all_gather_ll_128 any_any block_barrier;
    all_gather_sentinel any_any block_barrier_and_fence;
    all_gather_st any_any block_barrier;
    broadcast_ll any_any block_barrier;
    broadcast_st any_any block_barrier;
    all_to_all_ll any_any block_barrier;
    all_to_all_st any_any block_barrier;
}

#[cfg(all(target_arch = "nvptx64", feature = "kernels", target_feature = "sm_90", not(symmem_mutant)))]
mod device {
    use crate::abi::{CollectiveArgs, LoopArgs};
    use crate::{ptx, thread};

    /// What stands between two turns where nothing rests on the end of a kernel. Says whether there is another: whether all
    /// threads of the block want one.
    #[inline(always)]
    pub(super) fn block_barrier(wants_more: bool) -> bool {
        !thread::sync_threads_or(!wants_more)
    }

    /// What stands there where something does.
    #[inline(always)]
    pub(super) fn block_barrier_and_fence(wants_more: bool) -> bool {
        let has_more = block_barrier(wants_more);
        ptx::fence_acq_rel_sys();
        has_more
    }

    /// Does `collective` so many times, at least once, with `between` behind each; fewer times where a thread of the block
    /// gives up. One branch for both: with one for each, more registers are spilled.
    #[inline(always)]
    pub(super) fn repeat(
        args: &LoopArgs,
        between: impl Fn(bool) -> bool,
        collective: impl Fn(&CollectiveArgs) -> bool,
    ) {
        let mut left = args.repeats.max(1);
        loop {
            let is_well = collective(&args.collective);
            left -= 1;
            if !between(is_well && left > 0) {
                return;
            }
        }
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    #[test]
    fn each_does_a_kernel_of_the_table_and_has_a_name_of_its_own() {
        for spec in LOOPS {
            let kernel = spec.kernel();
            assert_eq!(spec.name.replacen("_loop", "", 1), kernel.name);
            assert!(kernel.sm_min <= SM_MIN && KERNELS.iter().all(|kernel| kernel.name != spec.name));
        }
    }

    /// All that copy engines and the switch have no part in.
    #[test]
    fn every_unicast_kernel_of_f32_sum_and_of_bytes_has_one() {
        use super::super::{Algorithm, Dtype, Op};
        let is_repeated = |kernel: &&KernelSpec| {
            kernel.dtype.is_none_or(|dtype| dtype == Dtype::F32)
                && kernel.op.is_none_or(|op| op == Op::Sum)
                && kernel.algorithm.multicast().is_none()
                && kernel.algorithm != Algorithm::Ce
        };
        let wanted = KERNELS.iter().filter(is_repeated).map(|kernel| kernel.name);
        assert!(LOOPS.iter().map(|spec| spec.repeated).eq(wanted));
    }
}
