//! The simulated machine: any number of GPUs in one process, which run the very PTX that the compiler emitted.
//!
//! | module | what |
//! |---|---|
//! | `config` | what kind of machine |
//! | `machine`, `backend` | the machine as a whole, and behind the seam |
//! | `memory` | physical allocations, reservations, mappings, multicast objects |
//! | `multicast` | calls on multicast objects that wait, or fail on purpose |
//! | `driver` | modules, streams, events, capture, graphs |
//! | [`ptx`] | PTX text to instructions, and what they compute |
//! | [`thread`] | one thread |
//! | `engine` | all threads of all devices |
//! | `schedule` | which thread is next |
//! | `report` | words for faults and deadlocks |

mod backend;
mod config;
mod driver;
mod engine;
pub mod interface;
mod machine;
mod memory;
mod multicast;
pub mod ptx;
mod report;
mod result;
mod schedule;
pub mod thread;

#[cfg(test)]
mod tests;

pub use config::{MulticastCall, MulticastFault, OnStall, ProbeKind, ScheduleKind, SimConfig};
pub use machine::{LiveCounts, SimMachine};
