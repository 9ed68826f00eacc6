//! Which kernels a command line means.

use anyhow::{Result, ensure};
use symmem_device::kernels::{KERNELS, KernelSpec};

/// The kernels of the table whose names have one of the patterns in them, in the table's order; all if there is none.
///
/// # Errors
///
/// A pattern that no name matches.
pub(crate) fn kernels(patterns: &[String]) -> Result<Vec<&'static KernelSpec>> {
    for pattern in patterns {
        let is_known = KERNELS.iter().any(|kernel| matches(pattern, kernel.name));
        ensure!(is_known, "no kernel's name has `{pattern}` in it; `--list` names all");
    }
    let chosen = |kernel: &&KernelSpec| {
        patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, kernel.name))
    };
    Ok(KERNELS.iter().filter(chosen).collect())
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
        assert_eq!(kernels(&[]).expect("all").len(), KERNELS.len());
        assert!(kernels(&["gather".into(), "scatter".into()]).is_err());
    }
}
