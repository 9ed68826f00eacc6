//! `cvt`, `cvta`.

use super::super::alu::convert::Conversion;
use super::super::alu::float::Clamp;
use super::super::alu::format::Rounding;
use super::super::alu::quick;
use super::super::error::PtxResult;
use super::super::instruction::{Instruction, Slot};
use super::super::parse::operand::Operand;
use super::super::types::Type;
use super::Decoder;
use super::floating::ROUNDINGS;
use crate::sim::thread::{LOCAL_WINDOW, SHARED_WINDOW};

const INTEGRAL_ROUNDINGS: [(&str, Rounding); 4] =
    [("rni", Rounding::Nearest), ("rzi", Rounding::Zero), ("rmi", Rounding::Down), ("rpi", Rounding::Up)];

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "cvt" => cvt(decoder),
        "cvta" => cvta(decoder),
        _ => Ok(false),
    }
}

fn is_packed(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::Bf16x2 | Type::E4m3x2 | Type::E5m2x2)
}

fn is_real(ty: Type) -> bool {
    ty.is_float() || is_packed(ty) || ty == Type::Tf32
}

fn cvt(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let conversion = modifiers(decoder)?;
    let two_sources = is_packed(conversion.to) && conversion.from == Type::F32;
    decoder.expect_operands(if two_sources { 3 } else { 2 })?;
    let (d, register_bits) = destination(decoder, conversion.to)?;
    let a = source(decoder, 1, conversion.from)?;
    let b = if two_sources { decoder.source(2, Type::F32)? } else { a };
    let conversion = Conversion { register_bits, ..conversion };
    decoder.push(match quick::conversion(conversion) {
        Some(f) => Instruction::Unary { f, d, a },
        None => Instruction::Convert { conversion, d, a, b },
    })
}

fn modifiers(decoder: &mut Decoder<'_, '_>) -> PtxResult<Conversion> {
    let mnemonic = &mut decoder.mnemonic;
    let integral = mnemonic.take_any(&INTEGRAL_ROUNDINGS);
    let mode =
        mnemonic.take_any(&ROUNDINGS).or_else(|| mnemonic.take("rna").then_some(Rounding::NearestAway));
    let (to, from) = (mnemonic.take_type()?, mnemonic.take_type()?);
    let flush = mnemonic.take("ftz");
    let finite = mnemonic.take("satfinite");
    let clamp = match (mnemonic.take("sat"), mnemonic.take("relu")) {
        (false, false) => Clamp::None,
        (true, false) => Clamp::Unit,
        (false, true) if is_real(to) => Clamp::Relu,
        _ => return Err(mnemonic.unknown()),
    };
    let is_known = is_known(to, from, integral.is_some(), mode) && (!finite || is_real(to));
    if !is_known {
        return Err(mnemonic.unknown());
    }
    Ok(Conversion {
        to,
        from,
        rounding: integral.or(mode).unwrap_or(Rounding::Nearest),
        to_integral: integral.is_some(),
        flush,
        clamp,
        finite,
        register_bits: 0,
    })
}

/// Which pairs of types exist, with the rounding that they must state (PTX ISA 9.7.9.21).
fn is_known(to: Type, from: Type, integral: bool, mode: Option<Rounding>) -> bool {
    let only_nearest = mode == Some(Rounding::Nearest) && !integral;
    let only_rounded = matches!(mode, Some(Rounding::Nearest | Rounding::Zero)) && !integral;
    let no_mode = mode.is_none() && !integral;
    match (to, from) {
        (Type::F16x2 | Type::Bf16x2, Type::F32) => only_rounded,
        (Type::E4m3x2 | Type::E5m2x2, Type::F32 | Type::F16x2) => only_nearest,
        (Type::F16x2, Type::E4m3x2 | Type::E5m2x2) => only_nearest,
        (Type::Tf32, Type::F32) => mode.is_some() && !integral,
        _ if is_packed(to) || is_packed(from) || to == Type::Tf32 || from == Type::Tf32 => false,
        (to, from) if to.is_integer() && from.is_integer() => no_mode,
        (to, from) if to.is_integer() && from.is_float() => integral && mode.is_none(),
        (to, from) if to.is_float() && from.is_integer() => mode.is_some() && !integral,
        (to, from) if to == from && to.is_float() => mode.is_none(),
        // Widening is exact and may say nothing of rounding.
        (to, from) if to.is_float() && from.is_float() && to.bits() > from.bits() => no_mode || only_nearest,
        (to, from) => to.is_float() && from.is_float() && mode.is_some() && !integral,
    }
}

/// The destination register may be wider than an integer type.
fn destination(decoder: &mut Decoder<'_, '_>, ty: Type) -> PtxResult<(Slot, u8)> {
    match decoder.operands[0] {
        Operand::Register(register) if ty.is_integer() && (ty.bits()..=64).contains(&register.ty.bits()) => {
            Ok((register.slot, register.ty.bits() as u8))
        }
        _ => Ok((decoder.destination(0, ty)?, ty.bits() as u8)),
    }
}

/// The source register may be wider than an integer type.
fn source(decoder: &mut Decoder<'_, '_>, index: usize, ty: Type) -> PtxResult<Slot> {
    match decoder.operands[index] {
        Operand::Register(register) if ty.is_integer() && (ty.bits()..=64).contains(&register.ty.bits()) => {
            Ok(register.slot)
        }
        _ => decoder.source(index, ty),
    }
}

/// Shared and local memory have windows in the generic space; elsewhere generic addresses are global ones.
fn cvta(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let is_from_generic = decoder.mnemonic.take("to");
    let windows = [
        ("global", 0),
        ("const", 0),
        ("shared", SHARED_WINDOW),
        ("shared::cta", SHARED_WINDOW),
        ("local", LOCAL_WINDOW),
    ];
    let window = decoder.mnemonic.take_any(&windows).ok_or_else(|| decoder.mnemonic.unknown())?;
    let ty = decoder.mnemonic.take_type()?;
    decoder.expect_operands(2)?;
    let (d, a) = (decoder.destination(0, ty)?, decoder.source(1, ty)?);
    if window == 0 {
        return decoder.push(Instruction::Move { d, a });
    }
    if ty != Type::U64 {
        return Err(decoder.mnemonic.unknown());
    }
    let b = decoder.constant(if is_from_generic { window.wrapping_neg() } else { window })?;
    decoder.push(Instruction::Add64 { d, a, b })
}
