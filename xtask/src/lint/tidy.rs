//! What neither rustfmt nor clippy sees: how files open, how long they and their functions are, blanks, and the reason
//! for each `unsafe` block.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

const FILE_LINES_MAX: usize = 450;
const FUNCTION_LINES_MAX: usize = 70;
/// Folders of the workspace that are not sources of its own, beside hidden ones.
const SKIPPED: [&str; 2] = ["target", "dist"];

/// Checks every Rust file of the workspace and prints all findings.
pub(super) fn run() -> Result<()> {
    shell::step("tidy: module docs, lengths, blanks, SAFETY");
    let mut files = Vec::new();
    collect(shell::root(), &mut files)?;
    files.sort();
    let mut findings = Vec::new();
    for file in &files {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(shell::root()).unwrap_or(file).display();
        findings.extend(check(&text).into_iter().map(|(line, what)| format!("{name}:{line}: {what}")));
    }
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        Ok(())
    } else {
        bail!("tidy: {} findings in {} files", findings.len(), files.len())
    }
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_skipped =
            entry.file_name().to_str().is_none_or(|name| name.starts_with('.') || SKIPPED.contains(&name));
        if kind.is_dir() && !is_skipped {
            collect(&path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Findings of one file: line number from 1, and what is wrong.
fn check(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    let has_one_safety_rule = has_one_safety_rule(text);
    if !text.starts_with("//!") {
        findings.push((1, "a module opens with a `//!` line that says what it is for".into()));
    }
    if lines.len() > FILE_LINES_MAX {
        findings.push((lines.len(), format!("{} lines; a file has at most {FILE_LINES_MAX}", lines.len())));
    }
    for (index, line) in lines.iter().enumerate() {
        if line.contains('\t') {
            findings.push((index + 1, "a tab".into()));
        }
        if line.ends_with([' ', '\t']) {
            findings.push((index + 1, "a trailing blank".into()));
        }
        if !has_one_safety_rule && opens_unsafe_block(line) && !has_safety_comment(&lines[..index], line) {
            findings.push((index + 1, "an `unsafe` block without a `// SAFETY:` sentence above it".into()));
        }
        if let Some(len) = function_len(&lines[index..]).filter(|&len| len > FUNCTION_LINES_MAX) {
            findings.push((index + 1, format!("a function of {len} lines; at most {FUNCTION_LINES_MAX}")));
        }
    }
    findings
}

/// The module turns clippy's rule on SAFETY comments off for itself and gives the reason.
fn has_one_safety_rule(text: &str) -> bool {
    let attributes = ["\n#![expect(", "\n#![allow("].into_iter().flat_map(|open| text.split(open).skip(1));
    attributes
        .filter_map(|rest| rest.split_once(")]"))
        .any(|(lint, _)| lint.contains("clippy::undocumented_unsafe_blocks") && lint.contains("reason = \""))
}

/// Code before a comment and outside a string has `unsafe {`.
fn opens_unsafe_block(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default().replace("\\\"", "");
    match code.find("unsafe {") {
        Some(at) => code[..at].matches('"').count().is_multiple_of(2),
        None => false,
    }
}

/// A `SAFETY:` comment stands on the line, or in the comment above the statement that the line belongs to.
fn has_safety_comment(above: &[&str], line: &str) -> bool {
    if line.contains("// SAFETY:") {
        return true;
    }
    let mut above = above.iter().rev().map(|line| line.trim()).peekable();
    // A statement may start lines before: go up to its comment, and never past the end of the statement before it.
    while let Some(line) = above.next_if(|line| !line.starts_with("//")) {
        if line.is_empty() || line.ends_with(';') || line.ends_with('}') {
            return false;
        }
    }
    above.take_while(|line| line.starts_with("//")).any(|line| line.starts_with("// SAFETY:"))
}

/// Lines of the function that starts on the first line, to the brace that closes at the same depth (rustfmt keeps it
/// there); `None` if none starts.
fn function_len(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let code = first.trim_start();
    let words = [
        "pub ",
        "pub(crate) ",
        "pub(super) ",
        "const ",
        "async ",
        "unsafe ",
        "extern \"C\" ",
        "extern \"ptx-kernel\" ",
    ];
    let mut rest = code;
    while let Some(shorter) = words.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    if !rest.starts_with("fn ") || first.ends_with('}') || first.ends_with(';') {
        return None;
    }
    let indent = &first[..first.len() - code.len()];
    let is_end = |line: &&str| {
        line.strip_prefix(indent)
            .is_some_and(|rest| rest == "}" || rest.starts_with(')') && rest.ends_with(';'))
    };
    lines.iter().skip(1).position(is_end).map(|at| at + 2)
}

#[cfg(test)]
mod tests {
    use super::check;

    fn found(text: &str) -> Vec<(usize, String)> {
        check(&format!("//! A module.\n{text}"))
    }

    #[test]
    fn clean_text_has_no_findings() {
        for text in [
            "",
            "// SAFETY: it is.\nlet x = unsafe { f() };",
            "// SAFETY: it is, and this\n// takes two lines.\nunsafe { f() }",
            "// SAFETY: it is.\nlet x =\n    unsafe { f() };",
            "f(unsafe { g() }); // SAFETY: it is.",
            "let s = \"unsafe {\";",
            "// unsafe { is a comment }",
            "#![expect(clippy::undocumented_unsafe_blocks, reason = \"one rule\")]\nunsafe { f() }",
            "#![allow(\n    clippy::undocumented_unsafe_blocks,\n    reason = \"one rule\"\n)]\nunsafe { f() }",
            "unsafe fn f() {}\nunsafe impl A for B {}\nunsafe extern \"C\" {}",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn each_rule_finds_its_breach() {
        for (text, line, what) in [
            ("let x = 1; ", 2, "a trailing blank"),
            ("\tlet x = 1;", 2, "a tab"),
            ("unsafe { f() }", 2, "an `unsafe` block without"),
            (
                "// SAFETY: of another.\nlet x = unsafe { f() };\nlet y = unsafe { g() };",
                4,
                "an `unsafe` block",
            ),
            ("#![allow(clippy::undocumented_unsafe_blocks)]\nunsafe { f() }", 3, "an `unsafe` block"),
            ("#![allow(dead_code, reason = \"none\")]\nunsafe { f() }", 3, "an `unsafe` block"),
            ("// A comment.\nunsafe { f() }", 3, "an `unsafe` block"),
        ] {
            let found = found(text);
            assert!(
                found.len() == 1 && found[0].0 == line && found[0].1.starts_with(what),
                "{text}: {found:?}"
            );
        }
        assert_eq!(check("// no\n").len(), 1, "a module without its `//!`");
    }

    #[test]
    fn lengths_have_limits() {
        let function = |lines: usize| {
            format!("    pub(crate) unsafe fn f(\n    ) {{\n{}    }}\n", "        g();\n".repeat(lines - 3))
        };
        assert_eq!(found(&function(70)), []);
        assert_eq!(found(&function(71))[0], (2, "a function of 71 lines; at most 70".into()));
        assert_eq!(found(&"\n".repeat(449)), []);
        assert_eq!(found(&"\n".repeat(450))[0].0, 451);
    }
}
