//! Modules with some of the kernels of a larger one.
//!
//! A driver assembles all of a module before the first kernel can be launched, so a program that needs two kernels of a
//! thousand should not load the thousand.

/// `ptx` with the entries that `is_wanted` by name; all that stands outside of entries stays.
pub fn select(ptx: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut selected = String::with_capacity(ptx.len());
    let mut skips = false;
    for line in ptx.split_inclusive('\n') {
        if let Some(name) = entry_name(line) {
            skips = !is_wanted(name);
        }
        // A remark before each function, wanted or not.
        let is_remark = line.trim_start().starts_with("// .globl");
        if !skips && !is_remark {
            selected.push_str(line);
        }
        // The compiler closes a function, and nothing else, at the start of a line.
        if line.trim_end() == "}" && line.starts_with('}') {
            skips = false;
        }
    }
    selected
}

/// The name behind `.entry`, in a line that starts one.
fn entry_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once(".entry")?;
    let is_linkage = |word: &str| matches!(word, ".visible" | ".weak" | ".extern");
    before.split_whitespace().all(is_linkage).then_some(())?;
    rest.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::PtxText;

    const PTX: &str = ".version 8.4\n.target sm_90\n.address_size 64\n\n\t// .globl\thelper\n.visible .func helper()\n{\n\tret;\n}\n\
        \t// .globl\ta\n.visible .entry a(\n\t.param .b64 a_0\n)\n{\n\t{ // begin\n\tmov.b32 %r1, 1;\n\t}\n\tret;\n}\n\
        \t// .globl\tb\n.visible .entry b()\n.maxntid 512\n{\n\tret;\n}\n\t.file\t1 \"x.rs\"\n";

    #[test]
    fn every_choice_has_its_entries_and_all_the_rest() {
        for names in [&[][..], &["a"], &["b"], &["a", "b"]] {
            let selected = select(PTX, |name| names.contains(&name));
            let text = PtxText::parse(&selected);
            assert_eq!(text.defects, Vec::<String>::new());
            assert_eq!(text.entries.iter().map(|entry| entry.name).collect::<Vec<_>>(), names);
            assert_eq!((text.version, text.sm), (84, 90));
            assert!(selected.contains("helper") && selected.contains("x.rs"), "{selected}");
        }
    }

    #[test]
    fn what_is_called_entry_is_no_entry() {
        assert_eq!(entry_name("\tbra $.entry_of_loop;"), None);
        assert_eq!(entry_name(".visible .entry k("), Some("k"));
        assert_eq!(entry_name(".entry k"), Some("k"));
    }
}
