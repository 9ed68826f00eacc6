//! `mov`: copies, packing, special registers.

use super::super::error::PtxResult;
use super::super::instruction::{Instruction, Slot, SpecialRead};
use super::super::parse::operand::Operand;
use super::super::types::Type;
use super::Decoder;
use crate::sim::interface::Special;

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "mov" => mov(decoder),
        "activemask" => {
            let ty = decoder.mnemonic.take_type()?;
            decoder.expect_operands(1)?;
            let d = decoder.destination(0, ty)?;
            decoder.push(Instruction::Special { d, register: SpecialRead::LanesOfWarp })
        }
        _ => Ok(false),
    }
}

fn mov(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let ty = decoder.mnemonic.take_type()?;
    decoder.expect_operands(2)?;
    match (decoder.operands[0].clone(), decoder.operands[1].clone()) {
        (Operand::Vector(parts), _) => unpack(decoder, ty, &parts),
        (_, Operand::Vector(parts)) => pack(decoder, ty, &parts),
        (_, Operand::Special(name)) => special(decoder, ty, name),
        (_, _) if ty == Type::B128 => {
            let (d, a) = (decoder.destination(0, ty)?, decoder.source(1, ty)?);
            decoder.push(Instruction::Move { d, a })?;
            decoder.push(Instruction::Move { d: d + 1, a: a + 1 })
        }
        _ => {
            let (d, a) = (decoder.destination(0, ty)?, decoder.source(1, ty)?);
            decoder.push(Instruction::Move { d, a })
        }
    }
}

/// The type of one of `n` parts.
fn part_type(decoder: &Decoder<'_, '_>, ty: Type, n: usize) -> PtxResult<Type> {
    match (ty.bits(), n) {
        (16, 2) => Ok(Type::B8),
        (32, 2) => Ok(Type::B16),
        (32, 4) => Ok(Type::B8),
        (64, 2) => Ok(Type::B32),
        (64, 4) => Ok(Type::B16),
        (128, 2) => Ok(Type::B64),
        (128, 4) => Ok(Type::B32),
        (bits, n) => Err(decoder.error(format!("{bits} bits do not divide into {n} parts"))),
    }
}

fn unpack(decoder: &mut Decoder<'_, '_>, ty: Type, parts: &[Operand<'_>]) -> PtxResult<bool> {
    let part = part_type(decoder, ty, parts.len())?;
    let a = decoder.source(1, ty)?;
    let mut slots = [0; 4];
    for (slot, operand) in slots.iter_mut().zip(parts) {
        *slot = match operand {
            Operand::Register(register) => decoder.fitting(*register, part)?,
            Operand::Sink => decoder.names.sink(decoder.mnemonic.line)?,
            _ => return Err(decoder.error("a part is not a register")),
        };
    }
    if ty != Type::B128 {
        let (n, part_bits) = (parts.len() as u8, part.bits() as u8);
        return decoder.push(Instruction::Unpack { d: slots, a, n, part_bits });
    }
    if parts.len() == 2 {
        decoder.push(Instruction::Move { d: slots[0], a })?;
        return decoder.push(Instruction::Move { d: slots[1], a: a + 1 });
    }
    let [x, y, z, w] = slots;
    decoder.push(Instruction::Unpack { d: [x, y, 0, 0], a, n: 2, part_bits: 32 })?;
    decoder.push(Instruction::Unpack { d: [z, w, 0, 0], a: a + 1, n: 2, part_bits: 32 })
}

fn pack(decoder: &mut Decoder<'_, '_>, ty: Type, parts: &[Operand<'_>]) -> PtxResult<bool> {
    let part = part_type(decoder, ty, parts.len())?;
    let d = decoder.destination(0, ty)?;
    let mut slots: [Slot; 4] = [0; 4];
    for (slot, operand) in slots.iter_mut().zip(parts) {
        *slot = match operand {
            Operand::Register(register) => decoder.fitting(*register, part)?,
            Operand::Integer(bits) => decoder.constant(bits & part.mask())?,
            Operand::Float32(bits) if part.bits() == 32 => decoder.constant((*bits).into())?,
            Operand::Float64(bits) if part.bits() == 64 => decoder.constant(*bits)?,
            _ => return Err(decoder.error("a part is neither a register nor a number")),
        };
    }
    if ty != Type::B128 {
        let (n, part_bits) = (parts.len() as u8, part.bits() as u8);
        return decoder.push(Instruction::Pack { d, a: slots, n, part_bits });
    }
    if parts.len() == 2 {
        decoder.push(Instruction::Move { d, a: slots[0] })?;
        return decoder.push(Instruction::Move { d: d + 1, a: slots[1] });
    }
    let [x, y, z, w] = slots;
    decoder.push(Instruction::Pack { d, a: [x, y, 0, 0], n: 2, part_bits: 32 })?;
    decoder.push(Instruction::Pack { d: d + 1, a: [z, w, 0, 0], n: 2, part_bits: 32 })
}

fn special(decoder: &mut Decoder<'_, '_>, ty: Type, name: &str) -> PtxResult<bool> {
    let unknown = || decoder.error(format!("the simulated machine has no special register `{name}`"));
    let (register, bits) = special_register(name).ok_or_else(unknown)?;
    if ty.bits() != bits {
        return Err(decoder.error(format!("`{name}` has {bits} bits")));
    }
    let d = decoder.destination(0, ty)?;
    decoder.push(Instruction::Special { d, register })
}

/// A special register and its width in bits (PTX ISA 10).
fn special_register(name: &str) -> Option<(SpecialRead, u32)> {
    let (stem, dimension) = match name.rsplit_once('.') {
        Some((stem, "x")) => (stem, Some(0)),
        Some((stem, "y")) => (stem, Some(1)),
        Some((stem, "z")) => (stem, Some(2)),
        Some(_) => return None,
        None => (name, None),
    };
    if let Some(dimension) = dimension {
        let register = match stem {
            "%tid" => Special::Tid(dimension),
            "%ntid" => Special::Ntid(dimension),
            "%ctaid" => Special::Ctaid(dimension),
            "%nctaid" => Special::Nctaid(dimension),
            _ => return None,
        };
        return Some((SpecialRead::Low(register), 32));
    }
    Some(match stem {
        "%laneid" => (SpecialRead::Low(Special::Laneid), 32),
        "%warpid" => (SpecialRead::Low(Special::Warpid), 32),
        "%nwarpid" => (SpecialRead::WarpCount, 32),
        "%smid" => (SpecialRead::Low(Special::Smid), 32),
        "%lanemask_eq" => (SpecialRead::LanesEqual, 32),
        "%lanemask_lt" => (SpecialRead::LanesBelow, 32),
        "%lanemask_le" => (SpecialRead::LanesUpTo, 32),
        "%lanemask_gt" => (SpecialRead::LanesAbove, 32),
        "%lanemask_ge" => (SpecialRead::LanesFrom, 32),
        "%clock" => (SpecialRead::Low(Special::Clock), 32),
        "%clock_hi" => (SpecialRead::High(Special::Clock), 32),
        "%clock64" => (SpecialRead::Whole(Special::Clock), 64),
        "%globaltimer" => (SpecialRead::Whole(Special::Globaltimer), 64),
        "%globaltimer_lo" => (SpecialRead::Low(Special::Globaltimer), 32),
        "%globaltimer_hi" => (SpecialRead::High(Special::Globaltimer), 32),
        "%dynamic_smem_size" => (SpecialRead::Low(Special::DynamicSharedBytes), 32),
        "%total_smem_size" => (SpecialRead::Low(Special::TotalSharedBytes), 32),
        _ => return None,
    })
}
