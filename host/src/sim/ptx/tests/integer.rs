//! Integer arithmetic.

use super::snippet::{Snippet, check};
use proptest::prelude::*;

const MINUS: u64 = u64::MAX;
const M32: u64 = 0xffff_ffff;

#[test]
fn arithmetic() {
    check(&[
        ("add.s32 %r0, %r1, %r2", &[M32, 2], 1),
        ("add.u16 %h0, %h1, %h2", &[0xffff, 3], 2),
        ("add.s64 %d0, %d1, -5", &[3], MINUS - 1),
        ("add.sat.s32 %r0, %r1, %r2", &[0x7fff_ffff, 1], 0x7fff_ffff),
        ("sub.sat.s32 %r0, %r1, %r2", &[0x8000_0000, 1], 0x8000_0000),
        ("sub.s32 %r0, %r1, %r2", &[3, 5], M32 - 1),
        ("sub.u64 %d0, %d1, %d2", &[3, 5], MINUS - 1),
        ("mul.lo.s32 %r0, %r1, %r2", &[0x1_0001, 0x1_0001], 0x2_0001),
        ("mul.hi.u32 %r0, %r1, %r2", &[M32, M32], M32 - 1),
        ("mul.hi.s32 %r0, %r1, %r2", &[M32, M32], 0),
        ("mul.hi.u64 %d0, %d1, %d2", &[MINUS, MINUS], MINUS - 1),
        ("mul.hi.s64 %d0, %d1, %d2", &[MINUS, 2], MINUS),
        ("mul.hi.s16 %h0, %h1, %h2", &[0xffff, 2], 0xffff),
        ("mul.wide.u32 %d0, %r1, %r2", &[M32, M32], 0xffff_fffe_0000_0001),
        ("mul.wide.s32 %d0, %r1, %r2", &[M32, 7], MINUS - 6),
        ("mul.wide.s16 %r0, %h1, %h2", &[0xffff, 7], M32 - 6),
        ("mul.wide.u16 %r0, %h1, 65535", &[0xffff], 0xfffe_0001),
        ("mul24.lo.u32 %r0, %r1, %r2", &[0xff00_0003, 5], 15),
        ("mul24.hi.s32 %r0, %r1, %r2", &[0x00ff_ffff, 0x1_0000], M32),
        ("mad.lo.s32 %r0, %r1, %r2, %r3", &[3, 5, M32], 14),
        ("mad.wide.s32 %d0, %r1, %r2, %d3", &[M32, 5, 6], 1),
        ("mad.wide.u16 %r0, %h1, %h2, %r3", &[0xffff, 0xffff, 0xffff_ffff], 0xfffe_0000),
        ("mad.hi.u64 %d0, %d1, %d2, %d3", &[MINUS, 3, 1], 3),
        ("mad.hi.sat.s32 %r0, %r1, %r2, %r3", &[0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff], 0x7fff_ffff),
        ("div.s32 %r0, %r1, %r2", &[M32 - 6, 2], M32 - 2),
        ("div.u32 %r0, %r1, %r2", &[M32 - 6, 2], 0x7fff_fffc),
        ("div.s32 %r0, %r1, %r2", &[0x8000_0000, M32], 0x8000_0000),
        ("div.u64 %d0, %d1, %d2", &[5, 0], MINUS),
        ("rem.s32 %r0, %r1, %r2", &[M32 - 6, 4], M32 - 2),
        ("rem.u64 %d0, %d1, %d2", &[23, 7], 2),
        ("rem.u32 %r0, %r1, 0", &[23], 23),
        ("neg.s32 %r0, %r1", &[5], M32 - 4),
        ("neg.s64 %d0, %d1", &[1 << 63], 1 << 63),
        ("abs.s32 %r0, %r1", &[M32], 1),
        ("abs.s16 %h0, %h1", &[0x8000], 0x8000),
        ("min.s32 %r0, %r1, %r2", &[M32, 1], M32),
        ("min.u32 %r0, %r1, %r2", &[M32, 1], 1),
        ("max.s64 %d0, %d1, %d2", &[MINUS, 1], 1),
        ("max.u16 %h0, %h1, %h2", &[0xffff, 1], 0xffff),
        ("sad.s32 %r0, %r1, %r2, %r3", &[M32, 4, 10], 15),
        ("sad.u32 %r0, %r1, %r2, %r3", &[M32, 0, 2], 1),
    ]);
}

#[test]
fn carries() {
    let sum = "{ .reg .b32 lo; add.cc.u32 lo, %r1, %r2; addc.u32 %r0, %r3, %r4; }";
    let difference = "{ .reg .b32 lo; sub.cc.u32 lo, %r1, %r2; subc.u32 %r0, %r3, %r4; }";
    // The result register must come first in the text.
    let text = |block: &str| format!("mov.b32 %r0, 0; {block}");
    let wide = "mov.b64 %d0, 0; add.cc.u64 %d5, %d1, %d2; addc.cc.u64 %d5, %d3, %d4; addc.u64 %d0, 0, 0";
    check(&[
        (&text(sum), &[M32, 1, 5, 6], 12),
        (&text(sum), &[M32 - 1, 1, 5, 6], 11),
        (&text(difference), &[0, 1, 5, 6], M32 - 1),
        (&text(difference), &[1, 1, 6, 6], 0),
        (wide, &[0, MINUS, 1, MINUS, 0], 1),
        (wide, &[0, MINUS, 0, MINUS, 0], 0),
    ]);
}

fn reference(opcode: &str, a: u128, b: u128) -> u128 {
    match opcode {
        "add" => a.wrapping_add(b),
        "sub" => a.wrapping_sub(b),
        "mul.lo" => a.wrapping_mul(b),
        "max" => a.max(b),
        _ => a.min(b),
    }
}

proptest! {
    #[test]
    fn unsigned_arithmetic_wraps_in_the_type(a: u64, b: u64) {
        for (bits, register) in [(16, "%h"), (32, "%r"), (64, "%d")] {
            let mask = (1u128 << bits) - 1;
            for opcode in ["add", "sub", "mul.lo", "min", "max"] {
                let text = format!("{opcode}.u{bits} {register}0, {register}1, {register}2");
                let expected = reference(opcode, u128::from(a) & mask, u128::from(b) & mask) & mask;
                prop_assert_eq!(u128::from(Snippet::new(&text).run(&[a, b])), expected, "{}", text);
            }
        }
    }

    #[test]
    fn products_have_two_halves(a: i64, b: i64) {
        let low = Snippet::new("mul.lo.s64 %d0, %d1, %d2").run(&[a as u64, b as u64]);
        let high = Snippet::new("mul.hi.s64 %d0, %d1, %d2").run(&[a as u64, b as u64]);
        prop_assert_eq!((i128::from(high as i64) << 64) | i128::from(low), i128::from(a) * i128::from(b));
        let high = Snippet::new("mul.hi.u64 %d0, %d1, %d2").run(&[a as u64, b as u64]);
        prop_assert_eq!((u128::from(high) << 64) | u128::from(low), u128::from(a as u64) * u128::from(b as u64));
    }
}
