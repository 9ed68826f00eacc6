//! Conformance cases: each runs on the simulated machine and on GPUs alike.
//!
//! | module | what |
//! |---|---|
//! | [`cases`] | the cases, a file a topic |
//! | [`harness`] | which of them run where, in what process, and what is printed |
//! | [`rig`] | a communicator with a stream on each rank |
//! | [`field`] | windows whose every byte is accounted for |
//! | [`user_memory`] | memory that the caller mapped |
//! | [`reference`] | collectives on the CPU |
//! | [`pairwise`] | few rows that hold every pair of values |
//! | [`random`] | random numbers and element values |
//! | [`expect`] | checks on errors |
//!
//! `cargo test --package symmem-tests` runs them, as does the binary `symmem-cases`, which needs no Rust where it runs.

pub mod cases;
pub mod expect;
pub mod field;
pub mod harness;
pub mod pairwise;
pub mod random;
pub mod reference;
pub mod rig;
pub mod user_memory;
