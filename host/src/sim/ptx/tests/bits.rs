//! Logic, shifts, bit fields.

use super::snippet::{Snippet, check};

const M32: u64 = 0xffff_ffff;

#[test]
fn logic_and_counts() {
    check(&[
        ("and.b32 %r0, %r1, %r2", &[0xff0f, 0x0fff], 0x0f0f),
        ("or.b16 %h0, %h1, %h2", &[0xf000, 0x000f], 0xf00f),
        ("xor.b64 %d0, %d1, -1", &[5], u64::MAX - 5),
        ("and.pred %p0, %p1, %p2", &[1, 0], 0),
        ("xor.pred %p0, %p1, %p2", &[1, 0], 1),
        ("not.pred %p0, %p1", &[1], 0),
        ("not.b16 %h0, %h1", &[0xff], 0xff00),
        ("not.b32 %r0, %r1", &[0], M32),
        ("cnot.b32 %r0, %r1", &[0], 1),
        ("cnot.b32 %r0, %r1", &[7], 0),
        ("popc.b64 %r0, %d1", &[u64::MAX], 64),
        ("popc.b32 %r0, %r1", &[0x8001], 2),
        ("clz.b32 %r0, %r1", &[1], 31),
        ("clz.b32 %r0, %r1", &[0], 32),
        ("clz.b64 %r0, %d1", &[0], 64),
        ("brev.b32 %r0, %r1", &[1], 0x8000_0000),
        ("brev.b64 %d0, %d1", &[2], 1 << 62),
        ("bfind.u32 %r0, %r1", &[0x10], 4),
        ("bfind.u32 %r0, %r1", &[0], M32),
        ("bfind.s32 %r0, %r1", &[M32], M32),
        ("bfind.s32 %r0, %r1", &[0xffff_ffef], 4),
        ("bfind.shiftamt.u32 %r0, %r1", &[0x10], 27),
        ("bfind.shiftamt.u64 %r0, %d1", &[1], 63),
        ("fns.b32 %r0, %r1, %r2, %r3", &[0b1010_1010, 0, 3], 5),
        ("fns.b32 %r0, %r1, %r2, %r3", &[0b1010_1010, 5, 0], 5),
        ("fns.b32 %r0, %r1, %r2, %r3", &[0b1010_1010, 4, 0], M32),
        ("fns.b32 %r0, %r1, %r2, %r3", &[0b1010_1010, 5, M32 - 1], 3),
        ("fns.b32 %r0, %r1, %r2, %r3", &[0b1010_1010, 0, 9], M32),
    ]);
}

#[test]
fn fields() {
    check(&[
        ("bfe.u32 %r0, %r1, %r2, %r3", &[0xabcd_1234, 8, 8], 0x12),
        ("bfe.s32 %r0, %r1, %r2, %r3", &[0xabcd_f234, 8, 8], 0xffff_fff2),
        ("bfe.u32 %r0, %r1, %r2, %r3", &[M32, 28, 8], 0xf),
        ("bfe.s32 %r0, %r1, %r2, %r3", &[0x8000_0000, 28, 8], 0xffff_fff8),
        ("bfe.s32 %r0, %r1, %r2, %r3", &[M32, 3, 0], 0),
        ("bfe.u32 %r0, %r1, %r2, %r3", &[M32, 40, 3], 0),
        ("bfe.s32 %r0, %r1, %r2, %r3", &[M32, 40, 3], M32),
        ("bfe.u64 %d0, %d1, %r2, %r3", &[u64::MAX, 0, 64], u64::MAX),
        ("bfe.s64 %d0, %d1, %r2, %r3", &[1 << 40, 40, 1], u64::MAX),
        ("bfi.b32 %r0, %r1, %r2, %r3, %r4", &[0xff, 0, 4, 8], 0xff0),
        ("bfi.b32 %r0, %r1, %r2, %r3, %r4", &[M32, 0x1234_5678, 28, 8], 0xf234_5678),
        ("bfi.b32 %r0, %r1, %r2, %r3, %r4", &[M32, 7, 32, 8], 7),
        ("bfi.b32 %r0, %r1, %r2, %r3, %r4", &[M32, 7, 4, 0], 7),
        ("bfi.b64 %d0, %d1, %d2, %r3, %r4", &[u64::MAX, 0, 0, 255], u64::MAX),
        ("lop3.b32 %r0, %r1, %r2, %r3, 0x96", &[0xff00, 0xf0f0, 0xcccc], 0xff00 ^ 0xf0f0 ^ 0xcccc),
        ("lop3.b32 %r0, %r1, %r2, %r3, 0x80", &[0xff00, 0xf0f0, 0xcccc], 0xff00 & 0xf0f0 & 0xcccc),
        ("lop3.b32 %r0, %r1, %r2, %r3, 0xca", &[0xff00, 0x1234, 0x5678], 0x1278),
        ("prmt.b32 %r0, %r1, %r2, %r3", &[0x3322_1100, 0x7766_5544, 0x7150], 0x7711_5500),
        ("prmt.b32 %r0, %r1, %r2, %r3", &[0x80, 0x7f, 0xc8c8], 0x00ff_00ff),
        ("prmt.b32.f4e %r0, %r1, %r2, %r3", &[0x3322_1100, 0x7766_5544, 1], 0x4433_2211),
        ("prmt.b32.b4e %r0, %r1, %r2, %r3", &[0x3322_1100, 0x7766_5544, 1], 0x6677_0011),
        ("prmt.b32.rc8 %r0, %r1, %r2, %r3", &[0x3322_1100, 0, 2], 0x2222_2222),
        ("prmt.b32.ecl %r0, %r1, %r2, %r3", &[0x3322_1100, 0, 2], 0x3322_2222),
        ("prmt.b32.ecr %r0, %r1, %r2, %r3", &[0x3322_1100, 0, 2], 0x2222_1100),
        ("prmt.b32.rc16 %r0, %r1, %r2, %r3", &[0x3322_1100, 0, 1], 0x3322_3322),
    ]);
}

/// Every amount up to past the width, and the largest ones: an amount is unsigned and clamps.
#[test]
fn shifts_clamp() {
    let amounts = || (0..=130u32).chain([0x8000_0000, u32::MAX - 63, u32::MAX]);
    for (bits, register) in [(16u32, "%h"), (32, "%r"), (64, "%d")] {
        let snippet = |opcode: &str| Snippet::new(&format!("{opcode}{bits} {register}0, {register}1, %r2"));
        let (left, right, signed) = (snippet("shl.b"), snippet("shr.u"), snippet("shr.s"));
        let mask = (1u128 << bits) - 1;
        for value in [0x8765_4321_fedc_9abcu64, 1, u64::MAX, 0x7fff_7fff_7fff_7fff] {
            let unsigned = u128::from(value) & mask;
            let negative = unsigned >> (bits - 1) == 1;
            let extended = unsigned as i128 - if negative { 1 << bits } else { 0 };
            for amount in amounts() {
                let inputs = [value, amount.into()];
                let clamped = amount.min(64);
                let expected = (unsigned << clamped) & mask;
                let expected = if amount >= bits { 0 } else { expected };
                assert_eq!(u128::from(left.run(&inputs)), expected, "shl.b{bits} {value:#x} {amount}");
                assert_eq!(
                    u128::from(right.run(&inputs)),
                    unsigned >> clamped,
                    "shr.u{bits} {value:#x} {amount}"
                );
                let expected = (extended >> clamped) as u128 & mask;
                assert_eq!(u128::from(signed.run(&inputs)), expected, "shr.s{bits} {value:#x} {amount}");
            }
        }
    }
}

#[test]
fn funnel_shifts_clamp_or_wrap() {
    let (low, high) = (0x89ab_cdefu64, 0x0123_4567u64);
    let whole = high << 32 | low;
    for amount in (0..70u32).chain([u32::MAX]) {
        for (mode, used) in [("clamp", amount.min(32)), ("wrap", amount & 31)] {
            let run = |side: &str| {
                Snippet::new(&format!("shf.{side}.{mode}.b32 %r0, %r1, %r2, %r3")).run(&[
                    low,
                    high,
                    amount.into(),
                ])
            };
            assert_eq!(run("l"), (u128::from(whole) << used >> 32) as u64 & M32, "l {mode} {amount}");
            assert_eq!(run("r"), whole >> used & M32, "r {mode} {amount}");
        }
    }
}
