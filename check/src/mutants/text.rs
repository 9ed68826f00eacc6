//! The PTX of one kernel: its text as a module of its own, and where each line comes from.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::path::Path;

/// A kernel cut out of a module.
#[derive(Debug)]
pub(crate) struct KernelText {
    /// `.version`, `.target`, `.address_size`.
    head: String,
    /// The entry, line by line.
    lines: Vec<String>,
    /// `.file` directives.
    tail: String,
}

/// A line of source, as `.loc` names it.
pub(crate) type Position = (String, usize);

impl KernelText {
    /// Cuts `name` out of a module.
    pub(crate) fn cut(module: &str, name: &str) -> Result<Self> {
        let is_head =
            |line: &&str| [".version", ".target", ".address_size"].iter().any(|w| line.starts_with(w));
        let head = module.lines().filter(is_head).map(|line| format!("{line}\n")).collect();
        let opening = format!(".entry {name}(");
        let mut lines = module.lines().skip_while(|line| !line.contains(&opening));
        let mut kernel = Vec::new();
        for line in lines.by_ref() {
            kernel.push(line.to_owned());
            if line == "}" {
                break;
            }
        }
        kernel.last().with_context(|| format!("the PTX has no kernel {name}"))?;
        let files = module.lines().filter(|line| line.trim_start().starts_with(".file"));
        Ok(Self { head, lines: kernel, tail: files.map(|line| format!("{line}\n")).collect() })
    }

    /// Its lines.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The module with some lines replaced.
    pub(crate) fn with(&self, changes: &HashMap<usize, String>) -> String {
        let line = |(at, line): (usize, &String)| changes.get(&at).unwrap_or(line).clone();
        let lines: Vec<_> = self.lines.iter().enumerate().map(line).collect();
        format!("{}{}\n{}", self.head, lines.join("\n"), self.tail)
    }

    /// The module as it is.
    pub(crate) fn whole(&self) -> String {
        self.with(&HashMap::new())
    }

    /// The source line in force at each line; `None` where the compiler names none.
    pub(crate) fn positions(&self) -> Vec<Option<Position>> {
        let files: HashMap<&str, &str> = self.tail.lines().filter_map(file_of).collect();
        let mut now = None;
        let position = |line: &String| {
            if let Some(rest) = line.trim_start().strip_prefix(".loc") {
                let words: Vec<_> = rest.split_whitespace().collect();
                let file = words.first().and_then(|number| files.get(number));
                let number =
                    words.get(1).and_then(|number| number.parse().ok()).filter(|&number| number != 0);
                now = file.zip(number).map(|(file, number)| ((*file).to_owned(), number));
            }
            now.clone()
        };
        self.lines.iter().map(position).collect()
    }
}

fn file_of(line: &str) -> Option<(&str, &str)> {
    let mut words = line.trim_start().strip_prefix(".file")?.split_whitespace();
    Some((words.next()?, words.next()?.trim_matches('"')))
}

/// Names of functions by file and line, read from the sources in `root`.
#[derive(Debug)]
pub(crate) struct Functions<'r> {
    root: &'r Path,
    files: HashMap<String, Vec<String>>,
}

impl<'r> Functions<'r> {
    pub(crate) fn new(root: &'r Path) -> Self {
        Self { root, files: HashMap::new() }
    }

    /// `file.rs function` around a position: the nearest `fn` above it.
    pub(crate) fn name(&mut self, (file, line): &Position) -> String {
        let root = self.root;
        let read = || std::fs::read_to_string(root.join(file)).unwrap_or_default();
        let lines =
            self.files.entry(file.clone()).or_insert_with(|| read().lines().map(str::to_owned).collect());
        let above = lines[..(*line).min(lines.len())].iter().rev();
        let function = above.filter_map(|line| function_of(line)).next().unwrap_or("?");
        let stem = Path::new(file).file_name().map_or(file.as_str().into(), |name| name.to_string_lossy());
        format!("{stem} {function}")
    }
}

fn function_of(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_definition = before.trim().split(' ').all(|word| {
        [
            "",
            "pub",
            "pub(crate)",
            "pub(super)",
            "const",
            "unsafe",
            "extern",
            "\"C\"",
            "\"ptx-kernel\"",
            "safe",
        ]
        .contains(&word)
    });
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    is_definition.then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "//\n.version 8.4\n.target sm_90\n.address_size 64\n\n.visible .entry a(\n)\n{\n\tret;\n}\n\
        .visible .entry b(\n)\n{\n\t.loc\t2 7 1\n\tfence.acq_rel.sys;\n\t.loc\t2 0 1\n\tret;\n}\n\
        \t.file\t2 \"x/y.rs\"\n";

    #[test]
    fn a_kernel_is_cut_out_whole() {
        let text = KernelText::cut(MODULE, "b").expect("it is there");
        let expected = ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry b(\n)\n{\n\t.loc\t2 7 1\n\
            \tfence.acq_rel.sys;\n\t.loc\t2 0 1\n\tret;\n}\n\t.file\t2 \"x/y.rs\"\n";
        assert_eq!(text.whole(), expected);
        let changed = text.with(&HashMap::from([(4, String::new())]));
        assert!(!changed.contains("fence") && changed.contains("ret;"));
        let positions = text.positions();
        assert_eq!(positions[4], Some(("x/y.rs".into(), 7)));
        assert_eq!(positions[6], None);
        assert!(KernelText::cut(MODULE, "c").is_err());
    }

    #[test]
    fn definitions_are_told_from_types() {
        assert_eq!(function_of("    pub(crate) unsafe fn store<T>(x: u8) {"), Some("store"));
        assert_eq!(function_of("    fn a() {"), Some("a"));
        assert_eq!(function_of("    let f: fn (u8) = g;"), None);
        assert_eq!(function_of("    // The fn x(y)"), None);
    }
}
