//! Mutants of the device crate's source: steps of a protocol that no single instruction is. The crate is compiled anew
//! for each, with `--cfg symmem_mutant="NAME"`.

use super::Trial;
use super::ptx::Mutant;
use super::text::KernelText;
use crate::select::Subject;
use anyhow::{Context, Result};
use std::path::Path;
use symmem_builder::{Builder, Lto};
use symmem_device::kernels::{Algorithm, Collective};

/// A step that can be left out: its name in the source, and the kernels that take it.
struct Step {
    name: &'static str,
    /// None for the kernels of the check.
    algorithms: &'static [Algorithm],
    /// `None` for all.
    collective: Option<Collective>,
}

impl Step {
    fn is_taken_by(&self, subject: &Subject) -> bool {
        let Subject { kernel, program, .. } = subject;
        let is_its = self.collective.is_none_or(|its| its == kernel.collective);
        match program {
            Some(_) => self.algorithms.is_empty(),
            None => is_its && self.algorithms.contains(&kernel.algorithm),
        }
    }
}

const fn step(name: &'static str, algorithms: &'static [Algorithm]) -> Step {
    Step { name, algorithms, collective: None }
}

const LL_OF_HALVES: &[Algorithm] = &[Algorithm::Ll, Algorithm::LlTwoShot, Algorithm::LlMc];
const LL: &[Algorithm] = &[Algorithm::Ll, Algorithm::Ll128, Algorithm::LlTwoShot, Algorithm::LlMc];
const BY_PACKETS: &[Algorithm] =
    &[Algorithm::Ll, Algorithm::Ll128, Algorithm::LlTwoShot, Algorithm::Sentinel, Algorithm::SentinelTwoShot];
const SENTINEL: &[Algorithm] = &[Algorithm::Sentinel, Algorithm::SentinelTwoShot];
const PUSH: &[Algorithm] = &[Algorithm::TwoShotPush, Algorithm::Push];
const BETWEEN_BARRIERS: &[Algorithm] =
    &[Algorithm::TwoShotLdSt, Algorithm::Ld, Algorithm::St, Algorithm::Mc, Algorithm::LdMc, Algorithm::StMc];
const WITH_EXIT_BARRIER: &[Algorithm] = &[
    Algorithm::TwoShotLdSt,
    Algorithm::TwoShotPush,
    Algorithm::Ld,
    Algorithm::St,
    Algorithm::Mc,
    Algorithm::LdMc,
    Algorithm::StMc,
];
const BETWEEN_MC_BARRIERS: &[Algorithm] = &[Algorithm::Mc, Algorithm::LdMc, Algorithm::StMc];
const WITH_BARRIERS: &[Algorithm] = &[
    Algorithm::TwoShotLdSt,
    Algorithm::TwoShotPush,
    Algorithm::Ld,
    Algorithm::Push,
    Algorithm::St,
    Algorithm::Ce,
];

/// All of them; each stands as `intact!("NAME")` in the source.
const STEPS: [Step; 31] = [
    step("ll_epoch_step", LL),
    step("ll_epoch_step_in_kernel", LL),
    step("ll_epoch_save", LL),
    step("ll_epoch_after_wrap", LL),
    step("ll_bank_switch", LL),
    step("ll_bank_zeroing", LL),
    step("ll_second_half", LL_OF_HALVES),
    step("barrier_epoch_step", WITH_BARRIERS),
    step("barrier_epoch_save", WITH_BARRIERS),
    step("barrier_on_entry", BETWEEN_BARRIERS),
    step("barrier_on_exit", WITH_EXIT_BARRIER),
    step("barrier_wait", WITH_BARRIERS),
    step("sentinel_substitute", SENTINEL),
    Step { collective: Some(Collective::AllGather), ..step("sentinel_note_taken", SENTINEL) },
    step("sentinel_poisoning", SENTINEL),
    step("sentinel_bank_switch", SENTINEL),
    step("sentinel_epoch_step", SENTINEL),
    step("sentinel_epoch_step_in_kernel", SENTINEL),
    step("sentinel_epoch_save", SENTINEL),
    step("push_regions", PUSH),
    step("push_reduce_before_arrival", PUSH),
    step("push_turn_save", PUSH),
    step("check_bank_switch", &[]),
    step("mc_barrier_epoch_step", BETWEEN_MC_BARRIERS),
    step("mc_barrier_epoch_save", BETWEEN_MC_BARRIERS),
    step("mc_fence_in_place", &[Algorithm::LdMc, Algorithm::StMc]),
    step("ll_mc_alias_fence", &[Algorithm::LlMc]),
    step("poison_on_entry", &[Algorithm::Ll, Algorithm::St]),
    step("poison_before_sends", BY_PACKETS),
    // Where a barrier on exit follows, peers wait for it there all the same.
    step("poison_before_arrival", &[Algorithm::Push]),
    Step { collective: Some(Collective::Broadcast), ..step("broadcast_empty_slots", LL) },
];

/// Whether a mutant is one of what a rank does, or does not, that was told that another gave up.
pub(super) fn is_of_poison(mutant: &str) -> bool {
    mutant.contains("without poison_")
}

/// A trial for each step and each of the kernels that takes it.
pub(super) fn trials(root: &Path, subjects: &[Subject]) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for step in &STEPS {
        let subjects: Vec<_> = subjects.iter().filter(|subject| step.is_taken_by(subject)).collect();
        if subjects.is_empty() {
            continue;
        }
        let mutated = compile(root, step.name)?;
        for &subject in subjects {
            let text = KernelText::cut(&mutated, subject.name)?.whole();
            let original = KernelText::cut(&super::module(subject)?, subject.name)?.whole();
            let mutant = Mutant { name: format!("source without {}", step.name), text };
            trials.push(Trial { subject, original, mutant });
        }
    }
    Ok(trials)
}

fn compile(root: &Path, name: &str) -> Result<String> {
    let builder = Builder::new(root.join("device")).sm(super::SM).lto(Lto::Off);
    let builder = builder.cfg("symmem_mutant").cfg(&format!("symmem_mutant=\"{name}\""));
    let artifacts = builder.build().with_context(|| format!("the mutant {name}"))?;
    Ok(artifacts.modules.into_iter().next().context("one module was asked for")?.text)
}
