//! What PTX text must and must not contain.
//!
//! A collective kernel keeps everything in registers (no `.local`), calls nothing and needs nothing from outside, never
//! traps (a panic that the compiler could not rule out becomes `trap`), and never reads through the non-coherent cache
//! (`ld.global.nc`), which does not see a peer's stores.

mod text;

pub use text::{Entry, Line, PtxText};

use crate::error::{BuildError, Result};
use std::fmt;

/// How often an instruction must stand in a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Leading words of the instruction, for example `st.relaxed.sys.global.v4.b32` or `bar.sync`.
    pub instruction: String,
    /// Fewest occurrences.
    pub at_least: u32,
    /// Most occurrences, where more would mean that the compiler copied a convergent instruction into branches.
    pub at_most: Option<u32>,
}

/// What holds for one kernel beyond the rules for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRule {
    /// Name of the entry; it must be there.
    pub name: String,
    /// Its instructions.
    pub promises: Vec<Promise>,
}

impl KernelRule {
    /// A kernel that must be there.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), promises: Vec::new() }
    }

    /// Adds an instruction that must be there at least `at_least` and at most `at_most` times.
    #[must_use]
    pub fn has(mut self, instruction: impl Into<String>, at_least: u32, at_most: Option<u32>) -> Self {
        self.promises.push(Promise { instruction: instruction.into(), at_least, at_most });
        self
    }
}

/// The rules for one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether `trap` is allowed: in kernels that are no collectives.
    pub trap_allowed: bool,
    /// Rules for single kernels.
    pub kernels: Vec<KernelRule>,
}

impl Rules {
    /// The rules for a module of collective kernels.
    pub fn collective() -> Self {
        Self::default()
    }

    /// Adds a rule for one kernel.
    #[must_use]
    pub fn kernel(mut self, rule: KernelRule) -> Self {
        self.kernels.push(rule);
        self
    }
}

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The entry, or `None` outside every entry.
    pub kernel: Option<String>,
    /// Line of the PTX text, from 1; 0 where something is absent.
    pub line: usize,
    /// The Rust line behind it, where the PTX names one.
    pub source: Option<String>,
    /// The text of the line, or of the promise that was not kept.
    pub text: String,
    /// The rule.
    pub rule: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            Some(kernel) => write!(f, "kernel {kernel}")?,
            None => write!(f, "module")?,
        }
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        write!(f, ": {}: `{}`", self.rule, self.text)
    }
}

/// Checks a module against `rules`, and gives it cut into entries and lines.
///
/// # Errors
///
/// Something is broken; the error has every violation, each with kernel, line and text.
pub fn check<'a>(ptx: &'a str, rules: &Rules) -> Result<PtxText<'a>> {
    let text = PtxText::parse(ptx);
    let found = violations(&text, rules);
    if found.is_empty() { Ok(text) } else { Err(BuildError::violations(found)) }
}

/// Every violation of `rules`, in the order of the text.
pub fn violations(text: &PtxText<'_>, rules: &Rules) -> Vec<Violation> {
    let mut found: Vec<_> = text.defects.iter().map(|defect| absent(None, defect, "damaged PTX")).collect();
    found.extend(text.outside.iter().filter_map(|line| broken(None, line, rules)));
    for entry in &text.entries {
        found.extend(entry.lines.iter().filter_map(|line| broken(Some(entry.name), line, rules)));
    }
    for rule in &rules.kernels {
        match text.entry(&rule.name) {
            Some(entry) => found.extend(rule.promises.iter().filter_map(|promise| unkept(entry, promise))),
            None => found.push(absent(Some(&rule.name), &rule.name, "the entry is missing")),
        }
    }
    found
}

/// One of these stands in every line that breaks a rule for all kernels.
const SUSPECTS: [&str; 5] = ["local", "extern", "call", "trap", ".nc"];

fn broken(kernel: Option<&str>, line: &Line<'_>, rules: &Rules) -> Option<Violation> {
    // Build scripts are compiled without optimisation: most lines are passed over by a plain search.
    if !SUSPECTS.iter().any(|suspect| line.text.contains(suspect)) {
        return None;
    }
    let rule = line.statements().find_map(|words| broken_rule(&words, rules))?;
    let source = line.source.map(|file| format!("{file}:{}", line.source_line));
    let (kernel, text) = (kernel.map(str::to_owned), line.text.to_owned());
    Some(Violation { kernel, line: line.number, source, text, rule: rule.to_owned() })
}

fn broken_rule(words: &[&str], rules: &Rules) -> Option<&'static str> {
    let parts: Vec<&str> = words.first()?.split('.').collect();
    match parts[0] {
        "call" => Some("a call"),
        "trap" if !rules.trap_allowed => Some("a trap: a panic that was not ruled out"),
        "ld" if parts.contains(&"nc") => Some("a load through the non-coherent cache"),
        _ if words.contains(&".local") || parts.contains(&"local") => {
            Some("memory outside registers (.local)")
        }
        _ if words.contains(&".extern") => Some("something from outside the module (.extern)"),
        _ => None,
    }
}

fn unkept(entry: &Entry<'_>, promise: &Promise) -> Option<Violation> {
    let count: usize = entry.lines.iter().map(|line| line.count(&promise.instruction)).sum();
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let most = promise.at_most.unwrap_or(u32::MAX);
    if (promise.at_least..=most).contains(&count) {
        return None;
    }
    let wanted = match promise.at_most {
        Some(most) if most == promise.at_least => format!("exactly {most}"),
        Some(most) => format!("{} to {most}", promise.at_least),
        None => format!("at least {}", promise.at_least),
    };
    Some(absent(Some(entry.name), &promise.instruction, &format!("{wanted} promised, {count} found")))
}

fn absent(kernel: Option<&str>, text: &str, rule: &str) -> Violation {
    let kernel = kernel.map(str::to_owned);
    Violation { kernel, line: 0, source: None, text: text.to_owned(), rule: rule.to_owned() }
}

/// The instructions between `// begin inline asm` and `// end inline asm` of one kernel, in order, without leading and
/// trailing blanks: what the primitives of a kernel became. Empty if there is no such kernel.
pub fn golden<'a>(ptx: &'a str, kernel: &str) -> Vec<&'a str> {
    let text = PtxText::parse(ptx);
    let lines = text.entry(kernel).map(|entry| entry.lines.clone()).unwrap_or_default();
    lines.iter().filter(|line| line.in_asm).map(|line| line.text).collect()
}

#[cfg(test)]
mod tests;
