//! Mutants that the checkers do not catch, each with the argument why: `check/mutants/not_caught.txt`.
//!
//! A line `KERNEL: MUTANT` begins an entry, where `*` stands for anything; indented lines below give the reason.

use anyhow::{Result, ensure};

/// The list.
const LIST: &str = include_str!("../../mutants/not_caught.txt");

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) pattern: String,
    pub(crate) reason: String,
}

/// All entries.
///
/// # Errors
///
/// An entry without a reason.
pub(crate) fn listed() -> Result<Vec<Listed>> {
    parse(LIST)
}

fn parse(text: &str) -> Result<Vec<Listed>> {
    let mut found: Vec<Listed> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        match found.last_mut() {
            Some(entry) if line.starts_with(' ') => {
                let gap = if entry.reason.is_empty() { "" } else { " " };
                entry.reason += &format!("{gap}{}", line.trim());
            }
            _ => found.push(Listed { pattern: line.trim().into(), reason: String::new() }),
        }
    }
    for entry in &found {
        ensure!(!entry.reason.is_empty(), "`{}` is listed without a reason", entry.pattern);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_reasons() {
        let text = "# A comment.\na: b*\n  It is\n  so.\n\nc: d\n  Why.\n";
        let entry = |pattern: &str, reason: &str| Listed { pattern: pattern.into(), reason: reason.into() };
        assert_eq!(parse(text).expect("whole"), [entry("a: b*", "It is so."), entry("c: d", "Why.")]);
        assert!(parse("a: b\nc: d\n  Why.\n").is_err());
        listed().expect("the list is whole");
    }
}
