//! Comparisons and selections.

use super::snippet::{Snippet, check};

const ONE: u64 = 0x3f80_0000;
const TWO: u64 = 0x4000_0000;
const NAN: u64 = 0x7fc0_0001;
const TINY: u64 = 1;

/// Each operator with operands less, equal, greater and unordered.
#[test]
fn every_operator_of_floats() {
    let operators = [
        ("eq", [0, 1, 0, 0]),
        ("ne", [1, 0, 1, 0]),
        ("lt", [1, 0, 0, 0]),
        ("le", [1, 1, 0, 0]),
        ("gt", [0, 0, 1, 0]),
        ("ge", [0, 1, 1, 0]),
        ("equ", [0, 1, 0, 1]),
        ("neu", [1, 0, 1, 1]),
        ("ltu", [1, 0, 0, 1]),
        ("leu", [1, 1, 0, 1]),
        ("gtu", [0, 0, 1, 1]),
        ("geu", [0, 1, 1, 1]),
        ("num", [1, 1, 1, 0]),
        ("nan", [0, 0, 0, 1]),
    ];
    // The type, its register, and 1, 2 and a NaN in it.
    let types = [
        ("f32", "%r", [ONE, TWO, NAN]),
        ("f64", "%d", [1f64.to_bits(), 2f64.to_bits(), f64::NAN.to_bits()]),
        ("f16", "%h", [0x3c00, 0x4000, 0x7e01]),
        ("bf16", "%h", [0x3f80, 0x4000, 0x7fc1]),
    ];
    for (operator, expected) in operators {
        for (ty, register, [one, two, nan]) in types {
            let snippet = Snippet::new(&format!("setp.{operator}.{ty} %p0, {register}1, {register}2"));
            for ((a, b), expected) in
                [(one, two), (one, one), (two, one), (nan, one)].into_iter().zip(expected)
            {
                assert_eq!(snippet.run(&[a, b]), expected, "{operator} {ty} {a:#x} {b:#x}");
            }
        }
    }
}

#[test]
fn every_operator_of_integers() {
    let operators = [
        ("eq", [0, 1, 0]),
        ("ne", [1, 0, 1]),
        ("lt", [1, 0, 0]),
        ("le", [1, 1, 0]),
        ("gt", [0, 0, 1]),
        ("ge", [0, 1, 1]),
    ];
    for (bits, register) in [(16, "%h"), (32, "%r"), (64, "%d")] {
        let minus_one = u64::MAX >> (64 - bits);
        for (operator, expected) in operators {
            let text = |sign| format!("setp.{operator}.{sign}{bits} %p0, {register}1, {register}2");
            let (signed, unsigned) = (Snippet::new(&text("s")), Snippet::new(&text("u")));
            for ((a, b), expected) in [(minus_one, 1), (1, 1), (1, minus_one)].into_iter().zip(expected) {
                assert_eq!(signed.run(&[a, b]), expected, "{operator} s{bits}");
                assert_eq!(unsigned.run(&[b, a]), expected, "{operator} u{bits}");
            }
        }
    }
    check(&[
        ("setp.lo.u32 %p0, %r1, %r2", &[1, 2], 1),
        ("setp.hs.u32 %p0, %r1, %r2", &[1, 2], 0),
        ("setp.eq.b64 %p0, %d1, 7", &[7], 1),
        ("setp.ne.b16 %p0, %h1, -1", &[0xffff], 0),
    ]);
}

#[test]
fn combined_and_flushed() {
    check(&[
        ("setp.lt.and.s32 %p0, %r1, %r2, %p3", &[1, 2, 0], 0),
        ("setp.lt.and.s32 %p0, %r1, %r2, !%p3", &[1, 2, 0], 1),
        ("setp.lt.or.s32 %p0, %r1, %r2, %p3", &[3, 2, 1], 1),
        ("setp.lt.xor.s32 %p0, %r1, %r2, %p3", &[1, 2, 1], 0),
        ("mov.pred %p0, 0; setp.lt.s32 %p4|%p0, %r1, %r2", &[0, 1, 2], 0),
        ("mov.pred %p0, 0; setp.lt.s32 _|%p0, %r1, %r2", &[3, 2], 1),
        ("mov.pred %p0, 0; setp.lt.and.s32 _|%p0, %r1, %r2, %p3", &[3, 2, 0], 0),
        ("setp.gt.f32 %p0, %r1, 0f00000000", &[TINY], 1),
        ("setp.gt.ftz.f32 %p0, %r1, 0f00000000", &[TINY], 0),
        ("set.lt.u32.s32 %r0, %r1, %r2", &[1, 2], 0xffff_ffff),
        ("set.lt.f32.f32 %r0, %r1, %r2", &[ONE, TWO], ONE),
        ("set.gt.f32.f32 %r0, %r1, %r2", &[ONE, TWO], 0),
        ("selp.b32 %r0, %r1, %r2, %p3", &[5, 6, 1], 5),
        ("selp.f64 %d0, %d1, 0d4000000000000000, %p3", &[5, 0], 0x4000_0000_0000_0000),
        ("slct.b32.s32 %r0, %r1, %r2, %r3", &[5, 6, 0], 5),
        ("slct.b32.s32 %r0, %r1, %r2, %r3", &[5, 6, 0xffff_ffff], 6),
        ("slct.u64.f32 %d0, %d1, %d2, %r3", &[5, 6, 0x8000_0000], 5),
        ("slct.u64.f32 %d0, %d1, %d2, %r3", &[5, 6, NAN], 6),
        ("mov.b32 %r0, 1; @%p1 mov.b32 %r0, 2", &[1], 2),
        ("mov.b32 %r0, 1; @!%p1 mov.b32 %r0, 2", &[1], 1),
    ]);
}
