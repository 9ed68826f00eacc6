//! Comparisons and selections.

use super::super::alu::compare::{COMPARISONS, Comparison, comparison};
use super::super::error::PtxResult;
use super::super::instruction::{BoolOp, Combine, CompareFn, Instruction, NO_SLOT};
use super::super::parse::operand::Operand;
use super::super::types::Type;
use super::Decoder;

const BOOL_OPS: [(&str, BoolOp); 3] = [("and", BoolOp::And), ("or", BoolOp::Or), ("xor", BoolOp::Xor)];

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "setp" => setp(decoder),
        "set" => set(decoder),
        "selp" => selp(decoder),
        "slct" => slct(decoder),
        _ => Ok(false),
    }
}

fn compare_fn(decoder: &mut Decoder<'_, '_>, operator: Comparison, ty: Type) -> PtxResult<CompareFn> {
    let flush = decoder.mnemonic.take("ftz");
    comparison(operator, ty, flush).ok_or_else(|| decoder.mnemonic.unknown())
}

fn operator(decoder: &mut Decoder<'_, '_>) -> PtxResult<Comparison> {
    decoder.mnemonic.take_any(&COMPARISONS).ok_or_else(|| decoder.mnemonic.unknown())
}

/// `setp.CMP{.BOOL}.TYPE p{|q}, a, b{, {!}c}`.
fn setp(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let operator = operator(decoder)?;
    let bool_op = decoder.mnemonic.take_any(&BOOL_OPS);
    let ty = decoder.mnemonic.take_type()?;
    let f = compare_fn(decoder, operator, ty)?;
    decoder.expect_operands(if bool_op.is_some() { 4 } else { 3 })?;
    let (d, not_d) = match decoder.operands[0].clone() {
        Operand::Pair(pair) => {
            (decoder.destination_of(&pair.0, Type::Pred)?, decoder.destination_of(&pair.1, Type::Pred)?)
        }
        single => (decoder.destination_of(&single, Type::Pred)?, NO_SLOT),
    };
    let (a, b) = (decoder.source(1, ty)?, decoder.source(2, ty)?);
    let (op, c, negate_c) = match bool_op {
        Some(op) => {
            let (c, negate) = decoder.predicate(&decoder.operands[3])?;
            (op, c, negate)
        }
        None if not_d == NO_SLOT => return decoder.push(Instruction::Compare { f, d, a, b }),
        // `or` with a predicate that is always false.
        None => (BoolOp::Or, decoder.constant(0)?, false),
    };
    decoder.push(Instruction::CompareCombine { f, combine: Combine { op, negate_c }, d, not_d, a, b, c })
}

/// `set.CMP.DTYPE.TYPE d, a, b`: all ones (or 1.0) where the comparison holds.
fn set(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let operator = operator(decoder)?;
    let to = decoder.mnemonic.take_type()?;
    let ty = decoder.mnemonic.take_type()?;
    let f = compare_fn(decoder, operator, ty)?;
    decoder.expect_operands(3)?;
    let yes = match to {
        Type::U32 | Type::S32 => decoder.constant(0xffff_ffff)?,
        Type::F32 => decoder.constant(1f32.to_bits().into())?,
        _ => return Err(decoder.mnemonic.unknown()),
    };
    let (d, a, b) = (decoder.destination(0, to)?, decoder.source(1, ty)?, decoder.source(2, ty)?);
    decoder.push(Instruction::CompareValue { f, yes, d, a, b })
}

fn selp(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    decoder.expect_operands(4)?;
    if !matches!(ty.bits(), 16 | 32 | 64) {
        return Err(decoder.mnemonic.unknown());
    }
    let (d, a, b) = (decoder.destination(0, ty)?, decoder.source(1, ty)?, decoder.source(2, ty)?);
    let (predicate, negate) = decoder.predicate(&decoder.operands[3])?;
    let (a, b) = if negate { (b, a) } else { (a, b) };
    decoder.push(Instruction::Select { d, a, b, predicate })
}

fn slct_s32([a, b, c, _]: [u64; 4]) -> u64 {
    if (c as u32 as i32) >= 0 { a } else { b }
}

/// −0 counts as 0; NaN selects the second.
fn slct_f32([a, b, c, _]: [u64; 4]) -> u64 {
    if f32::from_bits(c as u32) >= 0.0 { a } else { b }
}

fn slct(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    let selector = decoder.mnemonic.take_type()?;
    let f: fn([u64; 4]) -> u64 = match selector {
        Type::S32 => slct_s32,
        Type::F32 => slct_f32,
        _ => return Err(decoder.mnemonic.unknown()),
    };
    decoder.expect_operands(4)?;
    let d = decoder.destination(0, ty)?;
    let zero = decoder.constant(0)?;
    let sources = [decoder.source(1, ty)?, decoder.source(2, ty)?, decoder.source(3, selector)?, zero];
    decoder.push(Instruction::Quaternary { f, d, sources })
}
