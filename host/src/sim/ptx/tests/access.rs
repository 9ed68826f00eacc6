//! Loads, stores, atomics and fences: what reaches the machine, and what registers hold.

use crate::sim::interface::{
    AtomicOp, ElementKind, Fault, Fence, MemoryAccess, MultimemOp,
    Order::{self, *},
    Reduction, ReductionOp,
    Scope::{self, *},
    Space::{self, *},
    Stop,
};
use crate::sim::thread::tests::machine::{GLOBAL, Machine, kernel, run_to_end};

const REGISTERS: &str =
    ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n.reg .b128 %q<3>;\n";

fn access(space: Space, (order, scope): (Order, Scope), width_bytes: u8, lanes: u8) -> MemoryAccess {
    MemoryAccess { space, order, scope, width_bytes, lanes }
}

/// Runs a body; global and shared memory hold 0, 1, 2, … and `%d1` the first global address.
fn run(body: &str) -> (Vec<Stop>, Machine) {
    let kernel =
        kernel(&format!("{REGISTERS}.shared .align 16 .b8 area[64];\nmov.b64 %d1, {GLOBAL};\n{body}"));
    let bytes: Vec<u8> = (0..=255).collect();
    let mut machine =
        Machine { global: bytes.clone(), shared: bytes.clone(), parameters: bytes, ..Machine::default() };
    let (stops, _) = run_to_end(&kernel, &mut machine, [0; 2]);
    (stops, machine)
}

/// The one entry of the machine's log.
fn logged(text: &str) -> String {
    let (stops, machine) = run(&format!("{text};"));
    assert_eq!(stops, [Stop::Exit], "{text}");
    assert_eq!(machine.log.len(), 1, "{text}: {:?}", machine.log);
    machine.log[0].clone()
}

#[test]
fn loads_and_stores_say_how() {
    let weak = (Weak, Scope::None);
    let table = [
        ("ld.global.b32 %r0, [%d1]", "load", access(Global, weak, 4, 1)),
        ("ld.b8 %h0, [%d1]", "load", access(Global, weak, 1, 1)),
        ("ld.weak.global.f64 %d0, [%d1+8]", "load", access(Global, weak, 8, 1)),
        ("ld.global.nc.v4.b32 {%r0, %r1, _, %r3}, [%d1]", "load", access(Global, weak, 4, 4)),
        (
            "ld.global.nc.L1::no_allocate.L2::128B.v2.u64 {%d0, %d2}, [%d1]",
            "load",
            access(Global, weak, 8, 2),
        ),
        ("ld.global.ca.s8 %r0, [%d1]", "load", access(Global, weak, 1, 1)),
        ("ld.volatile.global.u32 %r0, [%d1]", "load", access(Global, (Volatile, Sys), 4, 1)),
        ("ld.relaxed.sys.global.b64 %d0, [%d1]", "load", access(Global, (Relaxed, Sys), 8, 1)),
        (
            "ld.relaxed.gpu.global.L1::no_allocate.b64 %d0, [%d1]",
            "load",
            access(Global, (Relaxed, Gpu), 8, 1),
        ),
        ("ld.acquire.sys.b32 %r0, [%d1]", "load", access(Global, (Acquire, Sys), 4, 1)),
        ("ld.relaxed.sys.global.v2.b64 {%d0, %d2}, [%d1]", "load", access(Global, (Relaxed, Sys), 8, 2)),
        ("ld.relaxed.sys.global.b128 %q0, [%d1]", "load", access(Global, (Relaxed, Sys), 16, 1)),
        ("ld.shared.v2.f32 {%r0, %r1}, [area+8]", "load", access(Shared, weak, 4, 2)),
        ("ld.volatile.shared::cta.u16 %h0, [area]", "load", access(Shared, (Volatile, Sys), 2, 1)),
        ("ld.relaxed.cta.shared.b32 %r0, [area]", "load", access(Shared, (Relaxed, Cta), 4, 1)),
        ("st.global.b32 [%d1], 5", "store", access(Global, weak, 4, 1)),
        ("st.cs.global.v4.f32 [%d1], {%r0, %r1, %r2, 0f3F800000}", "store", access(Global, weak, 4, 4)),
        ("st.release.sys.global.b32 [%d1], %r0", "store", access(Global, (Release, Sys), 4, 1)),
        ("st.release.cluster.b32 [%d1], %r0", "store", access(Global, (Release, Cluster), 4, 1)),
        ("st.relaxed.sys.global.v2.b64 [%d1], {%d2, -1}", "store", access(Global, (Relaxed, Sys), 8, 2)),
        ("st.relaxed.sys.global.b128 [%d1], %q0", "store", access(Global, (Relaxed, Sys), 16, 1)),
        ("st.volatile.global.u8 [%d1+3], %h0", "store", access(Global, (Volatile, Sys), 1, 1)),
        ("st.shared.b64 [area+16], %d1", "store", access(Shared, weak, 8, 1)),
    ];
    for (text, what, expected) in table {
        assert_eq!(logged(text), format!("{what} {expected:?}"), "{text}");
    }
}

#[test]
fn atomics_say_how() {
    let table = [
        ("atom.global.add.u32 %r0, [%d1], 5", AtomicOp::Add, (Relaxed, Gpu), 4, 5u64, 5u64),
        ("atom.add.release.sys.global.u64 %d0, [%d1], 5", AtomicOp::Add, (Release, Sys), 8, 5, 5),
        ("atom.relaxed.gpu.global.cas.b32 %r0, [%d1], 3, 7", AtomicOp::CompareSwap, (Relaxed, Gpu), 4, 3, 7),
        ("atom.acq_rel.sys.global.cas.b64 _, [%d1], 3, 7", AtomicOp::CompareSwap, (AcqRel, Sys), 8, 3, 7),
        ("atom.acquire.cta.exch.b32 %r0, [%d1], 9", AtomicOp::Exchange, (Acquire, Cta), 4, 9, 9),
        ("red.release.gpu.global.add.u32 [%d1], 1", AtomicOp::Add, (Release, Gpu), 4, 1, 1),
        ("red.relaxed.sys.global.or.b64 [%d1+8], 1", AtomicOp::Or, (Relaxed, Sys), 8, 1, 1),
        ("red.global.and.b32 [%d1], 1", AtomicOp::And, (Relaxed, Gpu), 4, 1, 1),
        ("red.global.xor.b32 [%d1], 1", AtomicOp::Xor, (Relaxed, Gpu), 4, 1, 1),
        ("red.global.max.s32 [%d1], -1", AtomicOp::MaxSigned, (Relaxed, Gpu), 4, 0xffff_ffffu64, 0xffff_ffff),
        ("red.global.min.u64 [%d1], 1", AtomicOp::MinUnsigned, (Relaxed, Gpu), 8, 1, 1),
        (
            "atom.global.add.f32 %r0, [%d1], 0f3F800000",
            AtomicOp::AddF32,
            (Relaxed, Gpu),
            4,
            0x3f80_0000,
            0x3f80_0000,
        ),
    ];
    for (text, op, how, width_bytes, operand, second) in table {
        let expected = format!("{op:?} {:?} {operand:#x} {second:#x}", access(Global, how, width_bytes, 1));
        assert_eq!(logged(text), expected, "{text}");
    }
}

#[test]
fn multimem_says_how() {
    let sum = |element, is_wide| Reduction { op: ReductionOp::Add, element, is_wide };
    let of = |op, element| Reduction { op, element, is_wide: false };
    let load = MultimemOp::LoadReduce;
    let weak = (Weak, Scope::None);
    let f32s = sum(ElementKind::F32, false);
    let table = [
        ("ld_reduce.add.f32 %r0, [%d1]", load(f32s), weak, 4, 1),
        ("ld_reduce.weak.global.add.f32 %r0, [%d1]", load(f32s), weak, 4, 1),
        (
            "ld_reduce.relaxed.sys.global.add.v4.f32 {%r0, %r1, _, %r3}, [%d1]",
            load(f32s),
            (Relaxed, Sys),
            4,
            4,
        ),
        (
            "ld_reduce.acquire.gpu.global.add.acc::f32.v4.bf16x2 {%r0, %r1, %r2, %r3}, [%d1]",
            load(sum(ElementKind::Bf16, true)),
            (Acquire, Gpu),
            4,
            4,
        ),
        ("ld_reduce.add.v2.f16 {%h0, %h1}, [%d1]", load(sum(ElementKind::F16, false)), weak, 2, 2),
        ("ld_reduce.add.f64 %d0, [%d1]", load(sum(ElementKind::F64, false)), weak, 8, 1),
        ("ld_reduce.max.f16x2 %r0, [%d1]", load(of(ReductionOp::Max, ElementKind::F16)), weak, 4, 1),
        ("ld_reduce.min.s64 %d0, [%d1]", load(of(ReductionOp::Min, ElementKind::Signed)), weak, 8, 1),
        ("ld_reduce.xor.b32 %r0, [%d1]", load(of(ReductionOp::Xor, ElementKind::Unsigned)), weak, 4, 1),
        ("st.b32 [%d1], 7", MultimemOp::Store, weak, 4, 1),
        ("st.relaxed.sys.global.b64 [%d1], %d2", MultimemOp::Store, (Relaxed, Sys), 8, 1),
        ("st.release.gpu.v4.f32 [%d1], {%r0, %r1, %r2, %r3}", MultimemOp::Store, (Release, Gpu), 4, 4),
        ("st.weak.v4.f16x2 [%d1], {%r0, %r1, %r2, %r3}", MultimemOp::Store, weak, 4, 4),
        (
            "red.release.sys.global.add.u32 [%d1], 1",
            MultimemOp::Reduce(sum(ElementKind::Unsigned, false)),
            (Release, Sys),
            4,
            1,
        ),
        ("red.add.f32 [%d1], %r0", MultimemOp::Reduce(f32s), (Relaxed, Gpu), 4, 1),
        (
            "red.relaxed.cta.or.b64 [%d1], %d2",
            MultimemOp::Reduce(of(ReductionOp::Or, ElementKind::Unsigned)),
            (Relaxed, Cta),
            8,
            1,
        ),
    ];
    for (text, op, how, width_bytes, lanes) in table {
        let expected = format!("{op:?} {:?} {GLOBAL:#x}", access(Global, how, width_bytes, lanes));
        let found = logged(&format!("multimem.{text}"));
        assert!(found.starts_with(&expected), "{text}: {found}, {expected}");
    }
    let stored = logged("mov.b32 %r0, 5; multimem.st.v2.f32 [%d1+8], {%r0, 0f3F800000}");
    assert!(stored.ends_with("0x100008 [5, 3f800000, 0, 0]"), "{stored}");
    let (_, machine) = run("multimem.ld_reduce.add.v2.f32 {_, %r0}, [%d1]; st.global.b32 [%d1], %r0;");
    assert_eq!(machine.words()[0] as u32, 0x22);
}

#[test]
fn fences_say_how() {
    let table = [
        ("fence.acq_rel.sys", Fence::Thread(AcqRel, Sys)),
        ("fence.sc.gpu", Fence::Thread(SeqCst, Gpu)),
        ("fence.cta", Fence::Thread(AcqRel, Cta)),
        ("membar.gl", Fence::Thread(SeqCst, Gpu)),
        ("membar.sys", Fence::Thread(SeqCst, Sys)),
        ("fence.proxy.alias", Fence::ProxyAlias),
    ];
    for (text, expected) in table {
        assert_eq!(logged(text), format!("{expected:?}"), "{text}");
    }
}

/// Instructions that leave a value in `%d0`, over memory that holds 0, 1, 2, … .
#[test]
fn loaded_values_fill_their_registers() {
    let table = [
        ("ld.global.s8 %d0, [%d1+200]", 0xffff_ffff_ffff_ffc8),
        ("ld.global.s8 %r0, [%d1+200]; cvt.u64.u32 %d0, %r0", 0xffff_ffc8),
        ("ld.global.u8 %h0, [%d1+200]; cvt.u64.u16 %d0, %h0", 0xc8),
        ("ld.global.s16 %d0, [%d1+200]", 0xffff_ffff_ffff_c9c8),
        ("ld.global.b32 %d0, [%d1+200]", 0xcbca_c9c8),
        ("ld.global.v2.s16 {%d2, %d0}, [%d1+200]", 0xffff_ffff_ffff_cbca),
        ("ld.global.v4.b8 {%h0, %h1, %h2, %h3}, [%d1]; cvt.u64.u16 %d0, %h3", 3),
        ("ld.global.b128 %q0, [%d1]; mov.b128 {_, %d0}, %q0", 0x0f0e_0d0c_0b0a_0908),
        ("ld.shared.b64 %d0, [area+8]", 0x0f0e_0d0c_0b0a_0908),
        ("mov.b32 %r1, area; ld.shared.b32 %d0, [%r1+4]", 0x0706_0504),
        ("mov.b64 %d2, area; cvta.shared.u64 %d2, %d2; ld.b32 %d0, [%d2+4]", 0x0706_0504),
        ("mov.b64 %d2, area; cvta.shared.u64 %d2, %d2; st.b32 [%d2+4], 9; ld.shared.b32 %d0, [area+4]", 9),
        ("ld.param.b32 %d0, [args+8]", 0x0b0a_0908),
        ("ld.param.v2.b32 {_, %r0}, [args+8]; cvt.u64.u32 %d0, %r0", 0x0f0e_0d0c),
        ("mov.b64 %d2, args; ld.param.b64 %d0, [%d2+8]", 0x0f0e_0d0c_0b0a_0908),
        (".local .align 8 .b8 own[16]; st.local.b64 [own+8], %d1; ld.local.b32 %d0, [own+8]", GLOBAL),
        (
            ".local .align 8 .b8 own[16]; mov.b64 %d2, own; cvta.local.u64 %d3, %d2; st.b64 [%d3+8], 77; \
             cvta.to.local.u64 %d4, %d3; ld.local.b64 %d0, [%d4+8]",
            77,
        ),
        ("mov.b32 %r0, -1; st.global.u8 [%d1], %r0; ld.global.b32 %d0, [%d1]", 0x0302_01ff),
        ("atom.global.add.u32 %r0, [%d1], 5; cvt.u64.u32 %d0, %r0", 0x0302_0100),
        ("prefetch.global.L2 [%d1]; discard.global.L2 [%d1], 128; mov.b64 %d0, 1", 1),
        ("griddepcontrol.wait; griddepcontrol.launch_dependents; mov.b64 %d0, 1", 1),
    ];
    for (text, expected) in table {
        let (stops, machine) = run(&format!("{text};\nst.global.b64 [%d1+248], %d0;"));
        assert_eq!(stops, [Stop::Exit], "{text}");
        assert_eq!(machine.words()[31], expected, "{text}");
    }
}

#[test]
fn faults_stay_at_their_instruction() {
    let own = ".local .align 8 .b8 own[16];";
    let table = [
        ("ld.global.b32 %r0, [%d1+4096]", Fault::Unmapped { address: GLOBAL + 4096 }),
        ("mov.b64 %d2, 0; st.global.b32 [%d2], 1", Fault::Unmapped { address: 0 }),
        ("ld.param.b32 %r0, [args+300]", Fault::OutOfBounds { address: 300, len_bytes: 256 }),
        ("ld.param.b32 %r0, [args+2]", Fault::Misaligned { address: 2, required: 4 }),
        ("st.local.b64 [own+16], 1", Fault::OutOfBounds { address: 16, len_bytes: 16 }),
        ("st.local.v2.b64 [own+8], {1, 2}", Fault::Misaligned { address: 8, required: 16 }),
        ("trap", Fault::Trap),
        ("brkpt", Fault::Trap),
    ];
    for (text, expected) in table {
        let (stops, machine) = run(&format!("{own} {text};\nst.global.b64 [%d1], 1;"));
        assert_eq!(stops, [Stop::Fault(expected)], "{text}");
        assert_eq!(machine.words()[0], 0x0706_0504_0302_0100, "{text}");
    }
}

#[test]
fn shared_variables_are_placed_in_order_with_dynamic_ones_behind() {
    let text = ".version 8.4\n.target sm_90\n.address_size 64\n\
        .shared .align 4 .b8 unused[512];\n.shared .align 4 .b8 small[12];\n.shared .align 16 .f32 big[8];\n\
        .extern .shared .align 32 .b8 dynamic[];\n\
        .visible .entry k() { .reg .b64 %d<9>; mov.b64 %d1, small; mov.b64 %d2, big; mov.b64 %d3, dynamic;\n\
        mov.b64 %d4, 1048576; st.global.v2.b64 [%d4], {%d1, %d2}; st.global.b64 [%d4+16], %d3; }";
    let kernel = crate::sim::ptx::parse(text).unwrap().kernels.remove(0);
    assert_eq!(kernel.shared_bytes, 48);
    let mut machine = Machine { global: vec![0; 24], ..Machine::default() };
    assert_eq!(run_to_end(&kernel, &mut machine, [0; 2]).0, [Stop::Exit]);
    assert_eq!(machine.words(), [0, 16, 64]);
}
