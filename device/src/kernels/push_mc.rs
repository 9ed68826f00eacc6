//! One store to everyone: all-reduce `ll_mc`, all-gather `ll_mc`. Every rank sends its message, or its share, once, as
//! multicast packets that the switch brings to all; each rank reduces or unpacks what it receives.
//!
//! ```text
//!   rank r   in ──── switch ──┬─► slots[r] of rank 0
//!                             ├─► slots[r] of rank 1
//!                             └─► slots[r] of rank …
//!   rank r   poll slots[s] of every other rank s;   all-reduce: in and slots, folded in rank order ──► out
//!                                                   all-gather: slots[s] ──► out[s]
//! ```
//!
//! One hop through the switch, no barrier. A rank sends 2·S bytes for S bytes, whatever the number of ranks, and receives
//! 2·S·n: its own come back too. The fold is that of `ll`, so results have the same bits.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. Each slot of the output is stored by the
//! thread that loaded the same slot of the input, so in and out may be the same memory.

use super::{gather, push_all};
use crate::abi::CollectiveArgs;
use crate::element::{Element, Reduction};
use crate::packets::LlMc;

#[inline(always)]
pub(super) fn all_reduce_ll_mc<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    push_all::run::<LlMc, T, O, 1>(args)
}

#[inline(always)]
pub(super) fn all_gather_ll_mc(args: &CollectiveArgs) -> bool {
    gather::run::<LlMc, 1>(args)
}
