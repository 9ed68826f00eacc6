//! The collectives, one file for each way that data take, and the one table that names every kernel.
//!
//! | file | way | kernels |
//! |---|---|---|
//! | `push_all` | everything to everyone, as packets | all-reduce `ll`, `ll_128`, `sentinel` |
//! | `push_parts` | parts to their owners, as packets, and back | all-reduce `ll_two_shot`, `sentinel_two_shot`; reduce-scatter `ll`, `ll_128`, `sentinel` |
//! | `gather` | shares to everyone, as packets | all-gather `ll`, `ll_128`, `sentinel` |
//! | `pull` | owners load, between barriers | all-reduce `two_shot_ld_st`; reduce-scatter `ld` |
//! | `push_scratch` | parts into their owners' scratch, between barriers | all-reduce `two_shot_push`; reduce-scatter `push` |
//! | `broadcast` | the root's message to everyone, as packets | broadcast `ll` |
//! | `all_to_all` | parts to whom they are for, as packets | all-to-all `ll` |
//! | `store_all` | to everyone what is theirs, between barriers | all-gather `st`, broadcast `st`, all-to-all `st` |
//! | `push_mc` | everything to everyone at once, as multicast packets | all-reduce `ll_mc`, all-gather `ll_mc` |
//! | `switch` | the switch reduces and distributes, between multicast barriers | all-reduce `mc`, reduce-scatter `ld_mc`, all-gather `st_mc` |
//! | `meet` | nothing: a barrier around copies | all-gather `ce` |
//! | `check` | what every rank calls, before a collective that is checked | |
//! | `looped` | the kernels of f32 sum and of bytes, again and again, to measure them | |
//! | `cut` | how a message is cut into parts, slots and tiles | |
//! | `exchange` | a tile of packets on its way | |

#[cfg(target_arch = "nvptx64")]
mod all_to_all;
#[cfg(target_arch = "nvptx64")]
mod broadcast;
mod check;
#[cfg(target_arch = "nvptx64")]
mod cut;
#[cfg(target_arch = "nvptx64")]
mod exchange;
#[cfg(target_arch = "nvptx64")]
mod gather;
mod looped;
#[cfg(target_arch = "nvptx64")]
mod meet;
mod names;
#[cfg(not(target_arch = "nvptx64"))]
mod promises;
#[cfg(target_arch = "nvptx64")]
mod pull;
#[cfg(target_arch = "nvptx64")]
mod push_all;
#[cfg(target_arch = "nvptx64")]
mod push_mc;
#[cfg(target_arch = "nvptx64")]
mod push_parts;
#[cfg(target_arch = "nvptx64")]
mod push_scratch;
#[cfg(not(target_arch = "nvptx64"))]
mod set;
#[cfg(target_arch = "nvptx64")]
mod share;
#[cfg(target_arch = "nvptx64")]
mod store_all;
#[cfg(target_arch = "nvptx64")]
mod switch;
mod table;

/// The kernels by their names in the table. Each says whether the thread has not given up.
#[cfg(target_arch = "nvptx64")]
use {
    all_to_all::all_to_all_ll,
    broadcast::broadcast_ll,
    gather::{all_gather_ll, all_gather_ll_128, all_gather_sentinel},
    meet::all_gather_ce,
    pull::{all_reduce_two_shot_ld_st, reduce_scatter_ld},
    push_all::{all_reduce_ll, all_reduce_ll_128, all_reduce_sentinel},
    push_mc::{all_gather_ll_mc, all_reduce_ll_mc},
    push_parts::{
        all_reduce_ll_two_shot, all_reduce_sentinel_two_shot, reduce_scatter_ll, reduce_scatter_ll_128,
        reduce_scatter_sentinel,
    },
    push_scratch::{all_reduce_two_shot_push, reduce_scatter_push},
    store_all::{all_gather_st, all_to_all_st, broadcast_st},
    switch::{all_gather_st_mc, all_reduce_mc, reduce_scatter_ld_mc},
};

/// Most threads of a block of any kernel: registers are assigned for so many.
pub const THREADS_MAX: u32 = 512;

#[cfg(not(target_arch = "nvptx64"))]
pub use check::check_kernels;
pub use check::{CHECK_ENTER, CHECK_LEAVE, CHECK_THREADS};
#[cfg(not(target_arch = "nvptx64"))]
pub use looped::{LOOPS, LoopSpec};
pub use names::{Algorithm, Collective, Dtype, Multicast, Op};
#[cfg(not(target_arch = "nvptx64"))]
pub use promises::{Promise, WAITS_ITSELF_SM_MIN};
#[cfg(not(target_arch = "nvptx64"))]
pub use set::KernelSet;
#[cfg(not(target_arch = "nvptx64"))]
pub use table::{KERNELS, KernelSpec, find};
