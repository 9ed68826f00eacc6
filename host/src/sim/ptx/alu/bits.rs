//! Logic, shifts and bit fields (PTX ISA 9.7.1, 9.7.8).

use super::by_type;
use super::integer::Integer;
use crate::sim::ptx::instruction::{BinaryFn, TernaryFn, UnaryFn};
use crate::sim::ptx::types::Type;

fn and(a: u64, b: u64) -> u64 {
    a & b
}

fn or(a: u64, b: u64) -> u64 {
    a | b
}

fn xor(a: u64, b: u64) -> u64 {
    a ^ b
}

fn not<T: Integer>(a: u64) -> u64 {
    T::of(!a).bits()
}

fn not_predicate(a: u64) -> u64 {
    a ^ 1
}

fn cnot<T: Integer>(a: u64) -> u64 {
    u64::from(T::of(a).bits() == 0)
}

/// Shift amounts are unsigned 32-bit values; amounts of the width or more give 0.
fn shl<T: Integer>(a: u64, b: u64) -> u64 {
    let amount = b as u32;
    if amount >= T::BITS { 0 } else { T::of(a << amount).bits() }
}

/// Amounts of the width or more fill with the sign bit, or with 0.
fn shr<T: Integer>(a: u64, b: u64) -> u64 {
    T::wrap(T::of(a).wide() >> (b as u32).min(T::BITS)).bits()
}

fn popc<T: Integer>(a: u64) -> u64 {
    T::of(a).bits().count_ones().into()
}

fn clz<T: Integer>(a: u64) -> u64 {
    u64::from(T::of(a).bits().leading_zeros() - (64 - T::BITS))
}

fn brev<T: Integer>(a: u64) -> u64 {
    T::of(a).bits().reverse_bits() >> (64 - T::BITS)
}

/// Position of the most significant bit that differs from the sign; all ones if there is none.
fn bfind<T: Integer>(a: u64) -> u64 {
    let value = T::of(a).wide();
    let value = if value < 0 { !value } else { value };
    match value {
        0 => u64::from(u32::MAX),
        _ => u64::from(127 - value.leading_zeros()),
    }
}

/// As [`bfind`], but the shift that would bring the bit to the top.
fn bfind_shift<T: Integer>(a: u64) -> u64 {
    match bfind::<T>(a) as u32 {
        u32::MAX => u64::from(u32::MAX),
        position => u64::from(T::BITS - 1 - position),
    }
}

/// Bits from the low 8 of `b`, as many as the low 8 of `c` say; past the top comes the sign.
fn bfe<T: Integer>(a: u64, b: u64, c: u64) -> u64 {
    let (start, len) = (b as u32 & 0xff, c as u32 & 0xff);
    if len == 0 {
        return 0;
    }
    let field = T::of(a).wide() >> start.min(T::BITS);
    if len >= T::BITS {
        return T::wrap(field).bits();
    }
    let is_signed = T::MIN.wide() < 0;
    let unsigned = field & ((1 << len) - 1);
    let is_negative = is_signed && unsigned >> (len - 1) == 1;
    T::wrap(if is_negative { unsigned - (1 << len) } else { unsigned }).bits()
}

/// `bfi`: puts the low bits of `a` into `b`.
fn bfi<T: Integer>([a, b, c, d]: [u64; 4]) -> u64 {
    let (start, len) = (c as u32 & 0xff, d as u32 & 0xff);
    if start >= T::BITS {
        return T::of(b).bits();
    }
    let field = (1u128 << len.min(T::BITS)) - 1;
    let mask = (field << start) as u64;
    let inserted = (u128::from(a) & field) << start;
    T::of((b & !mask) | (inserted as u64 & mask)).bits()
}

fn lop3([a, b, c, table]: [u64; 4]) -> u64 {
    (0..32).fold(0, |result, bit| {
        let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
        result | (table >> index & 1) << bit
    })
}

/// `fns`: position of the n-th set bit from `base` on; up where n is positive, down where it is negative.
fn fns(mask: u64, base: u64, offset: u64) -> u64 {
    let (mask, base, offset) = (mask as u32, base as u32, offset as i32);
    let none = u64::from(u32::MAX);
    let mut left = offset.unsigned_abs().max(1);
    let mut position = i64::from(base & 31);
    let step = if offset < 0 { -1 } else { 1 };
    if offset == 0 && mask >> position & 1 == 0 {
        return none;
    }
    while (0..32).contains(&position) {
        left -= mask >> position & 1;
        if left == 0 {
            return position as u64;
        }
        position += step;
    }
    none
}

fn funnel(a: u64, b: u64) -> u64 {
    (b & 0xffff_ffff) << 32 | (a & 0xffff_ffff)
}

fn shf_left_clamp(a: u64, b: u64, c: u64) -> u64 {
    funnel(a, b) << (c as u32).min(32) >> 32
}

fn shf_left_wrap(a: u64, b: u64, c: u64) -> u64 {
    funnel(a, b) << (c as u32 & 31) >> 32
}

fn shf_right_clamp(a: u64, b: u64, c: u64) -> u64 {
    funnel(a, b) >> (c as u32).min(32) & 0xffff_ffff
}

fn shf_right_wrap(a: u64, b: u64, c: u64) -> u64 {
    funnel(a, b) >> (c as u32 & 31) & 0xffff_ffff
}

/// `prmt` without a mode: each nibble of `c` picks a byte, or that byte's sign repeated.
fn prmt(a: u64, b: u64, c: u64) -> u64 {
    pick_bytes(a, b, std::array::from_fn(|i| c >> (4 * i)))
}

fn prmt_f4e(a: u64, b: u64, c: u64) -> u64 {
    pick_bytes(a, b, std::array::from_fn(|i| (c & 3) + i as u64))
}

fn prmt_b4e(a: u64, b: u64, c: u64) -> u64 {
    pick_bytes(a, b, std::array::from_fn(|i| ((c & 3).wrapping_sub(i as u64)) & 7))
}

fn prmt_rc8(a: u64, b: u64, c: u64) -> u64 {
    pick_bytes(a, b, [c & 3; 4])
}

fn prmt_ecl(a: u64, b: u64, c: u64) -> u64 {
    pick_bytes(a, b, std::array::from_fn(|i| (i as u64).max(c & 3)))
}

fn prmt_ecr(a: u64, b: u64, c: u64) -> u64 {
    pick_bytes(a, b, std::array::from_fn(|i| (i as u64).min(c & 3)))
}

fn prmt_rc16(a: u64, b: u64, c: u64) -> u64 {
    let half = (c & 1) * 2;
    pick_bytes(a, b, [half, half + 1, half, half + 1])
}

fn pick_bytes(a: u64, b: u64, selectors: [u64; 4]) -> u64 {
    let bytes = funnel(a, b).to_le_bytes();
    selectors.iter().rev().fold(0, |result, selector| {
        let byte = bytes[(selector & 7) as usize];
        let byte = if selector & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        result << 8 | u64::from(byte)
    })
}

macro_rules! any_bits {
    ($ty:expr, $function:ident) => {
        by_type!($ty, $function, [B16 => u16, B32 => u32, B64 => u64])
    };
}

/// The function of a one-operand instruction; `shift_amount` is `.shiftamt` of `bfind`.
pub(crate) fn unary(opcode: &str, ty: Type, shift_amount: bool) -> Option<UnaryFn> {
    match (opcode, shift_amount) {
        ("not", false) if ty == Type::Pred => Some(not_predicate),
        ("not", false) => any_bits!(ty, not),
        ("cnot", false) => any_bits!(ty, cnot),
        ("popc", false) => by_type!(ty, popc, [B32 => u32, B64 => u64]),
        ("clz", false) => by_type!(ty, clz, [B32 => u32, B64 => u64]),
        ("brev", false) => by_type!(ty, brev, [B32 => u32, B64 => u64]),
        ("bfind", false) => by_type!(ty, bfind, [U32 => u32, U64 => u64, S32 => i32, S64 => i64]),
        ("bfind", true) => by_type!(ty, bfind_shift, [U32 => u32, U64 => u64, S32 => i32, S64 => i64]),
        _ => None,
    }
}

/// The function of `and`, `or`, `xor`.
pub(crate) fn logic(opcode: &str, ty: Type) -> Option<BinaryFn> {
    if !matches!(ty, Type::Pred | Type::B16 | Type::B32 | Type::B64) {
        return None;
    }
    match opcode {
        "and" => Some(and),
        "or" => Some(or),
        "xor" => Some(xor),
        _ => None,
    }
}

/// The function of `shl` or `shr`.
pub(crate) fn shift(opcode: &str, ty: Type) -> Option<BinaryFn> {
    match opcode {
        "shl" => any_bits!(ty, shl),
        "shr" => by_type!(ty, shr, [
            B16 => u16, B32 => u32, B64 => u64, U16 => u16, U32 => u32, U64 => u64, S16 => i16, S32 => i32, S64 => i64,
        ]),
        _ => None,
    }
}

/// The function of `shf`; `wrap` else clamp.
pub(crate) fn funnel_shift(left: bool, wrap: bool) -> TernaryFn {
    match (left, wrap) {
        (true, true) => shf_left_wrap,
        (true, false) => shf_left_clamp,
        (false, true) => shf_right_wrap,
        (false, false) => shf_right_clamp,
    }
}

/// The function of `bfe`.
pub(crate) fn extract(ty: Type) -> Option<TernaryFn> {
    by_type!(ty, bfe, [U32 => u32, U64 => u64, S32 => i32, S64 => i64])
}

/// The function of `bfi`.
pub(crate) fn insert(ty: Type) -> Option<fn([u64; 4]) -> u64> {
    by_type!(ty, bfi, [B32 => u32, B64 => u64])
}

/// The function of `lop3`.
pub(crate) const LOP3: fn([u64; 4]) -> u64 = lop3;
/// The function of `fns`.
pub(crate) const FNS: TernaryFn = fns;
/// The function of `prmt` without a mode.
pub(crate) const PRMT: TernaryFn = prmt;
/// The modes of `prmt`.
pub(crate) const PRMT_MODES: [(&str, TernaryFn); 6] = [
    ("f4e", prmt_f4e),
    ("b4e", prmt_b4e),
    ("rc8", prmt_rc8),
    ("ecl", prmt_ecl),
    ("ecr", prmt_ecr),
    ("rc16", prmt_rc16),
];
