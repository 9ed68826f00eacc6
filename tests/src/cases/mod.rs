//! The cases, a file a topic.

mod bad_input;
mod bounded_waits;
mod capture_rules;
mod deregistration;
mod determinism;
mod epochs;
mod faults;
mod graphs;
mod groups;
mod late_launches;
mod late_ranks;
mod lifetimes;
mod matrix;
mod memory_models;
mod multicast;
mod prepare;
pub(crate) mod processes;
mod registration;
mod registration_errors;
mod sequences;
mod streams;
mod timers;
mod vectors;
mod windows;

use crate::harness::Case;

/// All cases. `full` makes the matrix larger; on GPUs it has ranks for `gpus` of them.
pub(crate) fn all(full: bool, gpus: u32) -> Vec<Case> {
    let topics = [
        matrix::cases(full, gpus),
        sequences::cases(),
        epochs::cases(),
        graphs::cases(),
        capture_rules::cases(),
        streams::cases(),
        timers::cases(),
        bounded_waits::cases(),
        registration::cases(),
        registration_errors::cases(),
        windows::cases(),
        multicast::cases(),
        deregistration::cases(),
        groups::cases(),
        late_ranks::cases(),
        late_launches::cases(),
        lifetimes::cases(),
        prepare::cases(),
        processes::cases(),
        bad_input::cases(),
        faults::cases(),
        vectors::cases(),
        determinism::cases(),
        memory_models::cases(),
    ];
    topics.into_iter().flatten().collect()
}
