//! Mutants of emitted PTX: each takes one order away, at every place that one construct of the source has become.

use super::text::{Functions, KernelText};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A kernel with one order less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// What was done where.
    pub(crate) name: String,
    /// The PTX.
    pub(crate) text: String,
}

/// Files whose lines are instructions or wrappers of one; a construct is named by what is around them.
const WRAPPERS: [&str; 3] = ["device/src/ptx.rs", "device/src/thread.rs", "rust/library"];

/// All mutants of a kernel.
pub(crate) fn mutants(text: &KernelText, root: &Path) -> Vec<Mutant> {
    let mut found = Vec::new();
    for (construct, lines) in constructs(text, root) {
        let original = text.lines()[lines[0]].clone();
        for (what, change) in changes(original.trim()) {
            let changed = lines.iter().map(|&at| (at, change(text.lines()[at].trim())));
            let name = format!("{construct}: {what}");
            found.push(Mutant { name, text: text.with(&changed.collect::<HashMap<_, _>>()) });
        }
    }
    found
}

/// Lines with the same instruction from the same place of the source, by a name that stays when lines move.
fn constructs(text: &KernelText, root: &Path) -> BTreeMap<String, Vec<usize>> {
    let mut functions = Functions::new(root);
    let positions = text.positions();
    let own = |at: usize| {
        positions[at].as_ref().filter(|(file, _)| !WRAPPERS.iter().any(|wrapper| file.starts_with(wrapper)))
    };
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, line) in text.lines().iter().enumerate() {
        let Some(mnemonic) = mnemonic(line.trim()) else { continue };
        let mut around = Vec::new();
        let before = (0..at).rev().find_map(own);
        let behind = (at..positions.len()).find_map(own);
        around.extend([before, behind].into_iter().flatten().map(|position| functions.name(position)));
        around.dedup();
        found.entry(format!("{mnemonic} in {}", around.join(" → "))).or_default().push(at);
    }
    found
}

/// The instruction of a line that orders something.
fn mnemonic(line: &str) -> Option<&str> {
    let code =
        line.strip_prefix('@').and_then(|guarded| guarded.split_once(' ')).map_or(line, |(_, code)| code);
    let word = code.split(|c: char| c.is_whitespace() || c == ';').next()?;
    let orders = [".relaxed", ".acquire", ".release", ".acq_rel"];
    let is_access = ["ld.", "st.", "atom.", "red.", "multimem."].iter().any(|head| word.starts_with(head));
    let is_order = ["fence", "membar", "bar.", "barrier.", "griddepcontrol.wait"]
        .iter()
        .any(|head| word.starts_with(head));
    (is_order || (is_access && orders.iter().any(|order| word.contains(order)))).then_some(word)
}

/// A change of a line.
type Change = Box<dyn Fn(&str) -> String>;

/// What can be taken from an instruction.
fn changes(line: &str) -> Vec<(String, Change)> {
    let mut found: Vec<(String, Change)> = Vec::new();
    let mut replace = |from: &'static str, to: &'static str| {
        if line.contains(from) {
            let what = if to.is_empty() { format!("no {from}") } else { format!("{from} → {to}") };
            found.push((what, Box::new(move |line: &str| line.replacen(from, to, 1))));
        }
    };
    let word = mnemonic(line).unwrap_or_default();
    if word.starts_with("bar.red.or.pred") {
        // The threads no longer meet, and each gets its own predicate.
        return vec![("deleted".into(), Box::new(without_reduction))];
    }
    if !word.starts_with("ld.")
        && !word.starts_with("st.")
        && !word.starts_with("atom.")
        && !word.starts_with("red.")
        && !word.starts_with("multimem.")
    {
        replace(".sys", ".gpu");
        found.push(("deleted".into(), Box::new(|_: &str| String::new())));
        return found;
    }
    replace(".release", ".relaxed");
    replace(".acquire", ".relaxed");
    replace(".acq_rel", ".relaxed");
    replace(".sys", ".gpu");
    replace(".relaxed.gpu", ".relaxed.cta");
    if word.starts_with("ld.") || word.starts_with("st.") {
        replace(".relaxed.sys", "");
    }
    found
}

/// `bar.red.or.pred p, 0, q;` as `or.pred p, q, q;`.
fn without_reduction(line: &str) -> String {
    let operands: Vec<_> =
        line.trim_end_matches(';').split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
    match operands[..] {
        [.., into, _, from] => format!("or.pred {into}, {from}, {from};"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str) -> Vec<String> {
        changes(line).into_iter().map(|(_, change)| change(line)).collect()
    }

    #[test]
    fn what_can_be_taken_away() {
        let check = |line, expect: &[&str]| assert_eq!(all(line), expect, "{line}");
        check("fence.acq_rel.sys;", &["fence.acq_rel.gpu;", ""]);
        check("bar.sync \t0;", &[""]);
        check("bar.red.or.pred \t%p61, 0, %p60;", &["or.pred %p61, %p60, %p60;"]);
        check(
            "st.release.sys.global.b32 [%rd1], %r1;",
            &["st.relaxed.sys.global.b32 [%rd1], %r1;", "st.release.gpu.global.b32 [%rd1], %r1;"],
        );
        check(
            "ld.relaxed.sys.global.v2.b64 {%a, %b}, [%rd1];",
            &["ld.relaxed.gpu.global.v2.b64 {%a, %b}, [%rd1];", "ld.global.v2.b64 {%a, %b}, [%rd1];"],
        );
        check(
            "multimem.red.release.sys.global.add.u32 [%a], 1;",
            &[
                "multimem.red.relaxed.sys.global.add.u32 [%a], 1;",
                "multimem.red.release.gpu.global.add.u32 [%a], 1;",
            ],
        );
        check(
            "atom.relaxed.gpu.global.cas.b32 %r, [%a], 0, 1;",
            &["atom.relaxed.cta.global.cas.b32 %r, [%a], 0, 1;"],
        );
    }

    #[test]
    fn only_what_orders_is_looked_at() {
        for (line, expect) in [
            ("ld.global.b32 %r1, [%rd1];", None),
            ("ld.param.b64 %rd1, [x];", None),
            ("@%p1 bra $L;", None),
            ("@%p1 bar.sync 0;", Some("bar.sync")),
            ("membar.sys;", Some("membar.sys")),
            ("griddepcontrol.wait;", Some("griddepcontrol.wait")),
        ] {
            assert_eq!(mnemonic(line), expect, "{line}");
        }
    }
}
