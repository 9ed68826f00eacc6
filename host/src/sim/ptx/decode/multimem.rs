//! `multimem`: one address for the memory of several devices (PTX ISA 9.7.9.14; sm_90, PTX 8.1).
//!
//! What `ptxas` refuses is refused, with two exceptions that are refused here alone: `.v8`, and `.acc::f32` on `red`, which
//! the syntax of the PTX ISA does not give. The 8-bit floating-point types need sm_100.

use super::super::error::PtxResult;
use super::super::instruction::Instruction;
use super::super::types::Type;
use super::Decoder;
use super::memory::{SCOPES, words};
use crate::sim::interface::{
    ElementKind, MemoryAccess, MultimemOp, Order, Reduction, ReductionOp, Scope, Space,
};

const OPERATIONS: [(&str, ReductionOp); 6] = [
    ("add", ReductionOp::Add),
    ("min", ReductionOp::Min),
    ("max", ReductionOp::Max),
    ("and", ReductionOp::And),
    ("or", ReductionOp::Or),
    ("xor", ReductionOp::Xor),
];

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    if decoder.mnemonic.opcode != "multimem" {
        return Ok(false);
    }
    if decoder.mnemonic.take("ld_reduce") {
        load_reduce(decoder)
    } else if decoder.mnemonic.take("st") {
        store(decoder)
    } else if decoder.mnemonic.take("red") {
        reduce(decoder)
    } else {
        Ok(false)
    }
}

/// Order and scope, which come together or not at all.
fn take_order(
    decoder: &mut Decoder<'_, '_>,
    orders: &[(&str, Order)],
    default: (Order, Scope),
) -> PtxResult<(Order, Scope)> {
    let Some(order) = decoder.mnemonic.take_any(orders) else { return Ok(default) };
    let scope = decoder.mnemonic.take_any(&SCOPES);
    Ok((order, scope.ok_or_else(|| decoder.error("the order needs a scope: .cta, .cluster, .gpu or .sys"))?))
}

/// As [`take_order`], where `.weak` is allowed and is what an instruction without order is.
fn take_weak_or(decoder: &mut Decoder<'_, '_>, strong: (&str, Order)) -> PtxResult<(Order, Scope)> {
    let weak = (Order::Weak, Scope::None);
    if decoder.mnemonic.take("weak") {
        return Ok(weak);
    }
    take_order(decoder, &[("relaxed", Order::Relaxed), strong], weak)
}

fn load_reduce(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let order = take_weak_or(decoder, ("acquire", Order::Acquire))?;
    let is_wide = decoder.mnemonic.take("acc::f32");
    let (lanes, ty, reduction) = take_reduction(decoder, is_wide)?;
    decoder.expect_operands(2)?;
    let words = words(decoder, 0, lanes, ty, |decoder, operand, ty| decoder.destination_of(operand, ty))?;
    push(decoder, MultimemOp::LoadReduce(reduction), (order, lanes, ty), words, 1)
}

fn store(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let order = take_weak_or(decoder, ("release", Order::Release))?;
    let (lanes, ty) = take_shape(decoder)?;
    let is_stored = matches!(ty, Type::B32 | Type::B64) || ty.is_integer() && ty.bits() >= 32;
    if !(is_stored && lanes == 1 || is_float_shape(lanes, ty)) {
        return Err(decoder.mnemonic.unknown());
    }
    decoder.expect_operands(2)?;
    let words = words(decoder, 1, lanes, ty, |decoder, operand, ty| decoder.source_of(operand, ty))?;
    push(decoder, MultimemOp::Store, (order, lanes, ty), words, 0)
}

/// Without an order it is relaxed, at `.gpu` scope, as `red` is.
fn reduce(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let orders = [("relaxed", Order::Relaxed), ("release", Order::Release)];
    let order = take_order(decoder, &orders, (Order::Relaxed, Scope::Gpu))?;
    let (lanes, ty, reduction) = take_reduction(decoder, false)?;
    if is_float(ty) && reduction.op != ReductionOp::Add {
        return Err(decoder.mnemonic.unknown());
    }
    decoder.expect_operands(2)?;
    let words = words(decoder, 1, lanes, ty, |decoder, operand, ty| decoder.source_of(operand, ty))?;
    push(decoder, MultimemOp::Reduce(reduction), (order, lanes, ty), words, 0)
}

fn push(
    decoder: &mut Decoder<'_, '_>,
    op: MultimemOp,
    ((order, scope), lanes, ty): ((Order, Scope), u8, Type),
    words: [u16; 4],
    address_at: usize,
) -> PtxResult<bool> {
    let (address, offset) = decoder.address(address_at)?;
    let access = MemoryAccess { space: Space::Global, order, scope, width_bytes: ty.bytes() as u8, lanes };
    decoder.push(Instruction::Multimem { access, op, words, address, offset })
}

/// Elements and their type.
fn take_shape(decoder: &mut Decoder<'_, '_>) -> PtxResult<(u8, Type)> {
    decoder.mnemonic.take("global");
    let lanes = decoder.mnemonic.take_any(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
    Ok((lanes, decoder.mnemonic.take_type()?))
}

fn take_reduction(decoder: &mut Decoder<'_, '_>, is_wide: bool) -> PtxResult<(u8, Type, Reduction)> {
    let op = decoder.mnemonic.take_any(&OPERATIONS).ok_or_else(|| decoder.mnemonic.unknown())?;
    let (lanes, ty) = take_shape(decoder)?;
    let is_narrow = matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2);
    let fits = match op {
        ReductionOp::Add if is_float(ty) => is_float_shape(lanes, ty) && (is_narrow || !is_wide),
        ReductionOp::Min | ReductionOp::Max if is_narrow => is_float_shape(lanes, ty) && !is_wide,
        ReductionOp::Add => matches!(ty, Type::U32 | Type::S32 | Type::U64) && lanes == 1 && !is_wide,
        ReductionOp::Min | ReductionOp::Max => ty.is_integer() && ty.bits() >= 32 && lanes == 1 && !is_wide,
        _ => matches!(ty, Type::B32 | Type::B64) && lanes == 1 && !is_wide,
    };
    let element = element_kind(ty).filter(|_| fits).ok_or_else(|| decoder.mnemonic.unknown())?;
    Ok((lanes, ty, Reduction { op, element, is_wide }))
}

fn is_float(ty: Type) -> bool {
    ty.is_float() || matches!(ty, Type::F16x2 | Type::Bf16x2)
}

/// 32, 64 or 128 bits in all; f64 is never a vector.
fn is_float_shape(lanes: u8, ty: Type) -> bool {
    match ty {
        Type::F16x2 | Type::Bf16x2 | Type::F32 => true,
        Type::F16 | Type::Bf16 => lanes > 1,
        Type::F64 => lanes == 1,
        _ => false,
    }
}

fn element_kind(ty: Type) -> Option<ElementKind> {
    Some(match ty {
        Type::B32 | Type::B64 | Type::U32 | Type::U64 => ElementKind::Unsigned,
        Type::S32 | Type::S64 => ElementKind::Signed,
        Type::F16 | Type::F16x2 => ElementKind::F16,
        Type::Bf16 | Type::Bf16x2 => ElementKind::Bf16,
        Type::F32 => ElementKind::F32,
        Type::F64 => ElementKind::F64,
        _ => return None,
    })
}
