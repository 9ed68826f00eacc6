//! Exchanges between the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13).

use super::super::error::PtxResult;
use super::super::instruction::{Instruction, NO_SLOT, WarpKind};
use super::super::parse::operand::Operand;
use super::super::types::Type;
use super::Decoder;
use crate::sim::interface::AtomicOp;

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "shfl" => shuffle(decoder),
        "vote" => vote(decoder),
        "redux" => reduce(decoder),
        "match" => match_any(decoder),
        _ => Ok(false),
    }
}

/// The forms without `.sync` do not exist since sm_70.
fn need_sync(decoder: &mut Decoder<'_, '_>) -> PtxResult<()> {
    if decoder.mnemonic.take("sync") { Ok(()) } else { Err(decoder.mnemonic.unknown()) }
}

/// `bar.warp.sync mask`.
pub(super) fn sync(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    need_sync(decoder)?;
    decoder.expect_operands(1)?;
    let mask = decoder.source(0, Type::B32)?;
    let (d, second) = (NO_SLOT, NO_SLOT);
    decoder.push(Instruction::Warp {
        kind: WarpKind::Sync,
        d,
        second,
        value: mask,
        lane: mask,
        clamp: mask,
        mask,
    })
}

/// `shfl.sync.MODE.b32 d{|p}, a, b, c, mask`.
fn shuffle(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    need_sync(decoder)?;
    let modes = [("up", 0), ("down", 1), ("bfly", 2), ("idx", 3)];
    let mode = decoder.mnemonic.take_any(&modes).ok_or_else(|| decoder.mnemonic.unknown())?;
    if decoder.mnemonic.take_type()? != Type::B32 {
        return Err(decoder.mnemonic.unknown());
    }
    decoder.expect_operands(5)?;
    let (d, second) = match decoder.operands[0].clone() {
        Operand::Pair(pair) => {
            (decoder.destination_of(&pair.0, Type::B32)?, decoder.destination_of(&pair.1, Type::Pred)?)
        }
        single => (decoder.destination_of(&single, Type::B32)?, NO_SLOT),
    };
    let (value, lane) = (decoder.source(1, Type::B32)?, decoder.source(2, Type::B32)?);
    let (clamp, mask) = (decoder.source(3, Type::B32)?, decoder.source(4, Type::B32)?);
    decoder.push(Instruction::Warp { kind: WarpKind::Shuffle(mode), d, second, value, lane, clamp, mask })
}

/// `vote.sync.MODE.pred p, {!}q, mask` and `vote.sync.ballot.b32 d, {!}q, mask`.
fn vote(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    need_sync(decoder)?;
    let modes = [("all", 0), ("any", 1), ("uni", 2), ("ballot", 3)];
    let mode = decoder.mnemonic.take_any(&modes).ok_or_else(|| decoder.mnemonic.unknown())?;
    let ty = decoder.mnemonic.take_type()?;
    if ty != (if mode == 3 { Type::B32 } else { Type::Pred }) {
        return Err(decoder.mnemonic.unknown());
    }
    decoder.expect_operands(3)?;
    let d = decoder.destination(0, ty)?;
    let (value, negate) = match decoder.operands[1] {
        Operand::Integer(bits) => (decoder.constant(u64::from(bits != 0))?, false),
        _ => decoder.predicate(&decoder.operands[1])?,
    };
    let mask = decoder.source(2, Type::B32)?;
    let kind = WarpKind::Vote(mode, negate);
    decoder.push(Instruction::Warp { kind, d, second: NO_SLOT, value, lane: mask, clamp: mask, mask })
}

/// `redux.sync.OP.TYPE d, a, mask`.
fn reduce(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    need_sync(decoder)?;
    let names = ["add", "min", "max", "and", "or", "xor"].map(|name| (name, name));
    let name = decoder.mnemonic.take_any(&names).ok_or_else(|| decoder.mnemonic.unknown())?;
    let ty = decoder.mnemonic.take_type()?;
    let op = match (name, ty) {
        ("add", Type::U32 | Type::S32) => AtomicOp::Add,
        ("min", Type::U32) => AtomicOp::MinUnsigned,
        ("max", Type::U32) => AtomicOp::MaxUnsigned,
        ("min", Type::S32) => AtomicOp::MinSigned,
        ("max", Type::S32) => AtomicOp::MaxSigned,
        ("and", Type::B32) => AtomicOp::And,
        ("or", Type::B32) => AtomicOp::Or,
        ("xor", Type::B32) => AtomicOp::Xor,
        _ => return Err(decoder.mnemonic.unknown()),
    };
    exchange(decoder, WarpKind::Reduce(op), ty)
}

/// `match.any.sync.TYPE d, a, mask`.
fn match_any(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    need_sync(decoder)?;
    let is_any = decoder.mnemonic.take("any");
    let ty = decoder.mnemonic.take_type()?;
    if !is_any || !matches!(ty, Type::B32 | Type::B64) {
        return Err(decoder.mnemonic.unknown());
    }
    exchange(decoder, WarpKind::MatchAny, ty)
}

fn exchange(decoder: &mut Decoder<'_, '_>, kind: WarpKind, ty: Type) -> PtxResult<bool> {
    decoder.expect_operands(3)?;
    let d = decoder.destination(0, Type::B32)?;
    let (value, mask) = (decoder.source(1, ty)?, decoder.source(2, Type::B32)?);
    decoder.push(Instruction::Warp { kind, d, second: NO_SLOT, value, lane: mask, clamp: mask, mask })
}
