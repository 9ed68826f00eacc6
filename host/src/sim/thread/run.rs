//! The loop.

use super::memory::{gather, load, scatter, store};
use super::{LOCAL_WINDOW, SHARED_WINDOW, ThreadState, stop};
use crate::sim::interface::{Environment, Fault, Lanes, MemoryAccess, MultimemOp, Space, Special, Stop};
use crate::sim::ptx::Kernel;
use crate::sim::ptx::alu::{convert::convert, float, integer};
use crate::sim::ptx::instruction::{BoolOp, Fill, Instruction, NO_SLOT, Own, Slot, SpecialRead};

/// Runs `thread` for at most `budget` instructions. Gives why it stopped and how many instructions it completed; the
/// one at which it stopped is not among them, and the guard of an instruction (`@%p`) counts as one of its own.
///
/// `registers` are those that [`ThreadState::new`] filled. See [`super`] for where the program counter stands after
/// each [`Stop`].
pub fn run<E: Environment>(
    kernel: &Kernel,
    thread: &mut ThreadState,
    registers: &mut [u64],
    environment: &mut E,
    budget: u32,
) -> (Stop, u32) {
    let mut frame = Frame { kernel, pc: thread.pc, registers, local: &mut thread.local, environment };
    let mut executed = 0;
    let stop = loop {
        if executed >= budget {
            break Stop::Budget;
        }
        if let Some(stop) = frame.step() {
            break stop;
        }
        executed += 1;
    };
    thread.pc = frame.pc;
    (stop, executed)
}

struct Frame<'t, E> {
    kernel: &'t Kernel,
    pc: u32,
    registers: &'t mut [u64],
    local: &'t mut [u8],
    environment: &'t mut E,
}

impl<E: Environment> Frame<'_, E> {
    #[inline(always)]
    fn get(&self, slot: Slot) -> u64 {
        self.registers[usize::from(slot)]
    }

    #[inline(always)]
    fn set(&mut self, slot: Slot, value: u64) {
        self.registers[usize::from(slot)] = value;
    }

    /// Executes one instruction; on a stop the program counter stays at it.
    #[inline(always)]
    fn step(&mut self) -> Option<Stop> {
        let mut next = self.pc + 1;
        match self.kernel.code[self.pc as usize] {
            Instruction::Move { d, a } => self.set(d, self.get(a)),
            Instruction::Add32 { d, a, b } => {
                self.set(d, u64::from((self.get(a) as u32).wrapping_add(self.get(b) as u32)));
            }
            Instruction::Add64 { d, a, b } => self.set(d, self.get(a).wrapping_add(self.get(b))),
            Instruction::Unary { f, d, a } => self.set(d, f(self.get(a))),
            Instruction::Binary { f, d, a, b } => self.set(d, f(self.get(a), self.get(b))),
            Instruction::Ternary { f, d, a, b, c } => self.set(d, f(self.get(a), self.get(b), self.get(c))),
            Instruction::Quaternary { f, d, sources } => self.set(d, f(sources.map(|slot| self.get(slot)))),
            Instruction::Compare { f, d, a, b } => self.set(d, u64::from(f(self.get(a), self.get(b)))),
            Instruction::Select { d, a, b, predicate } => {
                self.set(d, if self.get(predicate) != 0 { self.get(a) } else { self.get(b) });
            }
            Instruction::Branch { target } => next = target,
            Instruction::BranchIf { predicate, negate, target } => {
                if (self.get(predicate) != 0) != negate {
                    next = target;
                }
            }
            Instruction::Guard { predicate, negate } => {
                if (self.get(predicate) != 0) == negate {
                    next += 1;
                }
            }
            Instruction::Load { access, fill, d, address, offset } => {
                match self.load(access, self.get(address).wrapping_add_signed(offset.into())) {
                    Ok(values) => scatter(self.registers, access, fill, &d, &values),
                    Err(fault) => return Some(Stop::Fault(fault)),
                }
            }
            Instruction::Store { access, a, address, offset } => {
                let values = gather(self.registers, access, &a);
                if let Err(fault) =
                    self.store(access, self.get(address).wrapping_add_signed(offset.into()), &values)
                {
                    return Some(Stop::Fault(fault));
                }
            }
            other => match self.step_rare(other) {
                Ok(target) => next = target.unwrap_or(next),
                Err(stop) => return Some(stop),
            },
        }
        self.pc = next;
        None
    }

    /// The instructions that kernels execute less often. Gives the target of a jump.
    fn step_rare(&mut self, instruction: Instruction) -> Result<Option<u32>, Stop> {
        match instruction {
            Instruction::Carry { op, d, flag, a, b } => {
                let (value, carry) = integer::carry(op, self.get(a), self.get(b), self.get(flag));
                self.set(d, value);
                if op.carry_out {
                    self.set(flag, carry);
                }
            }
            Instruction::Float { op, d, a, b, c } => {
                self.set(d, float::evaluate(op, self.get(a), self.get(b), self.get(c)));
            }
            Instruction::Convert { conversion, d, a, b } => {
                self.set(d, convert(conversion, self.get(a), self.get(b)));
            }
            Instruction::CompareCombine { f, combine, d, not_d, a, b, c } => {
                let holds = f(self.get(a), self.get(b));
                let c = (self.get(c) != 0) != combine.negate_c;
                self.set(d, u64::from(join(combine.op, holds, c)));
                if not_d != NO_SLOT {
                    self.set(not_d, u64::from(join(combine.op, !holds, c)));
                }
            }
            Instruction::CompareValue { f, yes, d, a, b } => {
                let value = if f(self.get(a), self.get(b)) { self.get(yes) } else { 0 };
                self.set(d, value);
            }
            Instruction::Unpack { d, a, n, part_bits } => {
                let whole = self.get(a);
                for (index, slot) in d.iter().enumerate().take(n.into()) {
                    let part = whole >> (index as u32 * u32::from(part_bits));
                    self.set(*slot, part & (u64::MAX >> (64 - part_bits)));
                }
            }
            Instruction::Pack { d, a, n, part_bits } => {
                let parts = a.iter().take(n.into()).rev();
                let whole = parts.fold(0, |whole, slot| whole << part_bits | self.get(*slot));
                self.set(d, whole);
            }
            Instruction::Special { d, register } => {
                let value = self.special(register);
                self.set(d, value);
            }
            Instruction::BranchTable { index, table } => return self.branch_table(index, table).map(Some),
            Instruction::Nothing => {}
            other => return self.step_memory(other),
        }
        Ok(None)
    }

    /// Own memory, atomics, fences, and what stops a thread.
    fn step_memory(&mut self, instruction: Instruction) -> Result<Option<u32>, Stop> {
        match instruction {
            Instruction::LoadOwn { own, access, fill, d, address, offset } => {
                let address = self.get(address).wrapping_add_signed(offset.into());
                let memory = match own {
                    Own::Parameter => self.environment.parameters(),
                    Own::Local => &*self.local,
                };
                let values = load(memory, access, address).map_err(Stop::Fault)?;
                scatter(self.registers, access, fill, &d, &values);
            }
            Instruction::StoreOwn { access, a, address, offset } => {
                let address = self.get(address).wrapping_add_signed(offset.into());
                let values = gather(self.registers, access, &a);
                store(self.local, access, address, &values).map_err(Stop::Fault)?;
            }
            Instruction::Atomic { access, op, d, address, offset, a, b } => {
                let address = self.get(address).wrapping_add_signed(offset.into());
                let (access, address) = global_or_shared(access, address).map_err(Stop::Fault)?;
                let (operand, second) = (self.get(a), self.get(b));
                let old = self.environment.atomic(self.pc, access, op, address, operand, second);
                let old = old.map_err(Stop::Fault)?;
                if d != NO_SLOT {
                    self.set(d, old);
                }
            }
            Instruction::Multimem { access, op, words, address, offset } => {
                let address = self.get(address).wrapping_add_signed(offset.into());
                let is_load = matches!(op, MultimemOp::LoadReduce(_));
                let values = if is_load { [0; 4] } else { gather(self.registers, access, &words) };
                let loaded = self.environment.multimem(self.pc, access, op, address, &values);
                let loaded = loaded.map_err(Stop::Fault)?;
                if is_load {
                    scatter(self.registers, access, Fill::Zero, &words, &loaded);
                }
            }
            Instruction::Fence { fence } => self.environment.fence(self.pc, fence),
            Instruction::Barrier { kind, barrier, n_threads, predicate, negate, .. } => {
                return Err(stop::barrier(self.registers, kind, barrier, n_threads, (predicate, negate)));
            }
            Instruction::Warp { kind, value, lane, clamp, mask, .. } => {
                let values = [value, lane, clamp, mask].map(|slot| self.get(slot));
                return Err(stop::warp(kind, values[0], values[1], values[2], values[3]));
            }
            Instruction::Sleep { duration } => {
                return Err(Stop::Sleep { duration_ns: self.get(duration) as u32 });
            }
            Instruction::Trap => return Err(Stop::Fault(Fault::Trap)),
            Instruction::Exit => return Err(Stop::Exit),
            _ => unreachable!("`step` and `step_rare` execute all others"),
        }
        Ok(None)
    }

    /// A load by a global, shared or generic address.
    #[inline(always)]
    fn load(&mut self, access: MemoryAccess, address: u64) -> Result<Lanes, Fault> {
        if address < LOCAL_WINDOW {
            return self.environment.load(self.pc, access, address);
        }
        self.load_window(access, address)
    }

    #[cold]
    fn load_window(&mut self, access: MemoryAccess, address: u64) -> Result<Lanes, Fault> {
        if access.space == Space::Global && address < SHARED_WINDOW {
            return load(self.local, access, address - LOCAL_WINDOW);
        }
        let (access, address) = global_or_shared(access, address)?;
        self.environment.load(self.pc, access, address)
    }

    /// A store by a global, shared or generic address.
    #[inline(always)]
    fn store(&mut self, access: MemoryAccess, address: u64, values: &Lanes) -> Result<(), Fault> {
        if address < LOCAL_WINDOW {
            return self.environment.store(self.pc, access, address, values);
        }
        self.store_window(access, address, values)
    }

    #[cold]
    fn store_window(&mut self, access: MemoryAccess, address: u64, values: &Lanes) -> Result<(), Fault> {
        if access.space == Space::Global && address < SHARED_WINDOW {
            return store(self.local, access, address - LOCAL_WINDOW, values);
        }
        let (access, address) = global_or_shared(access, address)?;
        self.environment.store(self.pc, access, address, values)
    }

    fn branch_table(&mut self, index: Slot, table: u32) -> Result<u32, Stop> {
        let table = &self.kernel.branch_tables[table as usize];
        let index = self.get(index);
        let out_of_range =
            || Stop::Fault(Fault::Other(format!("brx.idx with index {index}, of {} targets", table.len())));
        table.get(index as usize).copied().ok_or_else(out_of_range)
    }

    fn special(&mut self, register: SpecialRead) -> u64 {
        let mut read = |register| self.environment.special(register);
        let low = |value: u64| value & 0xffff_ffff;
        match register {
            SpecialRead::Whole(register) => read(register),
            SpecialRead::Low(register) => low(read(register)),
            SpecialRead::High(register) => read(register) >> 32,
            SpecialRead::WarpCount => (0..3).map(|d| read(Special::Ntid(d))).product::<u64>().div_ceil(32),
            SpecialRead::LanesEqual => 1 << read(Special::Laneid),
            SpecialRead::LanesBelow => (1 << read(Special::Laneid)) - 1,
            SpecialRead::LanesUpTo => (2 << read(Special::Laneid)) - 1,
            SpecialRead::LanesAbove => low(!((2 << read(Special::Laneid)) - 1)),
            SpecialRead::LanesFrom => low(!((1 << read(Special::Laneid)) - 1)),
            SpecialRead::LanesOfWarp => {
                let n_threads: u64 = (0..3).map(|d| read(Special::Ntid(d))).product();
                let before = 32 * read(Special::Warpid);
                low((1 << n_threads.saturating_sub(before).min(32)) - 1)
            }
        }
    }
}

/// A generic address in the shared window becomes an offset in shared memory.
fn global_or_shared(access: MemoryAccess, address: u64) -> Result<(MemoryAccess, u64), Fault> {
    if access.space != Space::Global || address < LOCAL_WINDOW {
        return Ok((access, address));
    }
    if address < SHARED_WINDOW {
        return Err(Fault::Other(format!("an atomic on local memory, generic address {address:#x}")));
    }
    Ok((MemoryAccess { space: Space::Shared, ..access }, address - SHARED_WINDOW))
}

fn join(op: BoolOp, holds: bool, c: bool) -> bool {
    match op {
        BoolOp::And => holds & c,
        BoolOp::Or => holds | c,
        BoolOp::Xor => holds ^ c,
    }
}
