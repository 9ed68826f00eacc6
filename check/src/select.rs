//! Which kernels a command line means.

use crate::program::{CHECKED, LOOPED, Program};
use anyhow::{Result, ensure};
use symmem_device::kernels::{CHECK_ENTER, Dtype, KERNELS, KernelSpec, LOOPS, LoopSpec, Op};

/// The kernel that the kernels of the check stand around while they are tried themselves.
const CHECKED_KERNEL: &str = "symmem_all_reduce_ll_f32_sum";

/// The loops that stand for all: one for each thing that can be between two turns, or be left to the next.
const USUAL_LOOPS: [&str; 5] = [
    "symmem_loop_all_reduce_ll_f32_sum",
    "symmem_loop_all_reduce_sentinel_two_shot_f32_sum",
    "symmem_loop_all_reduce_two_shot_push_f32_sum",
    "symmem_loop_all_gather_sentinel_any_any",
    "symmem_loop_all_gather_st_any_any",
];

/// What is checked: a kernel of the table, the loop of one, or the kernels around one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) kernel: &'static KernelSpec,
    /// The one program that it is run in, if not in all.
    pub(crate) program: Option<&'static Program>,
}

impl Subject {
    /// Whether it is the loop of its kernel.
    pub(crate) fn is_loop(&self) -> bool {
        self.program.is_some_and(|program| program.repeats > 1)
    }

    /// Whether it is of the type and operation that stand for all others of its source: f32, sum; or one of a few
    /// loops.
    pub(crate) fn is_usual(&self) -> bool {
        if self.is_loop() {
            return USUAL_LOOPS.contains(&self.name);
        }
        let KernelSpec { dtype, op, .. } = self.kernel;
        dtype.is_none_or(|dtype| dtype == Dtype::F32) && op.is_none_or(|op| op == Op::Sum)
    }
}

/// What of all there is has one of the patterns in its name, in the table's order, behind them the loops and the check
/// of calls; all if there is no pattern.
///
/// # Errors
///
/// A pattern that no name matches.
pub(crate) fn subjects(patterns: &[String]) -> Result<Vec<Subject>> {
    let mut all: Vec<_> =
        KERNELS.iter().map(|kernel| Subject { name: kernel.name, kernel, program: None }).collect();
    let of_loop =
        |spec: &'static LoopSpec| Subject { name: spec.name, kernel: spec.kernel(), program: Some(LOOPED) };
    all.extend(LOOPS.iter().map(of_loop));
    let around = KERNELS.iter().find(|kernel| kernel.name == CHECKED_KERNEL);
    let kernel = around.expect("the table has the kernel that most calls take");
    all.push(Subject { name: CHECK_ENTER, kernel, program: Some(CHECKED) });
    for pattern in patterns {
        let is_known = all.iter().any(|subject| matches(pattern, subject.name));
        ensure!(is_known, "no kernel's name has `{pattern}` in it; `cargo xtask check --list` names all");
    }
    let is_meant = |name| patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name));
    all.retain(|subject| is_meant(subject.name));
    Ok(all)
}

/// Whether the parts between the pattern's `*` come one after another; without a `*`, anywhere in the name.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else { return name.contains(pattern) };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    while let Some((part, behind)) = rest.split_once('*') {
        let Some(at) = left.find(part) else { return false };
        (left, rest) = (&left[at + part.len()..], behind);
    }
    left.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check =
            |pattern, expect| assert_eq!(matches(pattern, "symmem_all_gather_ll"), expect, "{pattern}");
        ["gather", "*", "symmem*", "*ll", "symmem*_ll", "*all*gather*", "symmem_all_gather_ll"]
            .iter()
            .for_each(|pattern| check(pattern, true));
        ["reduce", "gather*", "*gather", "symmem*st", "*ll*ll*", "s*ll_ll"]
            .iter()
            .for_each(|pattern| check(pattern, pattern == &"*ll*ll*"));
    }

    #[test]
    fn every_pattern_must_mean_something() {
        assert_eq!(subjects(&[]).expect("all").len(), KERNELS.len() + LOOPS.len() + 1);
        assert_eq!(subjects(&["check".into()]).expect("the check of calls").len(), 1);
        assert!(subjects(&["gather".into(), "scatterer".into()]).is_err());
    }
}
