//! Golden checks: what every primitive of `device/src/ptx.rs` becomes in PTX, to the letter but for register numbers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use symmem_builder::check::{PtxText, golden};
use symmem_builder::{Builder, Lto};

/// Primitive, and the one instruction that it must be.
const PRIMITIVES: &[(&str, &str)] = &[
    ("ld_weak_b8", "ld.global.b8 %rs, [%rd];"),
    ("ld_weak_b16", "ld.global.b16 %rs, [%rd];"),
    ("ld_weak_b32", "ld.global.b32 %r, [%rd];"),
    ("ld_weak_b64", "ld.global.b64 %rd, [%rd];"),
    ("ld_weak_v2_b64", "ld.global.L1::no_allocate.v2.b64 {%rd, %rd}, [%rd];"),
    ("ld_relaxed_sys_b32", "ld.relaxed.sys.global.b32 %r, [%rd];"),
    ("ld_acquire_sys_b32", "ld.acquire.sys.global.b32 %r, [%rd];"),
    ("mov_b32", "mov.b32 %r, %r;"),
    ("mov_b64", "mov.b64 %rd, %rd;"),
    ("ld_relaxed_sys_v2_b64", "ld.relaxed.sys.global.v2.b64 {%rd, %rd}, [%rd];"),
    ("st_weak_b8", "st.global.b8 [%rd], %rs;"),
    ("st_weak_b16", "st.global.b16 [%rd], %rs;"),
    ("st_weak_b32", "st.global.b32 [%rd], %r;"),
    ("st_weak_b64", "st.global.b64 [%rd], %rd;"),
    ("st_weak_v2_b64", "st.global.v2.b64 [%rd], {%rd, %rd};"),
    ("st_relaxed_sys_b32", "st.relaxed.sys.global.b32 [%rd], %r;"),
    ("st_relaxed_sys_v2_b64", "st.relaxed.sys.global.v2.b64 [%rd], {%rd, %rd};"),
    ("st_release_sys_b32", "st.release.sys.global.b32 [%rd], %r;"),
    ("fence_acq_rel_sys", "fence.acq_rel.sys;"),
    ("fence_proxy_alias", "fence.proxy.alias;"),
    ("atom_relaxed_gpu_cas_b32", "atom.relaxed.gpu.global.cas.b32 %r, [%rd], %r, %r;"),
    ("globaltimer_ns", "mov.u64 %rd, %globaltimer;"),
    ("griddepcontrol_wait", "griddepcontrol.wait;"),
    ("griddepcontrol_launch_dependents", "griddepcontrol.launch_dependents;"),
    ("bar_warp_sync", "bar.warp.sync %r;"),
    ("min_nan_f32", "min.NaN.f32 %r, %r, %r;"),
    ("max_nan_f32", "max.NaN.f32 %r, %r, %r;"),
    ("cvt_f32_f16", "cvt.f32.f16 %r, %rs;"),
    ("cvt_rn_f16x2_f32", "cvt.rn.f16x2.f32 %r, %r, %r;"),
    ("cvt_rn_bf16x2_f32", "cvt.rn.bf16x2.f32 %r, %r, %r;"),
];

/// The same from sm_90 on.
const PRIMITIVES_OF_SM_90: &[(&str, &str)] = &[
    ("cvt_rn_satfinite_e4m3x2_f32", "cvt.rn.satfinite.e4m3x2.f32 %rs, %r, %r;"),
    ("cvt_rn_satfinite_e5m2x2_f32", "cvt.rn.satfinite.e5m2x2.f32 %rs, %r, %r;"),
    ("cvt_rn_f16x2_e4m3x2", "cvt.rn.f16x2.e4m3x2 %r, %rs;"),
    ("cvt_rn_f16x2_e5m2x2", "cvt.rn.f16x2.e5m2x2 %r, %rs;"),
    (
        "ld_relaxed_sys_b128",
        "{ .reg .b128 %v; ld.relaxed.sys.global.b128 %v, [%rd]; mov.b128 {%rd, %rd}, %v; }",
    ),
    (
        "st_relaxed_sys_b128",
        "{ .reg .b128 %v; mov.b128 %v, {%rd, %rd}; st.relaxed.sys.global.b128 [%rd], %v; }",
    ),
    ("multimem_ld_reduce_relaxed_sys_add_f32", "multimem.ld_reduce.relaxed.sys.global.add.f32 %r, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_add_f64", "multimem.ld_reduce.relaxed.sys.global.add.f64 %rd, [%rd];"),
    (
        "multimem_ld_reduce_relaxed_sys_add_acc_f32_f16x2",
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.f16x2 %r, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_add_acc_f32_bf16x2",
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.bf16x2 %r, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_min_f16x2",
        "multimem.ld_reduce.relaxed.sys.global.min.f16x2 %r, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_max_f16x2",
        "multimem.ld_reduce.relaxed.sys.global.max.f16x2 %r, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_min_bf16x2",
        "multimem.ld_reduce.relaxed.sys.global.min.bf16x2 %r, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_max_bf16x2",
        "multimem.ld_reduce.relaxed.sys.global.max.bf16x2 %r, [%rd];",
    ),
    ("multimem_ld_reduce_relaxed_sys_add_u32", "multimem.ld_reduce.relaxed.sys.global.add.u32 %r, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_add_u64", "multimem.ld_reduce.relaxed.sys.global.add.u64 %rd, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_min_u32", "multimem.ld_reduce.relaxed.sys.global.min.u32 %r, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_max_u32", "multimem.ld_reduce.relaxed.sys.global.max.u32 %r, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_min_s32", "multimem.ld_reduce.relaxed.sys.global.min.s32 %r, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_max_s32", "multimem.ld_reduce.relaxed.sys.global.max.s32 %r, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_min_u64", "multimem.ld_reduce.relaxed.sys.global.min.u64 %rd, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_max_u64", "multimem.ld_reduce.relaxed.sys.global.max.u64 %rd, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_min_s64", "multimem.ld_reduce.relaxed.sys.global.min.s64 %rd, [%rd];"),
    ("multimem_ld_reduce_relaxed_sys_max_s64", "multimem.ld_reduce.relaxed.sys.global.max.s64 %rd, [%rd];"),
    (
        "multimem_ld_reduce_relaxed_sys_add_v4_f32",
        "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%r, %r, %r, %r}, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_f16x2",
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%r, %r, %r, %r}, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_bf16x2",
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%r, %r, %r, %r}, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_min_v4_f16x2",
        "multimem.ld_reduce.relaxed.sys.global.min.v4.f16x2 {%r, %r, %r, %r}, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_max_v4_f16x2",
        "multimem.ld_reduce.relaxed.sys.global.max.v4.f16x2 {%r, %r, %r, %r}, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_min_v4_bf16x2",
        "multimem.ld_reduce.relaxed.sys.global.min.v4.bf16x2 {%r, %r, %r, %r}, [%rd];",
    ),
    (
        "multimem_ld_reduce_relaxed_sys_max_v4_bf16x2",
        "multimem.ld_reduce.relaxed.sys.global.max.v4.bf16x2 {%r, %r, %r, %r}, [%rd];",
    ),
    ("multimem_st_relaxed_sys_b32", "multimem.st.relaxed.sys.global.b32 [%rd], %r;"),
    ("multimem_st_relaxed_sys_b64", "multimem.st.relaxed.sys.global.b64 [%rd], %rd;"),
    ("multimem_red_relaxed_sys_add_u32", "multimem.red.relaxed.sys.global.add.u32 [%rd], %r;"),
    ("multimem_red_release_sys_add_u32", "multimem.red.release.sys.global.add.u32 [%rd], %r;"),
    ("multimem_st_relaxed_sys_v4_f32", "multimem.st.relaxed.sys.global.v4.f32 [%rd], {%r, %r, %r, %r};"),
];

fn device(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The text without the numbers of registers.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    let mut in_register = false;
    for c in line.chars() {
        in_register = c == '%' || (in_register && c.is_ascii_alphanumeric());
        if !(in_register && c.is_ascii_digit()) {
            text.push(c);
        }
    }
    text
}

#[test]
fn every_primitive_is_its_instruction() {
    let artifacts = Builder::new(device("golden")).lto(Lto::Off).sm(80).sm(90).build();
    let artifacts = artifacts.expect("the crate compiles");
    for module in &artifacts.modules {
        let of_sm_90: &[_] = if module.sm >= 90 { PRIMITIVES_OF_SM_90 } else { &[] };
        for (primitive, expected) in PRIMITIVES.iter().chain(of_sm_90) {
            let found: Vec<_> = golden(&module.text, primitive).into_iter().map(without_numbers).collect();
            assert_eq!(found, [*expected], "{primitive} on sm_{}", module.sm);
        }
        let text = PtxText::parse(&module.text);
        let barrier = text.entry("sync_threads").expect("its kernel is there");
        assert_eq!(barrier.lines.iter().map(|line| line.count("bar.sync")).sum::<usize>(), 1);
    }
}

/// A primitive without a golden line fails here.
#[test]
fn no_primitive_is_left_out() {
    let source = std::fs::read_to_string(device("src/ptx.rs")).expect("ptx.rs is there");
    let by_table = source.lines().filter_map(|line| line.trim().split_once(" = \"").map(|(name, _)| name));
    let by_function = source.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once("fn "));
    let by_function = by_function.filter_map(|(_, rest)| rest.split_once('(').map(|(name, _)| name));
    let is_name = |name: &&str| {
        *name != "reason" && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let in_source: BTreeSet<&str> = by_table.chain(by_function).filter(is_name).collect();
    let all = PRIMITIVES.iter().chain(PRIMITIVES_OF_SM_90);
    let in_table: BTreeSet<&str> = all.map(|(primitive, _)| *primitive).collect();
    assert_eq!(in_source, in_table);
}
