//! PTX text cut into entries and lines, as far as the checks need it.

use std::collections::HashMap;

/// One line with an instruction or a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its text without comment, leading and trailing blanks.
    pub text: &'a str,
    /// Whether it came from `asm!`.
    pub in_asm: bool,
    /// The Rust file behind it.
    pub source: Option<&'a str>,
    /// The line in that file, from 1; 0 without a file.
    pub source_line: u32,
}

impl Line<'_> {
    /// Each statement of the line as words: opcode or directive first, then the operands, without braces, guard
    /// predicate and punctuation.
    pub fn statements(&self) -> impl Iterator<Item = Vec<&str>> {
        self.text.split(';').map(|statement| {
            let words = statement.split(|c: char| c.is_whitespace() || "{},()".contains(c));
            words.filter(|word| !word.is_empty() && !word.starts_with('@')).collect()
        })
    }

    /// How many statements start with `instruction`, whole modifiers only: `ld.relaxed` is a start of
    /// `ld.relaxed.sys`, and `bar` none of `barrier`.
    pub fn count(&self, instruction: &str) -> usize {
        if !self.text.contains(instruction.split(' ').next().unwrap_or_default()) {
            return 0;
        }
        let is_start = |words: Vec<&str>| {
            let text = words.join(" ");
            text.strip_prefix(instruction).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.']))
        };
        self.statements().map(is_start).filter(|&starts| starts).count()
    }
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'a str,
    /// The lines of its body.
    pub lines: Vec<Line<'a>>,
}

/// A module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtxText<'a> {
    /// PTX ISA version as major × 10 + minor; 0 if the text names none.
    pub version: u32,
    /// Compute capability as major × 10 + minor; 0 if the text names none.
    pub sm: u32,
    /// The kernels, in order.
    pub entries: Vec<Entry<'a>>,
    /// Lines outside every entry.
    pub outside: Vec<Line<'a>>,
    /// What makes the text no PTX module: a missing directive, a body that does not end.
    pub defects: Vec<String>,
}

impl<'a> PtxText<'a> {
    /// Cuts `ptx`.
    pub fn parse(ptx: &'a str) -> Self {
        let mut parser = Parser { files: file_table(ptx), ..Parser::default() };
        for (index, raw) in ptx.lines().enumerate() {
            parser.take(index + 1, raw.trim());
        }
        parser.finish()
    }

    /// The kernel `name`.
    pub fn entry(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// `.file 1 "path"` directives may stand behind the code that refers to them.
fn file_table(ptx: &str) -> HashMap<u32, &str> {
    let directives = ptx.lines().filter_map(|line| line.trim().strip_prefix(".file"));
    directives
        .filter_map(|rest| {
            let (number, path) = rest.trim().split_once(char::is_whitespace)?;
            Some((number.parse().ok()?, path.split('"').nth(1)?))
        })
        .collect()
}

#[derive(Default)]
struct Parser<'a> {
    files: HashMap<u32, &'a str>,
    text: PtxText<'a>,
    depth: usize,
    /// Whether an entry's name was read and its body has not ended.
    in_entry: bool,
    in_asm: bool,
    location: Option<(&'a str, u32)>,
}

impl<'a> Parser<'a> {
    fn take(&mut self, number: usize, raw: &'a str) {
        match raw {
            "// begin inline asm" => self.in_asm = true,
            "// end inline asm" => self.in_asm = false,
            _ => {}
        }
        let text = raw.split("//").next().unwrap_or_default().trim();
        if text.is_empty() || text.starts_with(".file") {
            return;
        }
        if let Some(rest) = text.strip_prefix(".loc")
            && rest.starts_with(char::is_whitespace)
        {
            self.location = self.locate(rest);
            return;
        }
        self.directive(text);
        let (source, source_line) = self.location.map_or((None, 0), |(file, line)| (Some(file), line));
        let line = Line { number, text, in_asm: self.in_asm, source, source_line };
        match self.text.entries.last_mut().filter(|_| self.in_entry) {
            Some(entry) => entry.lines.push(line),
            None => self.text.outside.push(line),
        }
        self.count_braces(text);
    }

    fn locate(&self, rest: &str) -> Option<(&'a str, u32)> {
        let mut numbers = rest.split_whitespace().map(str::parse::<u32>);
        let file = self.files.get(&numbers.next()?.ok()?)?;
        Some((file, numbers.next()?.ok()?))
    }

    fn directive(&mut self, text: &'a str) {
        if let Some(version) = text.strip_prefix(".version") {
            self.text.version = version.trim().replace('.', "").parse().unwrap_or(0);
        } else if let Some(target) = text.strip_prefix(".target") {
            let target = target.trim().trim_start_matches("sm_");
            let digits = target.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            self.text.sm = digits.parse().unwrap_or(0);
        } else if self.depth == 0
            && let Some((_, rest)) = text.split_once(".entry")
        {
            let name = rest.trim().split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or_default();
            self.text.entries.push(Entry { name, lines: Vec::new() });
            self.in_entry = true;
            self.location = None;
        }
    }

    fn count_braces(&mut self, text: &str) {
        // An empty pair or a vector operand opens and closes on one line.
        let opened = text.matches('{').count();
        let closed = text.matches('}').count();
        let was_inside = self.depth > 0 || opened > 0;
        if closed > self.depth + opened {
            self.text.defects.push(format!("a `}}` without its `{{`: {text}"));
        }
        self.depth = (self.depth + opened).saturating_sub(closed);
        if self.depth == 0 && was_inside && closed > 0 {
            self.in_entry = false;
            self.location = None;
        }
    }

    fn finish(mut self) -> PtxText<'a> {
        if self.text.version == 0 {
            self.text.defects.push("no .version".into());
        }
        if self.text.sm == 0 {
            self.text.defects.push("no .target".into());
        }
        if self.depth > 0 || self.in_entry {
            let name = self.text.entries.last().map_or("a function", |entry| entry.name);
            self.text.defects.push(format!("the text ends inside {name}"));
        }
        self.text
    }
}
