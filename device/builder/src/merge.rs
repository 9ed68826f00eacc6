//! One module out of the pieces that the compiler makes where it makes code for several parts of a crate at once.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// The pieces as one text: one header, the kernels of all, one table of source files. A function that several pieces
/// have, as the panic handler in modules of one crate, is taken from the first.
///
/// Labels that only debug information could refer to are dropped; labels of code are local to their function, so that
/// those of two pieces do not meet.
pub fn merge<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut merged = String::new();
    let mut files = Files::default();
    let mut functions = HashSet::new();
    for (index, piece) in pieces.into_iter().enumerate() {
        let numbers = files.take(piece);
        let mut is_repeated = false;
        for line in piece.split_inclusive('\n') {
            let text = line.trim();
            is_repeated |= is_function(text) && !functions.insert(text);
            if is_repeated {
                // The compiler closes a function, and nothing else, at the start of a line.
                is_repeated = !line.starts_with('}');
                continue;
            }
            if is_of_file(text) || is_debug_label(text) || (index > 0 && is_header(text)) {
                continue;
            }
            match renumbered(text, &numbers) {
                Some(location) => merged.push_str(&location),
                None => merged.push_str(line),
            }
        }
    }
    merged.push_str(&files.table());
    merged
}

/// The source files of all pieces, numbered from 1 in the order of their appearance.
#[derive(Default)]
struct Files<'a> {
    numbers: HashMap<&'a str, usize>,
    paths: Vec<&'a str>,
}

impl<'a> Files<'a> {
    /// Takes up a piece's table; gives its numbers with ours.
    fn take(&mut self, piece: &'a str) -> HashMap<&'a str, usize> {
        let entries = piece.lines().filter_map(|line| {
            let (number, path) = line.trim().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
            Some((number, path.trim()))
        });
        entries.map(|(number, path)| (number, self.number(path))).collect()
    }

    fn number(&mut self, path: &'a str) -> usize {
        *self.numbers.entry(path).or_insert_with(|| {
            self.paths.push(path);
            self.paths.len()
        })
    }

    fn table(&self) -> String {
        let mut table = String::new();
        for (index, path) in self.paths.iter().enumerate() {
            writeln!(table, "\t.file\t{} {path}", index + 1).expect("a String takes any text");
        }
        table
    }
}

/// A `.loc` line with our number of its file.
fn renumbered(text: &str, numbers: &HashMap<&str, usize>) -> Option<String> {
    let rest = text.strip_prefix(".loc")?.trim_start();
    let (number, place) = rest.split_once(char::is_whitespace)?;
    Some(format!("\t.loc\t{} {}\n", numbers.get(number)?, place.trim_start()))
}

fn is_function(text: &str) -> bool {
    [".visible .func", ".func"].iter().any(|start| text.starts_with(start))
}

fn is_header(text: &str) -> bool {
    [".version", ".target", ".address_size", "//"].iter().any(|start| text.starts_with(start))
}

fn is_of_file(text: &str) -> bool {
    text.starts_with(".file") || text.starts_with(".section")
}

fn is_debug_label(text: &str) -> bool {
    let Some(label) = text.strip_suffix(':') else { return false };
    ["$L__tmp", "$L__func_begin", "$L__func_end"].iter().any(|start| label.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::PtxText;

    fn piece(entry: &str, file: &str, number: u32) -> String {
        format!(
            "//\n// Generated\n//\n\n.version 8.4\n.target sm_90\n.address_size 64\n\n.visible .entry {entry}()\n{{\n\
             $L__func_begin0:\n\t.loc\t{number} 7 3\n$L__tmp0:\n\tbar.sync \t0;\n$L__BB0_1:\n\tret;\n$L__func_end0:\n}}\n\
             \t.file\t{number} \"{file}\"\n\t.section\t.debug_macinfo\t{{\t}}\n"
        )
    }

    #[test]
    fn pieces_keep_their_entries_and_source_lines() {
        let pieces = [piece("a", "x.rs", 1), piece("b", "y.rs", 1), piece("c", "x.rs", 4)];
        let merged = merge(pieces.iter().map(String::as_str));
        let text = PtxText::parse(&merged);
        assert_eq!(text.defects, Vec::<String>::new());
        assert_eq!((text.version, text.sm), (84, 90));
        assert_eq!(merged.matches(".version").count(), 1, "{merged}");
        for (entry, file) in [("a", "x.rs"), ("b", "y.rs"), ("c", "x.rs")] {
            let entry = text.entry(entry).expect("it is there");
            let barrier = entry.lines.iter().find(|line| line.count("bar.sync") == 1).expect("it is there");
            assert_eq!((barrier.source, barrier.source_line), (Some(file), 7));
            assert!(entry.lines.iter().any(|line| line.text == "$L__BB0_1:"));
        }
        assert!(!merged.contains("$L__tmp") && !merged.contains("$L__func") && !merged.contains(".section"));
    }

    #[test]
    fn a_function_of_two_pieces_is_there_once() {
        let function = ".visible .func panic(\n)\n{\n\ttrap;\n}\n";
        let pieces = ["a", "b"].map(|entry| piece(entry, "x.rs", 1) + function);
        let merged = merge(pieces.iter().map(String::as_str));
        assert_eq!((merged.matches(function).count(), merged.matches("panic").count()), (1, 1), "{merged}");
        assert_eq!(PtxText::parse(&merged).entries.len(), 2);
    }

    #[test]
    fn a_single_piece_stays_what_it_is() {
        let merged = merge([piece("a", "x.rs", 3).as_str()]);
        assert!(merged.contains("\t.loc\t1 7 3\n") && merged.contains("\t.file\t1 \"x.rs\"\n"), "{merged}");
    }
}
