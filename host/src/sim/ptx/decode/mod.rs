//! A statement to instructions. What is not known is an error that names it.

mod arithmetic;
mod control;
mod conversion;
mod floating;
mod memory;
mod moves;
mod multimem;
mod predicate;
mod warp;

use super::error::{PtxError, PtxResult};
use super::instruction::{Instruction, Slot};
use super::mnemonic::Mnemonic;
use super::module::LineEntry;
use super::parse::names::{Names, Register, Symbol};
use super::parse::operand::{Base, Operand};
use super::types::Type;

/// An instruction as written, its guard aside.
pub(crate) struct Statement<'a> {
    pub(crate) mnemonic: Mnemonic<'a>,
    pub(crate) operands: Vec<Operand<'a>>,
}

/// A jump whose target is not yet known.
pub(crate) struct Fixup<'a> {
    pub(crate) pc: u32,
    pub(crate) scope: usize,
    pub(crate) label: &'a str,
    pub(crate) line: u32,
}

/// Collects the instructions of a kernel.
#[derive(Default)]
pub(crate) struct Emitter<'a> {
    pub(crate) code: Vec<Instruction>,
    pub(crate) lines: Vec<LineEntry>,
    pub(crate) tables: Vec<Vec<u32>>,
    table_names: Vec<&'a str>,
    table_fixups: Vec<Vec<Fixup<'a>>>,
    fixups: Vec<Fixup<'a>>,
    line: u32,
    guard: Option<(Slot, bool)>,
    source: Option<(u32, u32)>,
    inlined_at: Option<(u32, u32)>,
}

impl<'a> Emitter<'a> {
    /// Begins a statement.
    pub(crate) fn start(&mut self, line: u32, guard: Option<(Slot, bool)>) {
        self.line = line;
        self.guard = guard;
    }

    /// The program counter of the next instruction.
    pub(crate) fn pc(&self) -> u32 {
        self.code.len() as u32
    }

    /// Sets the `.loc` of what follows.
    pub(crate) fn set_source(&mut self, source: (u32, u32), inlined_at: Option<(u32, u32)>) {
        self.source = Some(source);
        self.inlined_at = inlined_at;
    }

    /// Appends an instruction, behind the statement's guard if it has one.
    pub(crate) fn push(&mut self, instruction: Instruction) {
        if let Some((predicate, negate)) = self.guard {
            self.push_bare(Instruction::Guard { predicate, negate });
        }
        self.push_bare(instruction);
    }

    fn push_bare(&mut self, instruction: Instruction) {
        self.code.push(instruction);
        self.lines.push(LineEntry { ptx_line: self.line, source: self.source, inlined_at: self.inlined_at });
    }

    /// Appends a jump to `label`, which takes the guard into itself.
    fn push_branch(&mut self, label: &'a str, scope: usize) {
        self.fixups.push(Fixup { pc: self.pc(), scope, label, line: self.line });
        let target = u32::MAX;
        self.push_bare(match self.guard {
            Some((predicate, negate)) => Instruction::BranchIf { predicate, negate, target },
            None => Instruction::Branch { target },
        });
    }

    /// A `.branchtargets` list.
    pub(crate) fn declare_table(
        &mut self,
        name: &'a str,
        targets: Vec<&'a str>,
        scope: usize,
        line: u32,
    ) -> PtxResult<()> {
        if self.table_names.contains(&name) {
            return Err(PtxError::new(line, format!("`{name}` is declared twice")));
        }
        self.table_names.push(name);
        self.table_fixups
            .push(targets.into_iter().map(|label| Fixup { pc: 0, scope, label, line }).collect());
        Ok(())
    }

    fn table(&self, name: &str) -> Option<u32> {
        self.table_names.iter().position(|table| *table == name).map(|index| index as u32)
    }

    /// Puts the targets into the jumps.
    pub(crate) fn resolve(&mut self, names: &Names<'a>) -> PtxResult<()> {
        let find = |fixup: &Fixup<'a>| names.label(fixup.scope, fixup.label).ok_or_else(|| fixup.missing());
        for fixup in &self.fixups {
            let address = find(fixup)?;
            match &mut self.code[fixup.pc as usize] {
                Instruction::Branch { target } | Instruction::BranchIf { target, .. } => *target = address,
                _ => {}
            }
        }
        self.tables = self
            .table_fixups
            .iter()
            .map(|table| table.iter().map(find).collect())
            .collect::<PtxResult<_>>()?;
        Ok(())
    }
}

/// What the decoders work with: one statement, taken apart as they go.
pub(crate) struct Decoder<'d, 'a> {
    pub(crate) mnemonic: Mnemonic<'a>,
    operands: Vec<Operand<'a>>,
    names: &'d mut Names<'a>,
    emitter: &'d mut Emitter<'a>,
}

/// Decodes `statement` and appends what it means.
pub(crate) fn decode<'a>(
    statement: Statement<'a>,
    names: &mut Names<'a>,
    emitter: &mut Emitter<'a>,
) -> PtxResult<()> {
    let mut decoder = Decoder { mnemonic: statement.mnemonic, operands: statement.operands, names, emitter };
    let known = arithmetic::decode(&mut decoder)?
        || floating::decode(&mut decoder)?
        || predicate::decode(&mut decoder)?
        || moves::decode(&mut decoder)?
        || conversion::decode(&mut decoder)?
        || memory::decode(&mut decoder)?
        || multimem::decode(&mut decoder)?
        || control::decode(&mut decoder)?
        || warp::decode(&mut decoder)?;
    if known { Ok(()) } else { Err(decoder.mnemonic.unknown()) }
}

impl<'a> Decoder<'_, 'a> {
    fn error(&self, message: impl Into<String>) -> PtxError {
        self.mnemonic.error(format!("`{}`: {}", self.mnemonic.text, message.into()))
    }

    /// Checks that every modifier was understood and that there are `n` operands.
    fn expect_operands(&self, n: usize) -> PtxResult<()> {
        self.mnemonic.finish()?;
        if self.operands.len() == n {
            return Ok(());
        }
        Err(self.error(format!("{n} operands expected, {} found", self.operands.len())))
    }

    fn push(&mut self, instruction: Instruction) -> PtxResult<bool> {
        self.emitter.push(instruction);
        Ok(true)
    }

    fn constant(&mut self, value: u64) -> PtxResult<Slot> {
        self.names.constant(value, None, self.mnemonic.line)
    }

    /// The slot that operand `index` writes, of exactly the width of `ty`.
    fn destination(&mut self, index: usize, ty: Type) -> PtxResult<Slot> {
        let operand = self.operands[index].clone();
        self.destination_of(&operand, ty)
    }

    fn destination_of(&mut self, operand: &Operand<'a>, ty: Type) -> PtxResult<Slot> {
        match operand {
            Operand::Register(register) => self.fitting(*register, ty),
            Operand::Sink => self.names.sink(self.mnemonic.line),
            _ => Err(self.error("the destination is not a register")),
        }
    }

    fn fitting(&self, register: Register, ty: Type) -> PtxResult<Slot> {
        if register.ty.bits() == ty.bits() {
            return Ok(register.slot);
        }
        Err(self.error(format!("a register of {} bits where {} are needed", register.ty.bits(), ty.bits())))
    }

    /// The slot that operand `index` is read from, of exactly the width of `ty`.
    fn source(&mut self, index: usize, ty: Type) -> PtxResult<Slot> {
        let operand = self.operands[index].clone();
        self.source_of(&operand, ty)
    }

    fn source_of(&mut self, operand: &Operand<'a>, ty: Type) -> PtxResult<Slot> {
        match operand {
            Operand::Register(register) => self.fitting(*register, ty),
            Operand::Integer(bits) if !matches!(ty, Type::F32 | Type::F64 | Type::B128) => {
                self.constant(bits & ty.mask())
            }
            Operand::Float32(bits) if ty.bits() == 32 => self.constant((*bits).into()),
            Operand::Float64(bits) if ty.bits() == 64 => self.constant(*bits),
            Operand::Symbol(symbol, offset) if matches!(ty.bits(), 32 | 64) => self.symbol(*symbol, *offset),
            Operand::Special(name) => Err(self.error(format!("unknown register `{name}`"))),
            Operand::Label(name) => Err(self.error(format!("unknown name `{name}`"))),
            _ => Err(self.error("an operand of the wrong kind")),
        }
    }

    /// A predicate source, and whether it is negated.
    fn predicate(&self, operand: &Operand<'a>) -> PtxResult<(Slot, bool)> {
        match operand {
            Operand::Register(register) if register.ty == Type::Pred => Ok((register.slot, false)),
            Operand::Not(register) if register.ty == Type::Pred => Ok((register.slot, true)),
            _ => Err(self.error("the operand is not a predicate")),
        }
    }

    /// A slot with the address of a symbol in its own space.
    fn symbol(&mut self, symbol: Symbol, offset: i64) -> PtxResult<Slot> {
        let line = self.mnemonic.line;
        match symbol {
            Symbol::Parameter(base) | Symbol::Shared(base) | Symbol::Local(base) => {
                self.constant(u64::from(base).wrapping_add_signed(offset))
            }
            Symbol::Variable(index) => self.names.constant(offset as u64, Some(index), line),
            Symbol::DynamicShared(align_bytes) if offset == 0 => self.names.dynamic_shared(align_bytes, line),
            Symbol::DynamicShared(_) => {
                Err(self.error("an offset from dynamic shared memory must be added apart"))
            }
        }
    }

    /// Address operand `index` as a slot and an offset in bytes.
    fn address(&mut self, index: usize) -> PtxResult<(Slot, i32)> {
        let Operand::Address(base, offset) = self.operands[index].clone() else {
            return Err(self.error("an address in `[ ]` is needed"));
        };
        let small = i32::try_from(offset).map_err(|_| self.error("the offset does not fit in 32 bits"));
        match base {
            Base::Register(register) if matches!(register.ty.bits(), 32 | 64) => Ok((register.slot, small?)),
            Base::Register(_) => Err(self.error("the address register has neither 32 nor 64 bits")),
            Base::Symbol(symbol @ Symbol::DynamicShared(_)) => Ok((self.symbol(symbol, 0)?, small?)),
            Base::Symbol(symbol) => Ok((self.symbol(symbol, offset)?, 0)),
            Base::Absolute => Ok((self.constant(offset as u64)?, 0)),
        }
    }
}
