//! The simulated machine: any number of GPUs in one process, which run the very PTX that the compiler emitted.
//!
//! | module | what |
//! |---|---|
//! | `config` | what kind of machine |
//! | `machine`, `backend` | the machine as a whole, and behind the seam |
//! | `memory` | physical allocations, reservations, mappings |
//! | `driver` | modules, streams, events, capture, graphs |
//! | [`ptx`] | PTX text to instructions, and what they compute |
//! | [`thread`] | one thread |
//! | `engine` | all threads of all devices |
//! | `model` | the memory model: data races and weak behaviours |
//! | `schedule` | which thread is next |
//! | `report` | words for faults and deadlocks |

mod backend;
mod config;
mod driver;
mod engine;
pub mod interface;
mod machine;
mod memory;
mod model;
pub mod ptx;
mod report;
mod result;
mod schedule;
pub mod thread;

#[cfg(test)]
mod litmus;
#[cfg(test)]
mod tests;

pub use config::{OnStall, ProbeKind, ScheduleKind, SimConfig};
pub use machine::{LiveCounts, SimMachine};
