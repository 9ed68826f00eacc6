//! A module divided by its kernels, and the module of an older device out of the one for a newer.
//!
//! A driver assembles all of a module before the first kernel can be launched, so a program that needs two kernels of a
//! thousand should not load the thousand.

use std::fmt::Write;

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

/// The module for compute capability `sm` out of `ptx`, which was compiled for a newer one: the entries that `is_wanted`
/// chooses by their names, without the instructions that start with one of `omitted`. It is what the compiler would make
/// where these instructions are all that the source has for the newer device alone.
pub fn for_older(ptx: &str, sm: u32, omitted: &[&str], is_wanted: impl Fn(&str) -> bool) -> String {
    let wanted = divide(ptx, 1, |name| is_wanted(name).then_some(0)).remove(0);
    let mut older = String::with_capacity(wanted.len());
    for line in wanted.split_inclusive('\n') {
        let text = line.trim_start();
        if text.starts_with(".target") {
            writeln!(older, ".target sm_{sm}").expect("a String takes any text");
        } else if !omitted.iter().any(|instruction| text.starts_with(instruction)) {
            older.push_str(line);
        }
    }
    older
}

/// The names of the entries of `ptx`.
pub fn entry_names(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().filter_map(entry_name)
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
        assert_eq!(entry_names(&divided[0]).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn an_older_device_has_the_entries_that_it_can_run() {
        let newer = PTX.replace("\tret;", "\tgriddepcontrol.wait;\n\tret;");
        let older = for_older(&newer, 80, &["griddepcontrol."], |name| name == "a");
        assert_eq!(older, divide(PTX, 1, |name| (name == "a").then_some(0))[0].replace("sm_90", "sm_80"));
    }

    #[test]
    fn what_is_called_entry_is_no_entry() {
        assert_eq!(entry_name("\tbra $.entry_of_loop;"), None);
        assert_eq!(entry_name(".visible .entry k("), Some("k"));
        assert_eq!(entry_name(".entry k"), Some("k"));
    }
}
