//! Texts that must be refused with a line and a name, and damaged ones that must not bring the reader down.

use crate::sim::ptx::parse;
use crate::sim::thread::tests::machine::{GLOBAL, Machine, module_text};
use crate::sim::thread::{ThreadState, run};
use proptest::prelude::*;

const REGISTERS: &str =
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b128 %q<3>;";

/// The statement stands on line 7 of the text.
fn refusal(statement: &str) -> String {
    let text = module_text(&format!("{REGISTERS}\n{statement}"));
    let error = parse(&text).expect_err(statement);
    assert_eq!(error.line, 7, "{statement}: {error}");
    error.message
}

#[test]
fn unknown_instructions_are_named() {
    let table = [
        "frobnicate.u32 %r0, %r1",
        "cp.async.bulk.commit_group",
        "add.rn.s32 %r0, %r1, %r2",
        "add.s8 %h0, %h1, %h2",
        "add.sat.u32 %r0, %r1, %r2",
        "add.rz.f16 %h0, %h1, %h2",
        "fma.f32 %r0, %r1, %r2, %r3",
        "div.f32 %r0, %r1, %r2",
        "min.sat.f32 %r0, %r1, %r2",
        "mul.wide.u64 %d0, %d1, %d2",
        "sqrt.approx.rn.f32 %r0, %r1",
        "cvt.s32.f32 %r0, %r1",
        "cvt.rn.s32.u32 %r0, %r1",
        "cvt.f16.f32 %h0, %r1",
        "cvt.rn.satfinite.e4m3x2.bf16x2 %h0, %r1",
        "setp.lt.b32 %p0, %r1, %r2",
        "setp.equ.s32 %p0, %r1, %r2",
        "shl.u32 %r0, %r1, 1",
        "ld.global.mmio.b32 %r0, [%d1]",
        "ld.global.v8.b32 {%r0, %r1}, [%d1]",
        "st.acquire.sys.global.b32 [%d1], %r0",
        "atom.global.inc.u32 %r0, [%d1], 5",
        "atom.global.add.f64 %d0, [%d1], %d2",
        "red.global.cas.b32 [%d1], 1, 2",
        "fence.proxy.async",
        "membar.cluster",
        "shfl.down.b32 %r0, %r1, 1, 31",
        "vote.all.pred %p0, %p1",
        "match.all.sync.b32 %r0, %r1, -1",
        "bar.red.popc.pred %p0, 0, %p1",
        "call foo",
    ];
    table.into_iter().for_each(is_named);
}

fn is_named(statement: &str) {
    let name = statement.split_whitespace().next().unwrap();
    let message = refusal(&format!("{statement};"));
    assert!(message.contains(&format!("`{name}`")), "{statement}: {message}");
}

/// What ptxas 13.0 refuses for sm_90.
#[test]
fn multimem_has_few_combinations() {
    let table = [
        "multimem.ld_reduce.release.sys.global.add.f32 %r0, [%d1]",
        "multimem.ld_reduce.sys.global.add.f32 %r0, [%d1]",
        "multimem.ld_reduce.volatile.global.add.f32 %r0, [%d1]",
        "multimem.ld_reduce.weak.sys.global.add.f32 %r0, [%d1]",
        "multimem.ld_reduce.global.add.acc::f32.v4.f32 {%r0, %r1, %r2, %r3}, [%d1]",
        "multimem.ld_reduce.global.add.acc::f16.f16x2 %r0, [%d1]",
        "multimem.ld_reduce.global.min.acc::f32.f16x2 %r0, [%d1]",
        "multimem.ld_reduce.global.min.f32 %r0, [%d1]",
        "multimem.ld_reduce.global.max.f64 %d0, [%d1]",
        "multimem.ld_reduce.global.add.f16 %h0, [%d1]",
        "multimem.ld_reduce.global.add.v2.f64 {%d0, %d2}, [%d1]",
        "multimem.ld_reduce.global.add.s64 %d0, [%d1]",
        "multimem.ld_reduce.global.add.b32 %r0, [%d1]",
        "multimem.ld_reduce.global.and.u32 %r0, [%d1]",
        "multimem.ld_reduce.global.add.u16 %h0, [%d1]",
        "multimem.ld_reduce.global.add.v2.u32 {%r0, %r1}, [%d1]",
        "multimem.ld_reduce.global.add.e4m3x4 %r0, [%d1]",
        "multimem.ld_reduce.shared.add.u32 %r0, [%d1]",
        "multimem.st.global.v4.b32 [%d1], {%r0, %r1, %r2, %r3}",
        "multimem.st.global.v2.b64 [%d1], {%d0, %d2}",
        "multimem.st.global.b16 [%d1], %h0",
        "multimem.st.global.b128 [%d1], %q0",
        "multimem.st.acquire.sys.global.f32 [%d1], %r0",
        "multimem.st.global.add.b32 [%d1], %r0",
        "multimem.red.acquire.sys.global.add.u32 [%d1], %r0",
        "multimem.red.acq_rel.sys.global.add.u32 [%d1], %r0",
        "multimem.red.weak.global.add.u32 [%d1], %r0",
        "multimem.red.global.min.f16x2 [%d1], %r0",
        "multimem.red.global.max.f32 [%d1], %r0",
        "multimem.red.global.inc.u32 [%d1], %r0",
        "multimem.ld.global.f32 %r0, [%d1]",
    ];
    table.into_iter().for_each(is_named);
}

#[test]
fn bad_operands_say_what_is_wrong() {
    let table = [
        ("add.s32 %r0, %r1;", "3 operands expected, 2 found"),
        ("add.s32 %r0, %d1, 1;", "a register of 64 bits where 32 are needed"),
        ("add.s32 5, %r1, 1;", "the destination is not a register"),
        ("add.s32 %r0, %r99, 1;", "unknown register `%r99`"),
        ("add.s32 %r0, nowhere, 1;", "unknown name `nowhere`"),
        ("add.f32 %r0, %r1, 1;", "an operand of the wrong kind"),
        ("mov.u32 %r0, %gridid;", "no special register `%gridid`"),
        ("mov.u64 %d0, %tid.x;", "`%tid.x` has 32 bits"),
        ("mov.b64 {%r0, %r1, %r2}, %d1;", "64 bits do not divide into 3 parts"),
        ("bra nowhere;", "no label `nowhere`"),
        ("brx.idx %r0, nowhere;", "no .branchtargets `nowhere`"),
        ("ld.relaxed.global.b32 %r0, [%d1];", "the order needs a scope"),
        ("ld.global.b32 %r0, %d1;", "an address in `[ ]` is needed"),
        ("ld.global.v2.b32 {%r0, %r1, %r2}, [%d1];", "2 elements needed, 3 given"),
        ("ld.global.b64 %r0, [%d1];", "a register of 32 bits where 64 are needed"),
        ("ld.global.b32 %r0, [%h1];", "neither 32 nor 64 bits"),
        ("ld.global.b32 %r0, [%d1+0x1_0];", "`_0`"),
        ("st.param.b32 [args], 1;", "may not write its parameters"),
        ("@%r0 bra x;", "`%r0` is not a predicate"),
        ("selp.b32 %r0, %r1, %r2, %r3;", "not a predicate"),
        (".reg .b32 x, x;", "declared twice"),
        (".reg .b33 x;", "`.b33` is not a type"),
        (".unheard 5;", "unknown directive `.unheard`"),
        ("x: x: ret;", "label `x` stands twice"),
        ("add.s32 %r0, %r1, 99999999999999999999;", "`99999999999999999999`"),
        ("\u{e9};", "is not PTX"),
        (".local .align 3 .b8 x[4];", "alignment 3"),
        (".local .b8 x[9999999999];", "larger than"),
    ];
    for (statement, expected) in table {
        let message = refusal(statement);
        assert!(message.contains(expected), "{statement}: {message}");
    }
}

#[test]
fn bad_modules_say_what_is_wrong() {
    let head = ".version 8.4\n.target sm_90\n.address_size 64\n";
    let table = [
        ("", 1, "no .version"),
        (".version 8.4\n", 1, "no .target"),
        (".version eight\n", 1, "a version"),
        (".version 8.4\n.target gfx90\n", 2, "a target like sm_90"),
        (
            ".version 8.4\n.target sm_80\n.address_size 64\n.visible .entry k() { .reg .b64 %d<2>;\n\
             multimem.red.add.u32 [%d1], 1; }\n",
            5,
            "needs .target sm_90",
        ),
        (
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { .reg .b64 %d<2>;\n\
             multimem.red.add.u32 [%d1], 1; }\n",
            5,
            "needs .target sm_90",
        ),
        (".address_size 32\n", 1, "32 bits"),
        ("\0\0\0", 1, "not PTX"),
        ("// only a comment /* ", 1, "no .version"),
        ("/* no end", 1, "comment without end"),
        (".file 1 \"no end\n", 1, "string without end"),
        (&format!("{head}.func f() {{ ret;"), 4, "the text ends here"),
        (&format!("{head}.extern .func f;"), 4, "`.shared`"),
        (&format!("{head}.visible .entry k() {{ ret;"), 4, "the end of the text"),
        (&format!("{head}.visible .entry k(.param .u64 a"), 4, "the end of the text"),
        (&format!("{head}.global .b32 x[1] = {{1, 2}};"), 4, "too many values"),
        (&format!("{head}.global .b64 x = other;"), 4, "may not hold addresses"),
        (&format!("{head}.global .b64 x;\n.global .b64 x;"), 5, "declared twice"),
    ];
    for (text, line, expected) in table {
        let error = parse(text).map(|_| ()).expect_err(text);
        assert!(error.message.contains(expected), "{text}: {error}");
        assert_eq!(error.line, line, "{text}: {error}");
    }
}

/// Texts to damage: compiled kernels, and one statement of each kind.
fn originals() -> [&'static str; 2] {
    [include_str!("../fixtures/accumulate.ptx"), include_str!("../fixtures/compiled.ptx")]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Bytes replaced, removed, doubled: any answer is right but a panic.
    #[test]
    fn damaged_text_never_panics(
        which in 0usize..2,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..6),
    ) {
        let mut bytes = originals()[which].as_bytes().to_vec();
        for (index, byte, kind) in damage {
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, b"{}[]();,.%@-\"/:"[usize::from(byte) % 15]),
                _ => {
                    let end = (at + usize::from(byte)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        // What is still PTX must run to some stop, too.
        let Ok(module) = parse(&String::from_utf8_lossy(&bytes)) else { return Ok(()) };
        for kernel in &module.kernels {
            let mut machine = Machine { global: vec![3; 4096], shared: vec![5; 64], ..Machine::default() };
            machine.parameters = [GLOBAL, GLOBAL + 2048, 9, 3, 7, 1, 0, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
            let mut registers = vec![0; kernel.n_registers as usize];
            let mut thread = ThreadState::new(kernel, &mut registers);
            run(kernel, &mut thread, &mut registers, &mut machine, 500);
        }
    }

    /// Words of PTX in any order.
    #[test]
    fn shuffled_words_never_panic(words in prop::collection::vec(any::<prop::sample::Index>(), 1..40)) {
        let vocabulary: Vec<&str> = originals()[1].split_inclusive([' ', ',', ';', '\n']).collect();
        let body: String = words.iter().map(|index| vocabulary[index.index(vocabulary.len())]).collect();
        let _ = parse(&body);
        let _ = parse(&module_text(&body));
    }

    /// A text cut anywhere is an error or the start of a module, never a panic.
    #[test]
    fn a_cut_text_never_panics(which in 0usize..2, at in any::<prop::sample::Index>()) {
        let text = originals()[which];
        let _ = parse(text.get(..at.index(text.len())).unwrap_or_default());
    }
}
