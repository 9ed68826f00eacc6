//! Instructions that stop a thread, and how it goes on behind them.

use super::ThreadState;
use crate::sim::interface::{BlockBarrier, Stop, WarpOp, WarpRequest};
use crate::sim::ptx::Kernel;
use crate::sim::ptx::instruction::{BarrierKind, Instruction, NO_SLOT, Slot, WarpKind};

/// The request of a [`Instruction::Barrier`].
pub(super) fn barrier(
    registers: &[u64],
    kind: BarrierKind,
    barrier: Slot,
    n_threads: Slot,
    (predicate, negate): (Slot, bool),
) -> Stop {
    let read = |slot: Slot| registers[usize::from(slot)];
    let reduction = match kind {
        BarrierKind::Reduce(reduction) => Some((reduction, (read(predicate) != 0) != negate)),
        BarrierKind::Sync | BarrierKind::Arrive => None,
    };
    Stop::BlockBarrier(BlockBarrier {
        barrier: read(barrier) as u32,
        n_threads: (n_threads != NO_SLOT).then(|| read(n_threads) as u32),
        reduction,
        arrive_only: kind == BarrierKind::Arrive,
    })
}

/// The request of an [`Instruction::Warp`] with its operands' values.
pub(super) fn warp(kind: WarpKind, value: u64, lane: u64, clamp: u64, mask: u64) -> Stop {
    let op = match kind {
        WarpKind::Sync => WarpOp::Sync,
        WarpKind::Shuffle(mode) => {
            WarpOp::Shuffle { mode, value: value as u32, lane: lane as u32, clamp: clamp as u32 }
        }
        WarpKind::Vote(mode, negate) => WarpOp::Vote { mode, predicate: (value != 0) != negate },
        WarpKind::Reduce(op) => WarpOp::Reduce { op, value: value as u32 },
        WarpKind::MatchAny => WarpOp::MatchAny { value },
    };
    Stop::Warp(WarpRequest { mask: mask as u32, op })
}

/// Lets a thread go on behind the barrier, warp-level instruction or sleep at which [`super::run`] stopped: writes its
/// results and steps over it.
///
/// `results[0]` is the value (of a predicate, 0 or not 0), `results[1]` the second destination of a shuffle, its
/// predicate. An instruction without a destination ignores them.
pub fn resume_with(kernel: &Kernel, thread: &mut ThreadState, registers: &mut [u64], results: [u64; 2]) {
    let mut write = |slot: Slot, value: u64| {
        if slot != NO_SLOT {
            registers[usize::from(slot)] = value;
        }
    };
    match kernel.code[thread.pc as usize] {
        Instruction::Barrier {
            kind: BarrierKind::Reduce(crate::sim::interface::BarrierReduction::Count),
            d,
            ..
        } => {
            write(d, results[0] & 0xffff_ffff);
        }
        Instruction::Barrier { d, .. } => write(d, u64::from(results[0] != 0)),
        Instruction::Warp { kind: WarpKind::Vote(0..=2, _), d, .. } => write(d, u64::from(results[0] != 0)),
        Instruction::Warp { d, second, .. } => {
            write(d, results[0] & 0xffff_ffff);
            write(second, u64::from(results[1] != 0));
        }
        _ => {}
    }
    thread.pc += 1;
}
