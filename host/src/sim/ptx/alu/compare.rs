//! Comparisons of `setp`, `set` and `slct` (PTX ISA 9.7.6).

use super::by_type;
use super::format::{BF16, F16, F32, F64, Format, Rounding};
use super::integer::Integer;
use crate::sim::ptx::instruction::CompareFn;
use crate::sim::ptx::types::Type;
use std::cmp::Ordering;

/// A floating-point type as it is compared.
trait Comparable {
    fn order(a: u64, b: u64) -> Option<Ordering>;
}

struct Binary32;
struct Binary32Flushed;
struct Binary64;
struct Binary16;
struct Brain16;

fn small_to_f64(format: &Format, bits: u64) -> f64 {
    f64::from_bits(F64.round(format.unpack(bits & 0xffff), Rounding::Nearest))
}

impl Comparable for Binary32 {
    fn order(a: u64, b: u64) -> Option<Ordering> {
        f32::from_bits(a as u32).partial_cmp(&f32::from_bits(b as u32))
    }
}

impl Comparable for Binary32Flushed {
    fn order(a: u64, b: u64) -> Option<Ordering> {
        Binary32::order(F32.flush(a), F32.flush(b))
    }
}

impl Comparable for Binary64 {
    fn order(a: u64, b: u64) -> Option<Ordering> {
        f64::from_bits(a).partial_cmp(&f64::from_bits(b))
    }
}

impl Comparable for Binary16 {
    fn order(a: u64, b: u64) -> Option<Ordering> {
        small_to_f64(&F16, a).partial_cmp(&small_to_f64(&F16, b))
    }
}

impl Comparable for Brain16 {
    fn order(a: u64, b: u64) -> Option<Ordering> {
        small_to_f64(&BF16, a).partial_cmp(&small_to_f64(&BF16, b))
    }
}

fn eq<T: Integer>(a: u64, b: u64) -> bool {
    T::of(a) == T::of(b)
}

fn ne<T: Integer>(a: u64, b: u64) -> bool {
    T::of(a) != T::of(b)
}

fn lt<T: Integer>(a: u64, b: u64) -> bool {
    T::of(a) < T::of(b)
}

fn le<T: Integer>(a: u64, b: u64) -> bool {
    T::of(a) <= T::of(b)
}

fn gt<T: Integer>(a: u64, b: u64) -> bool {
    T::of(a) > T::of(b)
}

fn ge<T: Integer>(a: u64, b: u64) -> bool {
    T::of(a) >= T::of(b)
}

fn eq_float<T: Comparable>(a: u64, b: u64) -> bool {
    T::order(a, b) == Some(Ordering::Equal)
}

fn ne_float<T: Comparable>(a: u64, b: u64) -> bool {
    matches!(T::order(a, b), Some(Ordering::Less | Ordering::Greater))
}

fn lt_float<T: Comparable>(a: u64, b: u64) -> bool {
    T::order(a, b) == Some(Ordering::Less)
}

fn le_float<T: Comparable>(a: u64, b: u64) -> bool {
    matches!(T::order(a, b), Some(Ordering::Less | Ordering::Equal))
}

fn gt_float<T: Comparable>(a: u64, b: u64) -> bool {
    T::order(a, b) == Some(Ordering::Greater)
}

fn ge_float<T: Comparable>(a: u64, b: u64) -> bool {
    matches!(T::order(a, b), Some(Ordering::Greater | Ordering::Equal))
}

fn equ_float<T: Comparable>(a: u64, b: u64) -> bool {
    !ne_float::<T>(a, b)
}

fn neu_float<T: Comparable>(a: u64, b: u64) -> bool {
    !eq_float::<T>(a, b)
}

fn ltu_float<T: Comparable>(a: u64, b: u64) -> bool {
    !ge_float::<T>(a, b)
}

fn leu_float<T: Comparable>(a: u64, b: u64) -> bool {
    !gt_float::<T>(a, b)
}

fn gtu_float<T: Comparable>(a: u64, b: u64) -> bool {
    !le_float::<T>(a, b)
}

fn geu_float<T: Comparable>(a: u64, b: u64) -> bool {
    !lt_float::<T>(a, b)
}

fn num_float<T: Comparable>(a: u64, b: u64) -> bool {
    T::order(a, b).is_some()
}

fn nan_float<T: Comparable>(a: u64, b: u64) -> bool {
    T::order(a, b).is_none()
}

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `.lo`, `.ls`, `.hi`, `.hs`: unsigned, whatever the type says.
    Lo,
    Ls,
    Hi,
    Hs,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// The modifiers that name a comparison.
pub(crate) const COMPARISONS: [(&str, Comparison); 18] = [
    ("eq", Comparison::Eq),
    ("ne", Comparison::Ne),
    ("lt", Comparison::Lt),
    ("le", Comparison::Le),
    ("gt", Comparison::Gt),
    ("ge", Comparison::Ge),
    ("lo", Comparison::Lo),
    ("ls", Comparison::Ls),
    ("hi", Comparison::Hi),
    ("hs", Comparison::Hs),
    ("equ", Comparison::Equ),
    ("neu", Comparison::Neu),
    ("ltu", Comparison::Ltu),
    ("leu", Comparison::Leu),
    ("gtu", Comparison::Gtu),
    ("geu", Comparison::Geu),
    ("num", Comparison::Num),
    ("nan", Comparison::Nan),
];

macro_rules! any_integer {
    ($ty:expr, $function:ident) => {
        by_type!($ty, $function, [U16 => u16, U32 => u32, U64 => u64, S16 => i16, S32 => i32, S64 => i64])
    };
}

macro_rules! any_bits {
    ($ty:expr, $function:ident) => {
        by_type!($ty, $function, [
            B16 => u16, B32 => u32, B64 => u64, U16 => u16, U32 => u32, U64 => u64, S16 => i16, S32 => i32, S64 => i64,
        ])
    };
}

macro_rules! unsigned {
    ($ty:expr, $function:ident) => {
        by_type!($ty, $function, [U16 => u16, U32 => u32, U64 => u64])
    };
}

macro_rules! any_float {
    ($ty:expr, $flush:expr, $function:ident) => {
        match ($ty, $flush) {
            (Type::F32, false) => Some($function::<Binary32> as CompareFn),
            (Type::F32, true) => Some($function::<Binary32Flushed> as CompareFn),
            (Type::F64, false) => Some($function::<Binary64> as CompareFn),
            (Type::F16, false) => Some($function::<Binary16> as CompareFn),
            (Type::Bf16, false) => Some($function::<Brain16> as CompareFn),
            _ => None,
        }
    };
}

/// The function of a comparison; `flush` is `.ftz`.
pub(crate) fn comparison(operator: Comparison, ty: Type, flush: bool) -> Option<CompareFn> {
    if ty.is_float() {
        return float_comparison(operator, ty, flush);
    }
    match (operator, flush) {
        (Comparison::Eq, false) => any_bits!(ty, eq),
        (Comparison::Ne, false) => any_bits!(ty, ne),
        (Comparison::Lt, false) => any_integer!(ty, lt),
        (Comparison::Le, false) => any_integer!(ty, le),
        (Comparison::Gt, false) => any_integer!(ty, gt),
        (Comparison::Ge, false) => any_integer!(ty, ge),
        (Comparison::Lo, false) => unsigned!(ty, lt),
        (Comparison::Ls, false) => unsigned!(ty, le),
        (Comparison::Hi, false) => unsigned!(ty, gt),
        (Comparison::Hs, false) => unsigned!(ty, ge),
        _ => None,
    }
}

fn float_comparison(operator: Comparison, ty: Type, flush: bool) -> Option<CompareFn> {
    match operator {
        Comparison::Eq => any_float!(ty, flush, eq_float),
        Comparison::Ne => any_float!(ty, flush, ne_float),
        Comparison::Lt => any_float!(ty, flush, lt_float),
        Comparison::Le => any_float!(ty, flush, le_float),
        Comparison::Gt => any_float!(ty, flush, gt_float),
        Comparison::Ge => any_float!(ty, flush, ge_float),
        Comparison::Equ => any_float!(ty, flush, equ_float),
        Comparison::Neu => any_float!(ty, flush, neu_float),
        Comparison::Ltu => any_float!(ty, flush, ltu_float),
        Comparison::Leu => any_float!(ty, flush, leu_float),
        Comparison::Gtu => any_float!(ty, flush, gtu_float),
        Comparison::Geu => any_float!(ty, flush, geu_float),
        Comparison::Num => any_float!(ty, flush, num_float),
        Comparison::Nan => any_float!(ty, flush, nan_float),
        Comparison::Lo | Comparison::Ls | Comparison::Hi | Comparison::Hs => None,
    }
}
