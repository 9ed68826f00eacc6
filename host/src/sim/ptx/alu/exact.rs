//! Arithmetic on exact values, so that rounding happens once and in one place.
//!
//! Results are exact, or carry enough bits with the lowest one standing for the rest ("sticky") that every format and
//! rounding mode of [`super::format`] gives the correctly rounded result.

use super::format::{Rounding, Value};

/// Where operands are aligned: two bits stay free above for a carry.
const TOP_BIT: u32 = 125;

/// `a + b`. `rounding` decides the sign of a zero that comes from cancellation.
pub(crate) fn add(a: Value, b: Value, rounding: Rounding) -> Value {
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite { negative: x }, Value::Infinite { negative: y }) if x != y => Value::Nan,
        (Value::Infinite { .. }, _) => a,
        (_, Value::Infinite { .. }) => b,
        (
            Value::Finite { negative: a_negative, significand: a, exponent: a_exponent },
            Value::Finite { negative: b_negative, significand: b, exponent: b_exponent },
        ) => add_finite((a_negative, a, a_exponent), (b_negative, b, b_exponent), rounding),
    }
}

fn add_finite(a: (bool, u128, i32), b: (bool, u128, i32), rounding: Rounding) -> Value {
    if a.1 == 0 || b.1 == 0 {
        return add_zero(a, b, rounding);
    }
    let (a, b) = (normalize(a), normalize(b));
    let (large, small) = if (a.2, a.1) >= (b.2, b.1) { (a, b) } else { (b, a) };
    let aligned = shift_right_sticky(small.1, large.2.abs_diff(small.2));
    let significand = if large.0 == small.0 { large.1 + aligned } else { large.1 - aligned };
    let negative = if significand == 0 { rounding == Rounding::Down } else { large.0 };
    Value::Finite { negative, significand, exponent: large.2 }
}

fn add_zero(a: (bool, u128, i32), b: (bool, u128, i32), rounding: Rounding) -> Value {
    let (negative, significand, exponent) = match (a.1, b.1) {
        (0, 0) => (if a.0 == b.0 { a.0 } else { rounding == Rounding::Down }, 0, 0),
        (0, _) => b,
        _ => a,
    };
    Value::Finite { negative, significand, exponent }
}

/// `a · b`, exactly, for significands of up to 64 bits.
pub(crate) fn mul(a: Value, b: Value) -> Value {
    let negative = a.is_negative() != b.is_negative();
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite { .. }, other) | (other, Value::Infinite { .. }) => match other {
            Value::Finite { significand: 0, .. } => Value::Nan,
            _ => Value::Infinite { negative },
        },
        (
            Value::Finite { significand: x, exponent: x_exponent, .. },
            Value::Finite { significand: y, exponent: y_exponent, .. },
        ) => Value::Finite { negative, significand: x * y, exponent: x_exponent + y_exponent },
    }
}

/// `a · b + c` with one rounding.
pub(crate) fn fma(a: Value, b: Value, c: Value, rounding: Rounding) -> Value {
    add(mul(a, b), c, rounding)
}

/// `a / b`.
pub(crate) fn div(a: Value, b: Value) -> Value {
    let negative = a.is_negative() != b.is_negative();
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) | (Value::Infinite { .. }, Value::Infinite { .. }) => Value::Nan,
        (Value::Finite { significand: 0, .. }, Value::Finite { significand: 0, .. }) => Value::Nan,
        (Value::Infinite { .. }, _) | (_, Value::Finite { significand: 0, .. }) => {
            Value::Infinite { negative }
        }
        (_, Value::Infinite { .. }) | (Value::Finite { significand: 0, .. }, _) => {
            Value::Finite { negative, significand: 0, exponent: 0 }
        }
        (
            Value::Finite { significand: x, exponent: x_exponent, .. },
            Value::Finite { significand: y, exponent: y_exponent, .. },
        ) => {
            let (_, x, x_exponent) = normalize((false, x, x_exponent));
            let significand = (x / y) << 1 | u128::from(x % y != 0);
            Value::Finite { negative, significand, exponent: x_exponent - y_exponent - 1 }
        }
    }
}

/// The square root.
pub(crate) fn sqrt(a: Value) -> Value {
    match a {
        Value::Nan => Value::Nan,
        Value::Finite { significand: 0, .. } => a,
        _ if a.is_negative() => Value::Nan,
        Value::Infinite { .. } => a,
        Value::Finite { significand, exponent, .. } => {
            let (_, significand, exponent) = normalize((false, significand, exponent));
            let (significand, exponent) =
                if exponent % 2 == 0 { (significand, exponent) } else { (significand << 1, exponent - 1) };
            let root = significand.isqrt();
            let sticky = u128::from(root * root != significand);
            Value::Finite { negative: false, significand: root << 1 | sticky, exponent: exponent / 2 - 1 }
        }
    }
}

/// Moves the highest bit to [`TOP_BIT`]. A significand of a product (up to 106 bits) fits.
fn normalize((negative, significand, exponent): (bool, u128, i32)) -> (bool, u128, i32) {
    let up = significand.leading_zeros() as i32 - (127 - TOP_BIT as i32);
    let moved = if up >= 0 { significand << up } else { shift_right_sticky(significand, up.unsigned_abs()) };
    (negative, moved, exponent - up)
}

fn shift_right_sticky(significand: u128, amount: u32) -> u128 {
    if amount >= 128 {
        return u128::from(significand != 0);
    }
    let kept = significand >> amount;
    kept | u128::from(kept << amount != significand)
}
