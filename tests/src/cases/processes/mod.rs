//! One process for each rank: results, what is refused, what is left, and ranks that die or do not come.

mod faults;
mod results;

use crate::harness::{Case, Context};
use crate::processes::{Program, Ranks};
use symmem::UniqueId;

pub(super) fn cases() -> Vec<Case> {
    results::cases().into_iter().chain(faults::cases()).collect()
}

/// The program of a rank, by its name.
pub(crate) fn program(name: &str) -> Option<Program> {
    let programs = results::PROGRAMS.iter().chain(faults::PROGRAMS).chain(super::multicast::PROGRAMS);
    programs.copied().find(|(its, _)| *its == name).map(|(_, program)| program)
}

/// As many processes as asked for on the simulated machine, at most two on GPUs.
fn up_to(context: &Context, n_ranks: u32) -> u32 {
    if context.is_sim() { n_ranks } else { n_ranks.min(2) }
}

/// A case in which all ranks run the same program to its end.
fn case(name: &str, program: &'static str, n_ranks: u32) -> Case {
    Case::new(format!("processes::{name}"), 2, move |context: &Context| {
        Ranks::start(context, program, up_to(context, n_ranks), &UniqueId::new()?)?.finish()
    })
}
