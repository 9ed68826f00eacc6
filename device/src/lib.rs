//! Kernels and kernel DSL of symmem.
//!
//! The same crate is compiled twice: by rustc to PTX for the GPU, and for the CPU, where the host crate takes [`abi`]
//! and the table of kernels from it.
//!
//! | module | what |
//! |---|---|
//! | [`abi`] | structures that host and device share |
//! | [`kernels`] | the collectives, one file an algorithm, and the one table of them |
//! | `ptx` | one function per PTX instruction; the only file with `asm!` |
//! | `thread` | where a thread stands; the barrier of a block |
//! | `team` | ranks and symmetric pointers |
//! | `element` | element types and reductions |
//! | `span` | wide accesses and ragged ends |
//! | `wait` | bounded waits |
//! | `barrier` | the barrier across ranks |
//! | `barrier_mc` | the same by multicast |
//! | `packets` | protocols in which data and flag travel together |
#![no_std]
#![cfg_attr(not(feature = "kernels"), allow(dead_code, reason = "only the kernels use all of the DSL"))]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, stdarch_nvptx, asm_experimental_arch, link_llvm_intrinsics)
)]
#![cfg_attr(
    target_arch = "nvptx64",
    allow(
        internal_features,
        reason = "no other way names a barrier with a result that the compiler knows for one"
    )
)]
#![cfg_attr(
    all(
        target_arch = "nvptx64",
        any(not(target_feature = "sm_90"), not(feature = "kernels"), symmem_mutant)
    ),
    allow(
        dead_code,
        unused_imports,
        reason = "PTX for older devices, mutants and the DSL alone leave kernels out"
    )
)]

/// Whether the step of that name is there: always, except in the mutant that lacks it, by which the checkers are
/// checked (`cargo xtask check --mutants`).
#[cfg(target_arch = "nvptx64")]
macro_rules! intact {
    ($step:literal) => {
        !cfg!(symmem_mutant = $step)
    };
}

pub mod abi;
#[cfg(target_arch = "nvptx64")]
pub mod barrier;
#[cfg(target_arch = "nvptx64")]
pub mod barrier_mc;
#[cfg(target_arch = "nvptx64")]
pub mod element;
pub mod kernels;
#[cfg(target_arch = "nvptx64")]
pub mod packets;
#[cfg(target_arch = "nvptx64")]
pub mod ptx;
#[cfg(target_arch = "nvptx64")]
pub mod span;
#[cfg(target_arch = "nvptx64")]
pub mod team;
#[cfg(target_arch = "nvptx64")]
pub mod thread;
#[cfg(target_arch = "nvptx64")]
pub mod wait;

/// Never reached: a panic is compiled to `trap`.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
