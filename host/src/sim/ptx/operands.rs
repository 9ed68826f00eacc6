//! Which slots an instruction reads and writes.

use super::instruction::{Instruction, NO_SLOT, Slot};
use crate::sim::interface::{MemoryAccess, MultimemOp};

/// What an instruction does with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads it, before it writes any.
    Read,
    /// Writes it.
    Write,
}

/// 64-bit words of an access, one per slot.
pub(crate) fn n_words(access: MemoryAccess) -> usize {
    usize::from(access.lanes) * if access.width_bytes == 16 { 2 } else { 1 }
}

impl Instruction {
    /// Calls `visit` with each slot of the instruction.
    pub(crate) fn for_each_slot(&mut self, visit: &mut impl FnMut(Role, &mut Slot)) {
        match self {
            Self::Load { access, d, address, .. } | Self::LoadOwn { access, d, address, .. } => {
                visit(Role::Read, address);
                d[..n_words(*access)].iter_mut().for_each(|slot| visit(Role::Write, slot));
            }
            Self::Store { access, a, address, .. } | Self::StoreOwn { access, a, address, .. } => {
                visit(Role::Read, address);
                a[..n_words(*access)].iter_mut().for_each(|slot| visit(Role::Read, slot));
            }
            Self::Multimem { access, op, words, address, .. } => {
                visit(Role::Read, address);
                let role = if matches!(op, MultimemOp::LoadReduce(_)) { Role::Write } else { Role::Read };
                words[..n_words(*access)].iter_mut().for_each(|slot| visit(role, slot));
            }
            Self::Unpack { d, a, n, .. } => {
                visit(Role::Read, a);
                d[..usize::from(*n)].iter_mut().for_each(|slot| visit(Role::Write, slot));
            }
            Self::Pack { d, a, n, .. } => {
                a[..usize::from(*n)].iter_mut().for_each(|slot| visit(Role::Read, slot));
                visit(Role::Write, d);
            }
            Self::Carry { op, d, flag, a, b } => {
                [a, b].into_iter().for_each(|slot| visit(Role::Read, slot));
                if op.carry_in {
                    visit(Role::Read, flag);
                }
                if op.carry_out {
                    visit(Role::Write, flag);
                }
                visit(Role::Write, d);
            }
            other => other.for_each_plain_slot(visit),
        }
    }

    /// Instructions whose every slot has one role.
    fn for_each_plain_slot(&mut self, visit: &mut impl FnMut(Role, &mut Slot)) {
        let mut all = |reads: &mut [&mut Slot], writes: &mut [&mut Slot]| {
            reads.iter_mut().filter(|slot| ***slot != NO_SLOT).for_each(|slot| visit(Role::Read, slot));
            writes.iter_mut().filter(|slot| ***slot != NO_SLOT).for_each(|slot| visit(Role::Write, slot));
        };
        match self {
            Self::Move { d, a } | Self::Unary { d, a, .. } => all(&mut [a], &mut [d]),
            Self::Add32 { d, a, b }
            | Self::Add64 { d, a, b }
            | Self::Binary { d, a, b, .. }
            | Self::Compare { d, a, b, .. }
            | Self::Convert { d, a, b, .. } => all(&mut [a, b], &mut [d]),
            Self::Ternary { d, a, b, c, .. } | Self::Float { d, a, b, c, .. } => {
                all(&mut [a, b, c], &mut [d])
            }
            Self::Quaternary { d, sources: [a, b, c, e], .. } => all(&mut [a, b, c, e], &mut [d]),
            Self::CompareCombine { d, not_d, a, b, c, .. } => all(&mut [a, b, c], &mut [d, not_d]),
            Self::CompareValue { yes, d, a, b, .. } => all(&mut [yes, a, b], &mut [d]),
            Self::Select { d, a, b, predicate } => all(&mut [a, b, predicate], &mut [d]),
            Self::Special { d, .. } => all(&mut [], &mut [d]),
            Self::Atomic { d, address, a, b, .. } => all(&mut [address, a, b], &mut [d]),
            Self::Barrier { d, barrier, n_threads, predicate, .. } => {
                all(&mut [barrier, n_threads, predicate], &mut [d]);
            }
            Self::Warp { d, second, value, lane, clamp, mask, .. } => {
                all(&mut [value, lane, clamp, mask], &mut [d, second]);
            }
            Self::Sleep { duration: a }
            | Self::BranchIf { predicate: a, .. }
            | Self::BranchTable { index: a, .. }
            | Self::Guard { predicate: a, .. } => all(&mut [a], &mut []),
            Self::Branch { .. } | Self::Fence { .. } | Self::Exit | Self::Trap | Self::Nothing => {}
            // Handled by `for_each_slot`.
            Self::Load { .. }
            | Self::LoadOwn { .. }
            | Self::Store { .. }
            | Self::StoreOwn { .. }
            | Self::Multimem { .. }
            | Self::Unpack { .. }
            | Self::Pack { .. }
            | Self::Carry { .. } => {}
        }
    }
}
