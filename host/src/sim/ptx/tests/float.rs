//! f32 and f64 arithmetic: every rounding mode against exact error terms of the host's arithmetic.

use super::snippet::{Snippet, check};
use crate::sim::ptx::alu::float::{Clamp, FloatOp, Operation, evaluate};
use crate::sim::ptx::alu::format::Rounding;
use crate::sim::ptx::types::Type;
use proptest::prelude::*;

const NAN: u64 = 0x7fff_ffff;
const NAN64: u64 = 0xfff8_0000_0000_0000;
const INFINITY: u64 = 0x7f80_0000;
const MAX: u64 = 0x7f7f_ffff;
const MIN_NORMAL: u64 = 0x0080_0000;
const SIGN: u64 = 0x8000_0000;
const MODES: [(&str, Rounding); 4] =
    [("rn", Rounding::Nearest), ("rz", Rounding::Zero), ("rm", Rounding::Down), ("rp", Rounding::Up)];

fn f(value: f32) -> u64 {
    value.to_bits().into()
}

fn d(value: f64) -> u64 {
    value.to_bits()
}

#[test]
fn special_values() {
    check(&[
        ("add.f32 %r0, %r1, %r2", &[INFINITY, INFINITY | SIGN], NAN),
        ("add.rn.f32 %r0, %r1, %r2", &[0xffc1_2345, f(1.0)], NAN),
        ("add.rm.f32 %r0, %r1, %r2", &[f(1.0), f(-1.0)], SIGN),
        ("add.rn.f32 %r0, %r1, %r2", &[f(1.0), f(-1.0)], 0),
        ("add.rz.f32 %r0, %r1, %r2", &[SIGN, SIGN], SIGN),
        ("add.rz.f32 %r0, %r1, %r2", &[MAX, MAX], MAX),
        ("add.rp.f32 %r0, %r1, %r2", &[MAX, MAX], INFINITY),
        ("add.rp.f32 %r0, %r1, %r2", &[MAX | SIGN, MAX | SIGN], MAX | SIGN),
        ("add.rm.f32 %r0, %r1, %r2", &[MAX | SIGN, MAX | SIGN], INFINITY | SIGN),
        ("add.f64 %d0, %d1, %d2", &[d(f64::INFINITY), d(f64::NEG_INFINITY)], NAN64),
        ("mul.f32 %r0, %r1, 0f00000000", &[INFINITY], NAN),
        ("mul.f64 %d0, %d1, 0d0000000000000000", &[d(f64::INFINITY)], NAN64),
        ("div.rn.f32 %r0, %r1, %r2", &[f(1.0), SIGN], INFINITY | SIGN),
        ("div.rz.f32 %r0, %r1, %r2", &[f(0.0), SIGN], NAN),
        ("div.full.f32 %r0, %r1, %r2", &[f(1.0), f(4.0)], f(0.25)),
        ("div.approx.ftz.f32 %r0, %r1, %r2", &[f(1.0), f(4.0)], f(0.25)),
        ("fma.rn.f32 %r0, %r1, %r2, %r3", &[INFINITY, 0, f(1.0)], NAN),
        ("fma.rz.f32 %r0, %r1, %r2, %r3", &[INFINITY, f(1.0), INFINITY | SIGN], NAN),
        ("rcp.rn.f32 %r0, %r1", &[SIGN], INFINITY | SIGN),
        ("rcp.approx.ftz.f32 %r0, %r1", &[1], INFINITY),
        ("sqrt.rn.f32 %r0, %r1", &[f(-1.0)], NAN),
        ("sqrt.rn.f32 %r0, %r1", &[SIGN], SIGN),
        ("sqrt.rp.f64 %d0, %d1", &[d(2.0)], d(2f64.sqrt())),
        ("sqrt.rm.f64 %d0, %d1", &[d(2.0)], d(2f64.sqrt().next_down())),
        ("sqrt.approx.f32 %r0, %r1", &[f(9.0)], f(3.0)),
        ("rsqrt.approx.f32 %r0, %r1", &[f(16.0)], f(0.25)),
        ("rsqrt.approx.f32 %r0, %r1", &[SIGN], INFINITY | SIGN),
        ("rsqrt.approx.f64 %d0, %d1", &[d(0.25)], d(2.0)),
        ("ex2.approx.f32 %r0, %r1", &[f(-3.0)], f(0.125)),
        ("ex2.approx.ftz.f32 %r0, %r1", &[f(-140.0)], 0),
        ("lg2.approx.f32 %r0, %r1", &[f(1024.0)], f(10.0)),
        ("lg2.approx.f32 %r0, %r1", &[f(-1.0)], NAN),
        ("sin.approx.f32 %r0, %r1", &[SIGN], SIGN),
        ("cos.approx.f32 %r0, %r1", &[0], f(1.0)),
        ("tanh.approx.f32 %r0, %r1", &[INFINITY | SIGN], f(-1.0)),
        ("neg.f32 %r0, %r1", &[f(1.5)], f(-1.5)),
        ("neg.ftz.f32 %r0, %r1", &[5], SIGN),
        ("abs.f64 %d0, %d1", &[d(-2.5)], d(2.5)),
        ("abs.f32 %r0, %r1", &[0xffc0_0000], NAN),
    ]);
}

#[test]
fn minimum_and_maximum() {
    check(&[
        ("min.f32 %r0, %r1, %r2", &[NAN, f(2.0)], f(2.0)),
        ("max.f32 %r0, %r1, %r2", &[f(2.0), 0xff80_0001], f(2.0)),
        ("min.f32 %r0, %r1, %r2", &[0xffc0_0000, 0xff80_0001], NAN),
        ("min.NaN.f32 %r0, %r1, %r2", &[0xffc0_0000, f(2.0)], NAN),
        ("max.NaN.f32 %r0, %r1, %r2", &[f(3.0), f(2.0)], f(3.0)),
        ("min.f32 %r0, %r1, %r2", &[0, SIGN], SIGN),
        ("min.f32 %r0, %r1, %r2", &[SIGN, 0], SIGN),
        ("max.f32 %r0, %r1, %r2", &[SIGN, 0], 0),
        ("max.f32 %r0, %r1, %r2", &[0, SIGN], 0),
        ("max.ftz.f32 %r0, %r1, %r2", &[1, SIGN], 0),
        ("min.f64 %d0, %d1, %d2", &[d(-1.0), d(1.0)], d(-1.0)),
        ("max.xorsign.abs.f32 %r0, %r1, %r2", &[f(-3.0), f(2.0)], f(-3.0)),
        ("min.xorsign.abs.f32 %r0, %r1, %r2", &[f(-3.0), f(-2.0)], f(2.0)),
    ]);
}

#[test]
fn signs_and_classes() {
    check(&[
        ("copysign.f32 %r0, %r1, %r2", &[f(-1.0), f(3.0)], f(-3.0)),
        ("copysign.f32 %r0, %r1, %r2", &[f(1.0), 0xffc0_0001], 0x7fc0_0001),
        ("copysign.f64 %d0, %d1, %d2", &[d(1.0), d(-3.0)], d(3.0)),
    ]);
    // Each value with the classes that it is in.
    let values: [(u64, f64, &[&str]); 6] = [
        (f(-0.0), -0.0, &["finite", "number"]),
        (f(1.5), 1.5, &["finite", "number", "normal"]),
        (MIN_NORMAL, f64::MIN_POSITIVE, &["finite", "number", "normal"]),
        (MIN_NORMAL - 1, 5e-324, &["finite", "number", "subnormal"]),
        (INFINITY | SIGN, f64::NEG_INFINITY, &["infinite", "number"]),
        (0x7f80_0001, f64::NAN, &["notanumber"]),
    ];
    for class in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"] {
        for (single, double, classes) in values {
            let expected = u64::from(classes.contains(&class));
            assert_eq!(
                Snippet::new(&format!("testp.{class}.f32 %p0, %r1")).run(&[single]),
                expected,
                "{class}"
            );
            assert_eq!(
                Snippet::new(&format!("testp.{class}.f64 %p0, %d1")).run(&[d(double)]),
                expected,
                "{class}"
            );
        }
    }
}

#[test]
fn flushing_and_saturation() {
    check(&[
        ("add.ftz.f32 %r0, %r1, %r2", &[5, SIGN | 5], 0),
        ("add.ftz.f32 %r0, %r1, %r2", &[SIGN | 5, SIGN | 7], SIGN),
        ("add.ftz.f32 %r0, %r1, %r2", &[MIN_NORMAL + 1, SIGN | MIN_NORMAL], 0),
        ("add.f32 %r0, %r1, %r2", &[MIN_NORMAL + 1, SIGN | MIN_NORMAL], 1),
        ("mul.ftz.f32 %r0, %r1, %r2", &[MIN_NORMAL, f(-0.5)], SIGN),
        ("mul.rn.ftz.f32 %r0, %r1, %r2", &[5, f(4.0)], 0),
        ("fma.rn.ftz.f32 %r0, %r1, %r2, %r3", &[5, f(4.0), f(1.0)], f(1.0)),
        ("add.sat.f32 %r0, %r1, %r2", &[f(0.75), f(0.75)], f(1.0)),
        ("add.sat.f32 %r0, %r1, %r2", &[f(-0.75), f(0.5)], 0),
        ("add.sat.f32 %r0, %r1, %r2", &[NAN, f(0.5)], 0),
        ("mul.sat.f32 %r0, %r1, %r2", &[f(0.5), f(0.5)], f(0.25)),
        ("fma.rn.sat.f32 %r0, %r1, %r2, %r3", &[f(2.0), f(2.0), f(0.5)], f(1.0)),
    ]);
}

/// A sum in two parts: `high + low` is exact (Knuth's two-sum).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let high = a + b;
    let b_part = high - a;
    (high, (a - (high - b_part)) + (b - b_part))
}

/// The f32 that the exact value `high + low` rounds to.
fn round_pair(high: f64, low: f64, mode: Rounding) -> f32 {
    let candidate = high as f32;
    // Sign of (exact − candidate): the first difference is exact, candidate and high lie close together.
    let difference = |candidate: f32| (high - f64::from(candidate)) + low;
    let below = if difference(candidate) < 0.0 { candidate.next_down() } else { candidate };
    let above = if difference(candidate) > 0.0 { candidate.next_up() } else { candidate };
    match mode {
        Rounding::Down => below,
        Rounding::Up => above,
        Rounding::Zero => {
            if high < 0.0 {
                above
            } else {
                below
            }
        }
        // Ties cannot be seen in the high part alone.
        _ => {
            let (to_below, to_above) = (difference(below), -difference(above));
            let tie = to_below == to_above;
            let below_is_even = below.to_bits() & 1 == 0;
            if to_below < to_above || (tie && below_is_even) { below } else { above }
        }
    }
}

/// Ordinary f32 values with exponents near each other now and then, so that sums cancel and round.
fn ordinary() -> impl Strategy<Value = f32> {
    (any::<bool>(), 0u32..1 << 23, prop_oneof![100u32..150, 125u32..130], any::<bool>()).prop_map(
        |(negative, fraction, exponent, sparse)| {
            let fraction = if sparse { fraction & 0x70_0003 } else { fraction };
            f32::from_bits(u32::from(negative) << 31 | exponent << 23 | fraction)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn f32_rounds_in_every_mode(a in ordinary(), b in ordinary(), c in ordinary()) {
        let (x, y, z) = (f64::from(a), f64::from(b), f64::from(c));
        for (name, mode) in MODES {
            let run = |text: &str| {
                let text = text.replace("MODE", name);
                f32::from_bits(Snippet::new(&text).run(&[f(a), f(b), f(c)]) as u32)
            };
            let (high, low) = two_sum(x, y);
            prop_assume!(high != 0.0);
            prop_assert_eq!(run("add.MODE.f32 %r0, %r1, %r2"), round_pair(high, low, mode), "add {} {} {}", name, a, b);
            let (high, low) = two_sum(x, -y);
            prop_assume!(high != 0.0);
            prop_assert_eq!(run("sub.MODE.f32 %r0, %r1, %r2"), round_pair(high, low, mode), "sub {} {} {}", name, a, b);
            prop_assert_eq!(run("mul.MODE.f32 %r0, %r1, %r2"), round_pair(x * y, 0.0, mode), "mul {} {} {}", name, a, b);
            let (high, low) = two_sum(x * y, z);
            prop_assume!(high != 0.0);
            let found = run("fma.MODE.f32 %r0, %r1, %r2, %r3");
            prop_assert_eq!(found, round_pair(high, low, mode), "fma {} {} {} {}", name, a, b, c);
        }
    }

    /// The exact path against the host's, which is IEEE 754, to nearest.
    #[test]
    fn exact_arithmetic_equals_the_hosts(bits in any::<[u64; 3]>(), near in any::<bool>()) {
        // Any bit patterns, or exponents close together.
        let bits = if near { bits.map(|b| b & 0x800f_ffff_ffff_ffff | 0x3fd0_0000_0000_0000 | b & 7 << 52) } else { bits };
        let [a, b, c] = bits.map(f64::from_bits);
        let [x, y, z] = bits.map(|b| f32::from_bits((b >> 32) as u32 ^ b as u32));
        let cases = [
            (Operation::Add, a + b, x + y),
            (Operation::Sub, a - b, x - y),
            (Operation::Mul, a * b, x * y),
            (Operation::Div, a / b, x / y),
            (Operation::Fma, a.mul_add(b, c), x.mul_add(y, z)),
            (Operation::Sqrt, a.sqrt(), x.sqrt()),
            (Operation::Rcp, 1.0 / a, 1.0 / x),
        ];
        for (operation, double, single) in cases {
            let op = |ty| FloatOp {
                operation, ty, rounding: Rounding::Nearest, flush: false, clamp: Clamp::None,
                propagate_nan: false, xorsign: false,
            };
            let expected = if double.is_nan() { NAN64 } else { d(double) };
            prop_assert_eq!(evaluate(op(Type::F64), d(a), d(b), d(c)), expected, "{:?} {} {} {}", operation, a, b, c);
            let expected = if single.is_nan() { NAN } else { f(single) };
            prop_assert_eq!(evaluate(op(Type::F32), f(x), f(y), f(z)), expected, "{:?} {} {} {}", operation, x, y, z);
        }
    }

    /// Directed modes of f64 against the sign of the exact error of the result to nearest.
    #[test]
    fn f64_rounds_in_every_mode(a in 1e-20f64..1e20, b in 1e-20f64..1e20, negative: bool) {
        let a = if negative { -a } else { a };
        let product = a * b;
        let quotient = a / b;
        let (sum, sum_error) = two_sum(a, b);
        prop_assume!(sum != 0.0);
        let cases = [
            ("add", sum, sum_error),
            ("mul", product, a.mul_add(b, -product)),
            // The remainder has the sign of (exact − quotient), because b > 0.
            ("div", quotient, (-quotient).mul_add(b, a)),
        ];
        for (opcode, nearest, error) in cases {
            for (name, mode) in MODES {
                let down = mode == Rounding::Down || (mode == Rounding::Zero && nearest > 0.0);
                let up = mode == Rounding::Up || (mode == Rounding::Zero && nearest < 0.0);
                let expected = if down && error < 0.0 {
                    nearest.next_down()
                } else if up && error > 0.0 {
                    nearest.next_up()
                } else {
                    nearest
                };
                let found = Snippet::new(&format!("{opcode}.{name}.f64 %d0, %d1, %d2")).run(&[d(a), d(b)]);
                prop_assert_eq!(f64::from_bits(found), expected, "{} {} {} {}", opcode, name, a, b);
            }
        }
    }
}
