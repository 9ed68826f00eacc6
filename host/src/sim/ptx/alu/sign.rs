//! `copysign` and `testp` (PTX ISA 9.7.3).

use super::format::{F32, F64, Format, Value};
use crate::sim::ptx::instruction::{BinaryFn, UnaryFn};
use crate::sim::ptx::types::Type;

/// The sign of `a` with the magnitude of `b`.
fn copy(format: &Format, a: u64, b: u64) -> u64 {
    (a & format.sign()) | (b & (format.sign() - 1))
}

/// The function of `copysign`.
pub(crate) fn copysign(ty: Type) -> Option<BinaryFn> {
    match ty {
        Type::F32 => Some(|a, b| copy(&F32, a, b)),
        Type::F64 => Some(|a, b| copy(&F64, a, b)),
        _ => None,
    }
}

/// What `testp` asks. Zero is neither normal nor subnormal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// The modifiers of `testp`.
pub(crate) const CLASSES: [(&str, Class); 6] = [
    ("finite", Class::Finite),
    ("infinite", Class::Infinite),
    ("number", Class::Number),
    ("notanumber", Class::NotANumber),
    ("normal", Class::Normal),
    ("subnormal", Class::Subnormal),
];

fn is(format: &Format, class: Class, a: u64) -> u64 {
    let value = format.unpack(a);
    let is_finite = matches!(value, Value::Finite { .. });
    let magnitude = a & (format.sign() - 1);
    u64::from(match class {
        Class::Finite => is_finite,
        Class::Infinite => matches!(value, Value::Infinite { .. }),
        Class::Number => value != Value::Nan,
        Class::NotANumber => value == Value::Nan,
        Class::Normal => is_finite && magnitude >= format.min_normal(),
        Class::Subnormal => magnitude != 0 && magnitude < format.min_normal(),
    })
}

/// The function of `testp`.
pub(crate) fn test(class: Class, ty: Type) -> Option<UnaryFn> {
    Some(match (class, ty) {
        (Class::Finite, Type::F32) => |a| is(&F32, Class::Finite, a),
        (Class::Infinite, Type::F32) => |a| is(&F32, Class::Infinite, a),
        (Class::Number, Type::F32) => |a| is(&F32, Class::Number, a),
        (Class::NotANumber, Type::F32) => |a| is(&F32, Class::NotANumber, a),
        (Class::Normal, Type::F32) => |a| is(&F32, Class::Normal, a),
        (Class::Subnormal, Type::F32) => |a| is(&F32, Class::Subnormal, a),
        (Class::Finite, Type::F64) => |a| is(&F64, Class::Finite, a),
        (Class::Infinite, Type::F64) => |a| is(&F64, Class::Infinite, a),
        (Class::Number, Type::F64) => |a| is(&F64, Class::Number, a),
        (Class::NotANumber, Type::F64) => |a| is(&F64, Class::NotANumber, a),
        (Class::Normal, Type::F64) => |a| is(&F64, Class::Normal, a),
        (Class::Subnormal, Type::F64) => |a| is(&F64, Class::Subnormal, a),
        _ => return None,
    })
}
