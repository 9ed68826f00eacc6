//! The simulated machine: any number of GPUs in one process, which run the very PTX that the compiler emitted.
//!
//! | module | what |
//! |---|---|
//! | `config` | what kind of machine |
//! | `machine`, `backend`, `control` | the machine as a whole, behind the seam, and beside it |
//! | `memory` | physical allocations, reservations, mappings, multicast objects |
//! | `multicast` | calls on multicast objects that wait, or fail on purpose |
//! | `driver` | modules, streams, events, capture, graphs |
//! | [`ptx`] | PTX text to instructions, and what they compute |
//! | [`thread`] | one thread |
//! | `engine` | all threads of all devices |
//! | `model` | the memory model: data races and weak behaviours |
//! | `schedule` | which thread is next |
//! | `report` | words for faults and deadlocks |
//! | `trace` | what a run did |

mod backend;
mod config;
mod control;
mod driver;
mod engine;
pub mod interface;
mod machine;
mod memory;
mod model;
mod multicast;
pub mod ptx;
mod report;
mod result;
mod schedule;
pub mod thread;
mod trace;

#[cfg(test)]
mod litmus;
#[cfg(test)]
mod tests;

pub use config::{MulticastCall, MulticastFault, OnStall, ProbeKind, ScheduleKind, SimConfig};
pub use machine::{LiveCounts, SimMachine};
pub use schedule::{Choice, Exhaustive, NoSchedule, Schedule};
pub use trace::{Trace, TraceEvent, TraceKind, TracedAccess, TracedLaunch};
