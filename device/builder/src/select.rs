//! A module divided by its kernels.
//!
//! A driver assembles all of a module before the first kernel can be launched, so a program that needs two kernels of a
//! thousand should not load the thousand.

/// `ptx` in `n` modules: each entry in the one that `module_of` says by its name, or in none; all that stands outside of
/// entries in every one.
///
/// # Panics
///
/// If `module_of` names a module that is not below `n`.
pub fn divide(ptx: &str, n: usize, module_of: impl Fn(&str) -> Option<usize>) -> Vec<String> {
    let mut modules = vec![String::new(); n];
    // The module of the entry that the line is in; `None` inside of one that is left out.
    let mut entry: Option<Option<usize>> = None;
    for line in ptx.split_inclusive('\n') {
        if let Some(name) = entry_name(line) {
            entry = Some(module_of(name));
        }
        // A remark before each function, wanted or not.
        let is_remark = line.trim_start().starts_with("// .globl");
        match entry {
            _ if is_remark => {}
            Some(Some(module)) => modules[module].push_str(line),
            Some(None) => {}
            None => modules.iter_mut().for_each(|module| module.push_str(line)),
        }
        // The compiler closes a function, and nothing else, at the start of a line.
        if line.starts_with('}') {
            entry = None;
        }
    }
    modules
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
    fn every_module_has_its_entries_and_all_the_rest() {
        for names in [&[][..], &["a"], &["b"], &["a", "b"]] {
            let divided = divide(PTX, 2, |name| Some(usize::from(!names.contains(&name))));
            let others: Vec<_> = ["a", "b"].into_iter().filter(|name| !names.contains(name)).collect();
            for (module, names) in divided.iter().zip([names, &others]) {
                let text = PtxText::parse(module);
                assert_eq!(text.defects, Vec::<String>::new());
                assert_eq!(text.entries.iter().map(|entry| entry.name).collect::<Vec<_>>(), names);
                assert_eq!((text.version, text.sm), (84, 90));
                assert!(module.contains("helper") && module.contains("x.rs"), "{module}");
            }
        }
    }

    #[test]
    fn what_belongs_to_no_module_is_left_out() {
        let divided = divide(PTX, 1, |name| (name == "b").then_some(0));
        assert_eq!(PtxText::parse(&divided[0]).entries.len(), 1);
    }

    #[test]
    fn what_is_called_entry_is_no_entry() {
        assert_eq!(entry_name("\tbra $.entry_of_loop;"), None);
        assert_eq!(entry_name(".visible .entry k("), Some("k"));
        assert_eq!(entry_name(".entry k"), Some("k"));
    }
}
