//! The collectives, one file an algorithm, and the one table that names every kernel.

#[cfg(target_arch = "nvptx64")]
mod all_gather_ll;
#[cfg(target_arch = "nvptx64")]
mod all_gather_st;
#[cfg(target_arch = "nvptx64")]
mod all_reduce_ll;
#[cfg(target_arch = "nvptx64")]
mod all_reduce_two_shot_ld_st;
mod names;
#[cfg(not(target_arch = "nvptx64"))]
mod promises;
#[cfg(not(target_arch = "nvptx64"))]
mod set;
#[cfg(target_arch = "nvptx64")]
mod share;
mod table;
#[cfg(target_arch = "nvptx64")]
mod words;

pub use names::{Algorithm, Collective, Dtype, Op};
#[cfg(not(target_arch = "nvptx64"))]
pub use promises::{Promise, WAITS_ITSELF_SM_MIN};
#[cfg(not(target_arch = "nvptx64"))]
pub use set::KernelSet;
#[cfg(not(target_arch = "nvptx64"))]
pub use table::{KERNELS, KernelSpec, find};
