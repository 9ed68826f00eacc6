//! Mutants of the device crate's source: steps of a protocol that no single instruction is. The crate is compiled anew
//! for each, with `--cfg symmem_mutant="NAME"`.

use super::Trial;
use super::ptx::Mutant;
use super::text::KernelText;
use anyhow::{Context, Result};
use std::path::Path;
use symmem::kernels_ptx::{KernelSet, ptx_for};
use symmem_builder::{Builder, Lto};
use symmem_device::kernels::{Algorithm, Collective, KernelSpec};

/// A step that can be left out: its name in the source, and the kernels that take it.
struct Step {
    name: &'static str,
    algorithms: &'static [Algorithm],
    /// `None` for all.
    collective: Option<Collective>,
}

const fn step(name: &'static str, algorithms: &'static [Algorithm]) -> Step {
    Step { name, algorithms, collective: None }
}

const LL: &[Algorithm] = &[Algorithm::Ll, Algorithm::LlTwoShot, Algorithm::LlMc];
const BETWEEN_BARRIERS: &[Algorithm] =
    &[Algorithm::TwoShotLdSt, Algorithm::Ld, Algorithm::St, Algorithm::Mc, Algorithm::LdMc, Algorithm::StMc];
const BETWEEN_MC_BARRIERS: &[Algorithm] = &[Algorithm::Mc, Algorithm::LdMc, Algorithm::StMc];
const WITH_BARRIERS: &[Algorithm] = &[Algorithm::TwoShotLdSt, Algorithm::Ld, Algorithm::St, Algorithm::Ce];

/// All of them; each stands as `intact!("NAME")` in the source.
const STEPS: [Step; 16] = [
    step("ll_epoch_step", LL),
    step("ll_epoch_step_in_kernel", LL),
    step("ll_epoch_save", LL),
    step("ll_epoch_after_wrap", LL),
    step("ll_bank_switch", LL),
    step("ll_bank_zeroing", LL),
    step("ll_second_half", LL),
    step("barrier_epoch_step", WITH_BARRIERS),
    step("barrier_epoch_save", WITH_BARRIERS),
    step("barrier_on_entry", BETWEEN_BARRIERS),
    step("barrier_on_exit", BETWEEN_BARRIERS),
    step("mc_barrier_epoch_step", BETWEEN_MC_BARRIERS),
    step("mc_barrier_epoch_save", BETWEEN_MC_BARRIERS),
    step("mc_fence_in_place", &[Algorithm::LdMc, Algorithm::StMc]),
    step("ll_mc_alias_fence", &[Algorithm::LlMc]),
    Step { collective: Some(Collective::Broadcast), ..step("broadcast_empty_slots", LL) },
];

/// A trial for each step and each of the kernels that takes it.
pub(super) fn trials(root: &Path, kernels: &[&'static KernelSpec]) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for step in &STEPS {
        let takes = |kernel: &&&'static KernelSpec| {
            let is_its = step.collective.is_none_or(|its| its == kernel.collective);
            is_its && step.algorithms.contains(&kernel.algorithm)
        };
        let kernels: Vec<_> = kernels.iter().filter(takes).collect();
        if kernels.is_empty() {
            continue;
        }
        let mutated = compile(root, step.name)?;
        for kernel in kernels {
            let text = KernelText::cut(&mutated, kernel.name)?.whole();
            let module = ptx_for(super::SM, KernelSet::of(kernel)).context("this build has no such PTX")?;
            let original = KernelText::cut(&module.text(), kernel.name)?.whole();
            let mutant = Mutant { name: format!("source without {}", step.name), text };
            trials.push(Trial { kernel, original, mutant });
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
