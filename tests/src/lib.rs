//! Conformance cases: each runs on the simulated machine and on GPUs alike.
//!
//! | module | what |
//! |---|---|
//! | `cases` | the cases, a file a topic |
//! | `harness` | which of them run where, in what process, and what is printed |
//! | `processes` | ranks that are processes |
//! | `rig` | a communicator with a stream on each rank |
//! | `faulty` | a machine on which a chosen call fails |
//! | `chain` | operations that take each other's results |
//! | `field` | windows whose every byte is accounted for |
//! | `seam` | calls of the machine that no owner offers |
//! | `user_memory` | memory that the caller mapped |
//! | `reference` | collectives on the CPU |
//! | `pairwise` | few rows that hold every pair of values |
//! | `random` | random numbers and element values |
//! | `expect` | checks on errors |
//!
//! `cargo test --package symmem-tests` runs them, as does the binary `symmem-cases`, which needs no Rust where it runs.

mod cases;
mod chain;
mod expect;
mod faulty;
mod field;
mod harness;
mod pairwise;
mod processes;
pub mod random;
pub mod reference;
mod rig;
mod seam;
mod user_memory;

pub use harness::{NoMatch, main};
