//! The cases, a file a topic.

mod bad_input;
mod bounded_waits;
mod capture_rules;
mod checked_calls;
mod copies;
mod deregistration;
mod determinism;
mod epochs;
mod extremes;
mod faults;
mod graphs;
mod groups;
mod late_launches;
mod late_peers;
mod late_ranks;
mod lifetimes;
mod loops;
mod matrix;
mod memory_models;
mod multicast;
mod prepare;
pub(crate) mod processes;
mod registration;
mod registration_errors;
mod sequences;
mod sharing;
mod streams;
mod timers;
mod tuning;
mod vectors;
mod windows;

use crate::harness::{Case, Extent};

/// All cases. `extent` makes the matrix larger; on GPUs it has ranks for `gpus` of them.
pub(crate) fn all(extent: Extent, gpus: u32) -> Vec<Case> {
    let collectives = [
        matrix::cases(extent, gpus),
        extremes::cases(),
        sequences::cases(),
        epochs::cases(),
        graphs::cases(),
        checked_calls::cases(),
        copies::cases(),
        streams::cases(),
        timers::cases(),
        bounded_waits::cases(),
        late_peers::cases(),
        sharing::cases(),
        loops::cases(),
    ];
    let others = [
        capture_rules::cases(),
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
        tuning::cases(),
        processes::cases(),
        bad_input::cases(),
        faults::cases(),
        vectors::cases(),
        determinism::cases(),
        memory_models::cases(),
    ];
    let collectives = collectives.into_iter().flatten().map(Case::may_share);
    collectives.chain(others.into_iter().flatten()).collect()
}
