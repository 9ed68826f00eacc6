//! Kernels and kernel DSL of symmem.
//!
//! The same crate is compiled twice: by rustc to PTX for the GPU, and for the CPU, where the host crate takes [`abi`]
//!
//! | module | what |
//! |---|---|
//! | [`abi`] | structures that host and device share |
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, stdarch_nvptx, asm_experimental_arch))]

pub mod abi;
