//! `cvt` and `mov`.

use super::snippet::{Snippet, check};
use proptest::prelude::*;

const M32: u64 = 0xffff_ffff;
const NAN: u64 = 0x7fff_ffff;

fn f(value: f32) -> u64 {
    value.to_bits().into()
}

fn d(value: f64) -> u64 {
    value.to_bits()
}

#[test]
fn integers() {
    check(&[
        ("cvt.u32.u64 %r0, %d1", &[0x1_2345_6789], 0x2345_6789),
        ("cvt.s64.s32 %d0, %r1", &[M32], u64::MAX),
        ("cvt.u64.u32 %d0, %r1", &[M32], M32),
        ("cvt.u64.s32 %d0, %r1", &[M32], u64::MAX),
        ("cvt.s32.s8 %r0, %r1", &[0x1ff], M32),
        ("cvt.u32.u8 %r0, %r1", &[0x1ff], 0xff),
        ("cvt.u16.u8 %h0, %h1", &[0x1ff], 0xff),
        ("cvt.s8.s32 %r0, %r1", &[0x80], 0xffff_ff80),
        ("cvt.u8.s32 %r0, %r1", &[0x1ff], 0xff),
        ("cvt.s8.s64 %h0, %d1", &[0x80], 0xff80),
        ("cvt.sat.s8.s32 %r0, %r1", &[300], 127),
        ("cvt.sat.s8.s32 %r0, %r1", &[M32 - 299], 0xffff_ff80),
        ("cvt.sat.u8.s32 %r0, %r1", &[M32], 0),
        ("cvt.sat.u32.s64 %r0, %d1", &[u64::MAX], 0),
        ("cvt.sat.s32.u32 %r0, %r1", &[M32], 0x7fff_ffff),
        ("cvt.sat.s64.u64 %d0, %d1", &[u64::MAX], i64::MAX as u64),
    ]);
}

#[test]
fn between_floats_and_integers() {
    check(&[
        ("cvt.rni.s32.f32 %r0, %r1", &[f(2.5)], 2),
        ("cvt.rni.s32.f32 %r0, %r1", &[f(3.5)], 4),
        ("cvt.rzi.s32.f32 %r0, %r1", &[f(-2.7)], M32 - 1),
        ("cvt.rmi.s32.f32 %r0, %r1", &[f(-2.1)], M32 - 2),
        ("cvt.rpi.s32.f32 %r0, %r1", &[f(2.1)], 3),
        ("cvt.rzi.u32.f32 %r0, %r1", &[f(-5.0)], 0),
        ("cvt.rzi.s32.f32 %r0, %r1", &[f(1e20)], 0x7fff_ffff),
        ("cvt.rzi.u8.f32 %r0, %r1", &[f(300.0)], 255),
        ("cvt.rzi.s8.f32 %r0, %r1", &[f(-300.0)], 0xffff_ff80),
        ("cvt.rzi.s32.f32 %r0, %r1", &[NAN], 0),
        ("cvt.rzi.s64.f32 %d0, %r1", &[NAN], 1 << 63),
        ("cvt.rzi.u64.f32 %d0, %r1", &[NAN], 1 << 63),
        ("cvt.rzi.s32.f64 %r0, %d1", &[d(f64::NAN)], 0x8000_0000),
        ("cvt.rzi.s64.f64 %d0, %d1", &[d(f64::NEG_INFINITY)], 1 << 63),
        ("cvt.rzi.u64.f64 %d0, %d1", &[d(1e19)], 10_000_000_000_000_000_000),
        ("cvt.rni.ftz.s32.f32 %r0, %r1", &[1], 0),
        ("cvt.rpi.s32.f32 %r0, %r1", &[1], 1),
        ("cvt.rpi.ftz.s32.f32 %r0, %r1", &[1], 0),
        ("cvt.rzi.s16.f16 %h0, %h1", &[0xc500], 0xfffb),
        ("cvt.rzi.s32.bf16 %r0, %h1", &[0x40a0], 5),
        ("cvt.rn.f32.u32 %r0, %r1", &[M32], f(4294967296.0)),
        ("cvt.rz.f32.u32 %r0, %r1", &[M32], f(4294967040.0)),
        ("cvt.rm.f32.s32 %r0, %r1", &[0x8000_007f], f(-2147483648.0)),
        ("cvt.rp.f32.s64 %r0, %d1", &[(1 << 40) + 1], f(1099511627776.0).wrapping_add(1)),
        ("cvt.rn.f64.u64 %d0, %d1", &[u64::MAX], d(18446744073709551616.0)),
        ("cvt.rn.f32.s8 %r0, %r1", &[0xff], f(-1.0)),
        ("cvt.rn.f16.s32 %h0, %r1", &[100_000], 0x7c00),
        ("cvt.rz.f16.s32 %h0, %r1", &[100_000], 0x7bff),
        ("cvt.rn.bf16.s32 %h0, %r1", &[3], 0x4040),
        ("cvt.rn.f64.s32 %d0, %r1", &[M32], d(-1.0)),
    ]);
}

#[test]
fn between_floats() {
    check(&[
        ("cvt.f64.f32 %d0, %r1", &[f(-1.5)], d(-1.5)),
        ("cvt.f64.f32 %d0, %r1", &[NAN], 0xfff8_0000_0000_0000),
        ("cvt.rn.f32.f64 %r0, %d1", &[d(0.1)], f(0.1)),
        ("cvt.rz.f32.f64 %r0, %d1", &[d(1e300)], f(f32::MAX)),
        ("cvt.rp.f32.f64 %r0, %d1", &[d(1e-300)], 1),
        ("cvt.rn.ftz.f32.f64 %r0, %d1", &[d(1e-40)], 0),
        ("cvt.rni.f32.f32 %r0, %r1", &[f(-0.4)], f(-0.0)),
        ("cvt.rpi.f64.f64 %d0, %d1", &[d(1.1)], d(2.0)),
        ("cvt.rmi.f32.f32 %r0, %r1", &[f(1e30)], f(1e30)),
        ("cvt.sat.f32.f32 %r0, %r1", &[f(1.5)], f(1.0)),
        ("cvt.ftz.f32.f32 %r0, %r1", &[0x8000_0001], 0x8000_0000),
        ("cvt.rn.sat.f16.f32 %h0, %r1", &[f(-3.0)], 0),
        ("cvt.rz.f16.f32 %h0, %r1", &[f(1e9)], 0x7bff),
        ("cvt.rz.bf16.f32 %h0, %r1", &[0x3f80_ffff], 0x3f80),
        ("cvt.rn.relu.bf16.f32 %h0, %r1", &[f(-1.0)], 0),
        ("cvt.rn.bf16.f16 %h0, %h1", &[0x3c00], 0x3f80),
        ("cvt.rn.f16x2.f32 %r0, %r1, %r2", &[f(1.0), f(2.0)], 0x3c00_4000),
        ("cvt.rn.bf16x2.f32 %r0, %r1, %r2", &[f(1.0), f(2.0)], 0x3f80_4000),
        ("cvt.rn.relu.bf16x2.f32 %r0, %r1, %r2", &[f(-1.0), f(2.0)], 0x0000_4000),
        ("cvt.rz.f16x2.f32 %r0, %r1, %r2", &[f(1e9), f(-1e9)], 0x7bff_fbff),
        ("cvt.rna.tf32.f32 %r0, %r1", &[0x3f80_1000], 0x3f80_2000),
        ("cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2", &[f(1.0), f(1000.0)], 0x387e),
        ("cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2", &[f(-1e9), f(f32::NAN)], 0xfb7f),
        ("cvt.rn.f16x2.e4m3x2 %r0, %h1", &[0x387f], 0x3c00_7fff),
        ("cvt.rn.f16x2.e5m2x2 %r0, %h1", &[0x3c7c], 0x3c00_7c00),
        ("cvt.rn.satfinite.e4m3x2.f16x2 %h0, %r1", &[0x3c00_c000], 0x38c0),
    ]);
}

#[test]
fn moves() {
    check(&[
        ("mov.b32 %r0, 0f3F800000", &[], f(1.0)),
        ("mov.b64 %d0, -1", &[], u64::MAX),
        ("mov.b16 %h0, -1", &[], 0xffff),
        ("mov.b64 %d0, {%r1, %r2}", &[1, 2], 2 << 32 | 1),
        ("mov.b64 {_, %r0}, %d1", &[7 << 32 | 5], 7),
        ("mov.b64 {%r0, _}, %d1", &[7 << 32 | 5], 5),
        ("mov.b32 %r0, {%h1, %h2}", &[1, 2], 0x2_0001),
        ("mov.b32 {_, %h0}, %r1", &[0x1234_5678], 0x1234),
        ("mov.b64 %d0, {%h1, %h2, %h3, 4}", &[1, 2, 3], 0x0004_0003_0002_0001),
        ("mov.b64 {%h0, _, _, _}, %d1", &[0x1234_5678_9abc_def0], 0xdef0),
        ("mov.pred %p0, %p1", &[1], 1),
        ("mov.b64 %d0, 0; {.reg .b128 q; mov.b128 q, {%d1, %d2}; mov.b128 {_, %d0}, q;}", &[3, 4], 4),
        (
            "mov.b64 %d0, 0; {.reg .b128 q, s; mov.b128 q, {%d1, %d2}; mov.b128 s, q; mov.b128 {%d0, _}, s;}",
            &[3, 4],
            3,
        ),
        ("mov.b32 %r0, 0; {.reg .b128 q; mov.b128 q, {%r1, 5, 6, 7}; mov.b128 {_, _, %r0, _}, q;}", &[3], 6),
        ("cvta.to.global.u64 %d0, %d1", &[0x1234], 0x1234),
        ("cvta.global.u64 %d0, %d1", &[0x1234], 0x1234),
    ]);
}

proptest! {
    #[test]
    fn casts_equal_the_hosts(bits: u64, exponent in 0u64..80) {
        // A double in the range of the integers, and one of any bits.
        let near = f64::from_bits(bits & 0x800f_ffff_ffff_ffff | (1023 + exponent) << 52);
        for value in [near, f64::from_bits(bits)] {
            prop_assume!(!value.is_nan());
            let single = value as f32;
            prop_assert_eq!(Snippet::new("cvt.rzi.s64.f64 %d0, %d1").run(&[d(value)]), value as i64 as u64);
            prop_assert_eq!(Snippet::new("cvt.rzi.u64.f64 %d0, %d1").run(&[d(value)]), value as u64);
            prop_assert_eq!(Snippet::new("cvt.rzi.s32.f32 %r0, %r1").run(&[f(single)]), u64::from(single as i32 as u32));
            prop_assert_eq!(Snippet::new("cvt.rzi.u16.f32 %h0, %r1").run(&[f(single)]), u64::from(single as u16));
            prop_assert_eq!(Snippet::new("cvt.rn.f32.f64 %r0, %d1").run(&[d(value)]), f(single));
        }
        prop_assert_eq!(Snippet::new("cvt.rn.f64.s64 %d0, %d1").run(&[bits]), d(bits as i64 as f64));
        prop_assert_eq!(Snippet::new("cvt.rn.f32.u64 %r0, %d1").run(&[bits]), f(bits as f32));
        prop_assert_eq!(Snippet::new("cvt.rn.f32.s32 %r0, %r1").run(&[bits]), f(bits as i32 as f32));
    }
}
