//! Where a thread stands, and its block's barrier. Names are those of `cuda_std::thread`.

use core::arch::nvptx;

unsafe extern "C" {
    /// `bar.red.or.pred`, known to the compiler as a barrier, which inline assembly would not be.
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    safe fn barrier_or(barrier: u32, predicate: bool) -> bool;
}

/// Index of the thread in its block.
#[inline(always)]
pub fn thread_idx_x() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_thread_idx_x() as u32 }
}

/// Threads in a block.
#[inline(always)]
pub fn block_dim_x() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_dim_x() as u32 }
}

/// Index of the block in the grid.
#[inline(always)]
pub fn block_idx_x() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_block_idx_x() as u32 }
}

/// Blocks in the grid.
#[inline(always)]
pub fn grid_dim_x() -> u32 {
    // SAFETY: reads a special register.
    unsafe { nvptx::_grid_dim_x() as u32 }
}

/// Waits for every thread of the block; what they did before happens before what any of them does after.
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: every thread of the block executes the same barriers; callers keep them out of divergent branches.
    unsafe { nvptx::_syncthreads() }
}

/// As [`sync_threads`]; gives every thread whether the predicate holds in any.
#[inline(always)]
pub fn sync_threads_or(predicate: bool) -> bool {
    barrier_or(0, predicate)
}
