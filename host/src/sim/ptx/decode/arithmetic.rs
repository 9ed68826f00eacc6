//! Integer arithmetic, logic, shifts, bit fields.

use super::super::alu::{bits, integer};
use super::super::error::PtxResult;
use super::super::instruction::{BinaryFn, CarryOp, Instruction, TernaryFn, UnaryFn};
use super::super::types::Type;
use super::Decoder;

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "add" | "sub" | "div" | "rem" | "min" | "max" => simple(decoder),
        "addc" | "subc" => carry(decoder),
        "mul" => multiply(decoder),
        "mul24" => multiply24(decoder),
        "mad" => multiply_add(decoder),
        "madc" => Err(decoder.mnemonic.unknown()),
        "sad" => {
            let ty = decoder.mnemonic.take_type()?;
            let f = integer::sad_of(ty).ok_or_else(|| decoder.mnemonic.unknown())?;
            ternary(decoder, f, ty, [ty; 3])
        }
        "neg" | "abs" => negate(decoder),
        "and" | "or" | "xor" => {
            let ty = decoder.mnemonic.take_type()?;
            let f = bits::logic(decoder.mnemonic.opcode, ty).ok_or_else(|| decoder.mnemonic.unknown())?;
            binary(decoder, f, ty, [ty, ty])
        }
        "not" | "cnot" => one_type(decoder, false),
        "popc" | "clz" => count(decoder),
        "brev" => one_type(decoder, false),
        "bfind" => find(decoder),
        "shl" | "shr" => {
            let ty = decoder.mnemonic.take_type()?;
            let f = bits::shift(decoder.mnemonic.opcode, ty).ok_or_else(|| decoder.mnemonic.unknown())?;
            binary(decoder, f, ty, [ty, Type::U32])
        }
        "shf" => funnel(decoder),
        "bfe" => {
            let ty = decoder.mnemonic.take_type()?;
            let f = bits::extract(ty).ok_or_else(|| decoder.mnemonic.unknown())?;
            ternary(decoder, f, ty, [ty, Type::U32, Type::U32])
        }
        "bfi" => {
            let ty = decoder.mnemonic.take_type()?;
            let f = bits::insert(ty).ok_or_else(|| decoder.mnemonic.unknown())?;
            quaternary(decoder, f, ty, [ty, ty, Type::U32, Type::U32])
        }
        "lop3" => {
            let ty = decoder.mnemonic.take_type()?;
            quaternary(decoder, bits::LOP3, ty, [Type::B32, Type::B32, Type::B32, Type::U32])
        }
        "fns" => {
            let ty = decoder.mnemonic.take_type()?;
            ternary(decoder, bits::FNS, ty, [Type::B32; 3])
        }
        "prmt" => permute(decoder),
        _ => Ok(false),
    }
}

pub(super) fn unary(decoder: &mut Decoder<'_, '_>, f: UnaryFn, to: Type, from: Type) -> PtxResult<bool> {
    decoder.expect_operands(2)?;
    let (d, a) = (decoder.destination(0, to)?, decoder.source(1, from)?);
    decoder.push(Instruction::Unary { f, d, a })
}

pub(super) fn binary(
    decoder: &mut Decoder<'_, '_>,
    f: BinaryFn,
    to: Type,
    from: [Type; 2],
) -> PtxResult<bool> {
    decoder.expect_operands(3)?;
    let d = decoder.destination(0, to)?;
    let (a, b) = (decoder.source(1, from[0])?, decoder.source(2, from[1])?);
    decoder.push(Instruction::Binary { f, d, a, b })
}

pub(super) fn ternary(
    decoder: &mut Decoder<'_, '_>,
    f: TernaryFn,
    to: Type,
    from: [Type; 3],
) -> PtxResult<bool> {
    decoder.expect_operands(4)?;
    let d = decoder.destination(0, to)?;
    let (a, b, c) = (decoder.source(1, from[0])?, decoder.source(2, from[1])?, decoder.source(3, from[2])?);
    decoder.push(Instruction::Ternary { f, d, a, b, c })
}

fn quaternary(
    decoder: &mut Decoder<'_, '_>,
    f: fn([u64; 4]) -> u64,
    to: Type,
    from: [Type; 4],
) -> PtxResult<bool> {
    decoder.expect_operands(5)?;
    let d = decoder.destination(0, to)?;
    let mut sources = [0; 4];
    for (index, slot) in sources.iter_mut().enumerate() {
        *slot = decoder.source(index + 1, from[index])?;
    }
    decoder.push(Instruction::Quaternary { f, d, sources })
}

/// Integer forms; a floating-point type is left to [`super::floating`].
fn simple(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let mut attempt = decoder.mnemonic.clone();
    let ty = attempt.take_type()?;
    if !ty.is_integer() {
        return Ok(false);
    }
    if decoder.mnemonic.take("cc") {
        let subtract = decoder.mnemonic.opcode == "sub";
        return carry_of(decoder, subtract, false, true);
    }
    decoder.mnemonic.take_type()?;
    let saturate = decoder.mnemonic.take("sat");
    match (decoder.mnemonic.opcode, ty.bits(), saturate) {
        ("add", 32 | 64, false) => add(decoder, ty),
        (opcode, ..) => {
            let f = integer::binary(opcode, ty, saturate).ok_or_else(|| decoder.mnemonic.unknown())?;
            binary(decoder, f, ty, [ty, ty])
        }
    }
}

/// The most frequent instructions have a form of their own.
fn add(decoder: &mut Decoder<'_, '_>, ty: Type) -> PtxResult<bool> {
    decoder.expect_operands(3)?;
    let (d, a, b) = (decoder.destination(0, ty)?, decoder.source(1, ty)?, decoder.source(2, ty)?);
    decoder.push(if ty.bits() == 32 {
        Instruction::Add32 { d, a, b }
    } else {
        Instruction::Add64 { d, a, b }
    })
}

fn carry(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let carry_out = decoder.mnemonic.take("cc");
    let subtract = decoder.mnemonic.opcode == "subc";
    carry_of(decoder, subtract, true, carry_out)
}

fn carry_of(
    decoder: &mut Decoder<'_, '_>,
    subtract: bool,
    carry_in: bool,
    carry_out: bool,
) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    if !ty.is_integer() || ty.bits() < 32 {
        return Err(decoder.mnemonic.unknown());
    }
    decoder.expect_operands(3)?;
    let flag = decoder.names.carry(decoder.mnemonic.line)?;
    let op = CarryOp { subtract, carry_in, carry_out, is_64: ty.bits() == 64 };
    let (d, a, b) = (decoder.destination(0, ty)?, decoder.source(1, ty)?, decoder.source(2, ty)?);
    decoder.push(Instruction::Carry { op, d, flag, a, b })
}

const PARTS: [(&str, integer::Part); 3] =
    [("lo", integer::Part::Low), ("hi", integer::Part::High), ("wide", integer::Part::Wide)];

fn multiply(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let Some(part) = decoder.mnemonic.take_any(&PARTS) else { return Ok(false) };
    let ty = decoder.mnemonic.take_type()?;
    let f = integer::mul(part, ty).ok_or_else(|| decoder.mnemonic.unknown())?;
    binary(decoder, f, product_type(part, ty), [ty, ty])
}

fn multiply24(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let part = decoder.mnemonic.take_any(&PARTS).ok_or_else(|| decoder.mnemonic.unknown())?;
    let ty = decoder.mnemonic.take_type()?;
    let f = integer::mul24(part, ty).ok_or_else(|| decoder.mnemonic.unknown())?;
    binary(decoder, f, ty, [ty, ty])
}

fn multiply_add(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let Some(part) = decoder.mnemonic.take_any(&PARTS) else { return Ok(false) };
    let saturate = decoder.mnemonic.take("sat");
    let ty = decoder.mnemonic.take_type()?;
    let f = integer::mad(part, ty, saturate).ok_or_else(|| decoder.mnemonic.unknown())?;
    let wide = product_type(part, ty);
    ternary(decoder, f, wide, [ty, ty, wide])
}

fn product_type(part: integer::Part, ty: Type) -> Type {
    match (part, ty.bits()) {
        (integer::Part::Wide, 16) => Type::B32,
        (integer::Part::Wide, _) => Type::B64,
        _ => ty,
    }
}

fn negate(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let mut attempt = decoder.mnemonic.clone();
    let Some(f) = integer::unary(decoder.mnemonic.opcode, attempt.take_type()?) else { return Ok(false) };
    let ty = decoder.mnemonic.take_type()?;
    unary(decoder, f, ty, ty)
}

fn one_type(decoder: &mut Decoder<'_, '_>, shift_amount: bool) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    let f =
        bits::unary(decoder.mnemonic.opcode, ty, shift_amount).ok_or_else(|| decoder.mnemonic.unknown())?;
    unary(decoder, f, ty, ty)
}

fn count(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    let f = bits::unary(decoder.mnemonic.opcode, ty, false).ok_or_else(|| decoder.mnemonic.unknown())?;
    unary(decoder, f, Type::B32, ty)
}

fn find(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let shift_amount = decoder.mnemonic.take("shiftamt");
    let ty = decoder.mnemonic.take_type()?;
    let f = bits::unary("bfind", ty, shift_amount).ok_or_else(|| decoder.mnemonic.unknown())?;
    unary(decoder, f, Type::B32, ty)
}

fn funnel(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let left = decoder.mnemonic.take_any(&[("l", true), ("r", false)]);
    let wrap = decoder.mnemonic.take_any(&[("wrap", true), ("clamp", false)]);
    let (Some(left), Some(wrap)) = (left, wrap) else { return Err(decoder.mnemonic.unknown()) };
    if decoder.mnemonic.take_type()? != Type::B32 {
        return Err(decoder.mnemonic.unknown());
    }
    ternary(decoder, bits::funnel_shift(left, wrap), Type::B32, [Type::B32; 3])
}

fn permute(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    let f = decoder.mnemonic.take_any(&bits::PRMT_MODES).unwrap_or(bits::PRMT);
    ternary(decoder, f, ty, [Type::B32; 3])
}
