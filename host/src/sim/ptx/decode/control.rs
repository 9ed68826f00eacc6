//! Jumps, ends, barriers of the block (PTX ISA 9.7.12, 9.7.13).

use super::super::error::PtxResult;
use super::super::instruction::{BarrierKind, Instruction, NO_SLOT};
use super::super::parse::operand::Operand;
use super::super::types::Type;
use super::Decoder;
use crate::sim::interface::{BarrierReduction, Fence};

/// Decodes an instruction of this family; false if it is of another.
pub(super) fn decode(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    match decoder.mnemonic.opcode {
        "bra" => branch(decoder),
        "brx" => branch_table(decoder),
        "ret" | "exit" => {
            decoder.mnemonic.take("uni");
            decoder.expect_operands(0)?;
            decoder.push(Instruction::Exit)
        }
        "trap" | "brkpt" => {
            decoder.expect_operands(0)?;
            decoder.push(Instruction::Trap)
        }
        "nanosleep" => {
            let ty = decoder.mnemonic.take_type()?;
            decoder.expect_operands(1)?;
            let duration = decoder.source(0, ty)?;
            decoder.push(Instruction::Sleep { duration })
        }
        "griddepcontrol" => dependency(decoder),
        "bar" | "barrier" => barrier(decoder),
        _ => Ok(false),
    }
}

fn branch(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    decoder.mnemonic.take("uni");
    decoder.expect_operands(1)?;
    let Operand::Label(label) = decoder.operands[0] else {
        return Err(decoder.error("the target is not a label"));
    };
    let scope = decoder.names.scope();
    decoder.emitter.push_branch(label, scope);
    Ok(true)
}

fn branch_table(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    decoder.mnemonic.take("uni");
    if !decoder.mnemonic.take("idx") {
        return Err(decoder.mnemonic.unknown());
    }
    decoder.expect_operands(2)?;
    let index = decoder.source(0, Type::U32)?;
    let Operand::Label(name) = decoder.operands[1] else {
        return Err(decoder.error("the targets are not a list"));
    };
    let table = decoder.emitter.table(name);
    let table =
        table.ok_or_else(|| decoder.error(format!("there is no .branchtargets `{name}` before this")))?;
    decoder.push(Instruction::BranchTable { index, table })
}

/// Without programmatic launches there is nothing to wait for and nobody to tell.
fn dependency(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let waits = decoder.mnemonic.take("wait");
    if !waits && !decoder.mnemonic.take("launch_dependents") {
        return Err(decoder.mnemonic.unknown());
    }
    decoder.expect_operands(0)?;
    decoder.push(if waits {
        Instruction::Fence { fence: Fence::GridDependency }
    } else {
        Instruction::Nothing
    })
}

fn barrier(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    if decoder.mnemonic.take("warp") {
        return super::warp::sync(decoder);
    }
    decoder.mnemonic.take("cta");
    // An unaligned barrier meets the same threads; the interpreter runs each thread on its own.
    decoder.mnemonic.take("aligned");
    let kinds = [("sync", BarrierKind::Sync), ("arrive", BarrierKind::Arrive)];
    if let Some(kind) = decoder.mnemonic.take_any(&kinds) {
        return plain_barrier(decoder, kind);
    }
    if decoder.mnemonic.take("red") { reduction(decoder) } else { Err(decoder.mnemonic.unknown()) }
}

fn plain_barrier(decoder: &mut Decoder<'_, '_>, kind: BarrierKind) -> PtxResult<bool> {
    let has_count = decoder.operands.len() == 2 || kind == BarrierKind::Arrive;
    decoder.expect_operands(if has_count { 2 } else { 1 })?;
    let barrier = decoder.source(0, Type::U32)?;
    let n_threads = if has_count { decoder.source(1, Type::U32)? } else { NO_SLOT };
    let instruction =
        Instruction::Barrier { kind, d: NO_SLOT, barrier, n_threads, predicate: NO_SLOT, negate: false };
    decoder.push(instruction)
}

fn reduction(decoder: &mut Decoder<'_, '_>) -> PtxResult<bool> {
    let reductions =
        [("popc", BarrierReduction::Count), ("and", BarrierReduction::And), ("or", BarrierReduction::Or)];
    let reduction = decoder.mnemonic.take_any(&reductions).ok_or_else(|| decoder.mnemonic.unknown())?;
    let ty = decoder.mnemonic.take_type()?;
    if ty != (if reduction == BarrierReduction::Count { Type::U32 } else { Type::Pred }) {
        return Err(decoder.mnemonic.unknown());
    }
    let has_count = decoder.operands.len() == 4;
    decoder.expect_operands(if has_count { 4 } else { 3 })?;
    let d = decoder.destination(0, ty)?;
    let barrier = decoder.source(1, Type::U32)?;
    let n_threads = if has_count { decoder.source(2, Type::U32)? } else { NO_SLOT };
    let (predicate, negate) = decoder.predicate(&decoder.operands[if has_count { 3 } else { 2 }])?;
    let kind = BarrierKind::Reduce(reduction);
    decoder.push(Instruction::Barrier { kind, d, barrier, n_threads, predicate, negate })
}
