//! Tables of good and bad PTX.

use super::*;

/// A module with one kernel `k` of the given body.
fn module(body: &str) -> String {
    format!(
        "//\n.version 8.4\n.target sm_90\n.address_size 64\n\n\t// .globl\tk\n.visible .entry k(\n\t.param .u64 \
         k_param_0\n)\n{{\n\t.reg .b32 \t%r<4>;\n$L__func_begin0:\n\t.loc\t1 7 3\n{body}\n\tret;\n}}\n\t.file\t1 \
         \"src/local/trap.rs\"\n"
    )
}

fn found(ptx: &str, rules: &Rules) -> Vec<String> {
    violations(&PtxText::parse(ptx), rules).iter().map(ToString::to_string).collect()
}

#[test]
fn good_bodies_pass() {
    for body in [
        "",
        "\tbar.sync \t0;",
        "\tld.global.b32 \t%r1, [%rd1];",
        "\tld.relaxed.sys.global.v4.b32 \t{%r0, %r1, %r2, %r3}, [%rd1];",
        "\t// call trap .local .extern ld.global.nc",
        "\tbra.uni \t$L__local_call_trap;",
        "\tcvta.to.global.u64 \t%rd2, %rd1;",
        "\t{ .reg .pred p; setp.eq.u32 p, %r1, 0; }",
    ] {
        assert_eq!(found(&module(body), &Rules::collective()), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn bad_bodies_are_named_with_kernel_line_and_text() {
    let place = "kernel k, line 14 (src/local/trap.rs:7): ";
    for (body, expected) in [
        (
            "\t.local .align 8 .b8 \t__local_depot0[16];",
            "memory outside registers (.local): `.local .align 8",
        ),
        ("\tld.local.b32 \t%r1, [%rd1];", "memory outside registers (.local): `ld.local.b32"),
        ("\t@%p1 st.local.b32 \t[%rd1], %r1;", "memory outside registers (.local): `@%p1 st.local"),
        ("\tcvta.local.u64 \t%rd1, %rd2;", "memory outside registers (.local): `cvta.local"),
        ("\tcall.uni \tfoo, ();", "a call: `call.uni"),
        ("\t@!%p1 call \t(retval0), foo, (%r1);", "a call: `@!%p1 call"),
        ("\t{ call foo; }", "a call: `{ call foo; }`"),
        ("\t{ .reg .b32 t; call foo; }", "a call: `{ .reg .b32 t; call foo; }`"),
        ("\ttrap;", "a trap: a panic that was not ruled out: `trap;`"),
        ("\t@%p3 trap;", "a trap: a panic that was not ruled out: `@%p3 trap;`"),
        ("\tld.global.nc.b32 \t%r1, [%rd1];", "a load through the non-coherent cache: `ld.global.nc.b32"),
        ("\tld.volatile.global.L1::no_allocate.nc.b32 %r1, [%rd1];", "a load through the non-coherent cache"),
    ] {
        let found = found(&module(body), &Rules::collective());
        assert_eq!(found.len(), 1, "{body}: {found:?}");
        assert!(found[0].starts_with(&format!("{place}{expected}")), "{}", found[0]);
    }
}

#[test]
fn externals_outside_entries_are_found() {
    let ptx = module("").replace(".visible .entry", ".extern .func foo\n;\n.visible .entry");
    let found = found(&ptx, &Rules::collective());
    assert_eq!(found, ["module, line 7: something from outside the module (.extern): `.extern .func foo`"]);
}

#[test]
fn all_violations_come_at_once() {
    let found = found(&module("\ttrap;\n\tcall foo;\n\tld.global.nc.b32 %r1, [%rd1];"), &Rules::collective());
    assert_eq!(found.len(), 3, "{found:?}");
    let error = check(&module("\ttrap;\n\tcall foo;"), &Rules::collective()).unwrap_err().to_string();
    assert!(error.starts_with("the PTX breaks its rules in 2 places:\n  kernel k, line 14"), "{error}");
    let error = check(&module("\ttrap;\n\ttrap;\n\ttrap;"), &Rules::collective()).unwrap_err().to_string();
    assert!(error.lines().count() == 2 && error.ends_with("`trap;`, and 2 more such lines"), "{error}");
}

#[test]
fn trap_is_allowed_where_a_kernel_is_no_collective() {
    let rules = Rules { trap_allowed: true, ..Rules::default() };
    assert!(check(&module("\ttrap;"), &rules).is_ok());
}

#[test]
fn promises_are_counted() {
    let body = "\tbar.sync \t0;\n\t@%p1 bar.sync \t0;\n\tbarrier.sync 1;\n\tst.relaxed.sys.global.v4.b32 [%rd1], {%r0};";
    for (rule, expected) in [
        (KernelRule::new("k").has("bar.sync", 1, None), None),
        (KernelRule::new("k").has("bar.sync 0", 1, None), None),
        (KernelRule::new("k").has("bar.sync", 2, Some(2)), None),
        (KernelRule::new("k").has("st.relaxed.sys.global.v4", 1, None), None),
        (
            KernelRule::new("k").has("bar.sync", 3, Some(4)),
            Some("kernel k: 3 to 4 promised, 2 found: `bar.sync`"),
        ),
        (KernelRule::new("k").has("bar", 1, Some(1)), Some("kernel k: exactly 1 promised, 2 found: `bar`")),
        (
            KernelRule::new("k").has("st.rel", 1, None),
            Some("kernel k: at least 1 promised, 0 found: `st.rel`"),
        ),
        (KernelRule::new("j"), Some("kernel j: the entry is missing: `j`")),
    ] {
        let found = found(&module(body), &Rules::collective().kernel(rule.clone()));
        assert_eq!(found.first().map(String::as_str), expected, "{rule:?}");
    }
}

#[test]
fn damaged_text_is_no_module() {
    let whole = module("\tbar.sync \t0;");
    let cut = &whole[..whole.find("ret;").unwrap()];
    for (ptx, expected) in [
        ("", "module: damaged PTX: `no .version`"),
        ("not ptx at all", "module: damaged PTX: `no .version`"),
        (cut, "module: damaged PTX: `the text ends inside k`"),
        (&whole.replace(".target sm_90", ""), "module: damaged PTX: `no .target`"),
        (&format!("{whole}}}"), "module: damaged PTX: `a `}` without its `{`: }`"),
    ] {
        assert_eq!(found(ptx, &Rules::collective()).first().map(String::as_str), Some(expected), "{ptx}");
    }
}

#[test]
fn modules_are_cut_into_entries() {
    let text = module("\tbar.sync \t0;");
    let two = format!("{text}{}", text.replace(" k(", " k2("));
    let parsed = PtxText::parse(&two);
    assert_eq!((parsed.version, parsed.sm, parsed.defects.len()), (84, 90, 0));
    assert_eq!(parsed.entries.iter().map(|entry| entry.name).collect::<Vec<_>>(), ["k", "k2"]);
    assert!(parsed.entry("k2").unwrap().lines.iter().any(|line| line.count("bar.sync") == 1));
}

#[test]
fn golden_lines_are_those_of_inline_assembly() {
    let body = "\tadd.s64 \t%rd1, %rd2, 1;\n\t// begin inline asm\n\tld.relaxed.sys.global.b64 %rd1, [%rd2];\n\t// end \
                inline asm\n\tbar.sync 0;\n\t// begin inline asm\n\tfence.acq_rel.sys;\n\t// end inline asm";
    let expected = ["ld.relaxed.sys.global.b64 %rd1, [%rd2];", "fence.acq_rel.sys;"];
    assert_eq!(golden(&module(body), "k"), expected);
    assert!(golden(&module(body), "other").is_empty());
}
