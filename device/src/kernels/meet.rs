//! All-gather `ce`: copy engines move the data, and this kernel, one block, is the barrier before and behind them. The
//! host launches it, a copy to each rank, and it again. Out of place, the copy to the rank's own output goes beside the
//! others, in a stream that is forked from theirs and joined again.
//!
//! ```text
//!   kernel                        every rank's output may be written
//!   copies   rank r   in ──┬────► out[r] of rank 0
//!                          ├────► out[r] of rank 1
//!                          └────► out[r] of rank …
//!   kernel                        every rank's output is complete
//! ```
//!
//! Three hops and the starts of as many pieces of work, copies to peers one behind the other, which is long; S·(n−1) bytes
//! per rank for a share of S bytes, by engines that take no multiprocessor from others. The barrier's epoch lives in device
//! memory, so that a graph of kernels and copies may be replayed.
//!
//! Ordering: what a rank did with its output in earlier work on the stream happens before its arrival at the first
//! barrier, hence before the end of every rank's first kernel and the copies behind it. Each rank's copies end before its
//! second kernel begins, which comes behind them in their streams, hence before its arrival at the second barrier. No
//! launch here may be early: only kernels wait by themselves for what is before them, copies do not. Nor do they know that
//! the first kernel gave up: where a peer does not come, its output is written all the same.

use crate::abi::{CollectiveArgs, STEP_BARRIER_COPIES};
use crate::barrier::Barrier;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_gather_ce(args: &CollectiveArgs) -> bool {
    let mut watch = Watch::enter(&args.comm);
    let mut barrier = Barrier::begin(&args.comm);
    barrier.sync(&mut watch, STEP_BARRIER_COPIES);
    barrier.end();
    watch.leave()
}
