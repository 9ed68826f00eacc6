//! A kernel: parameters, directives, statements (PTX ISA 11.2, 7.1).

use super::super::decode::{Emitter, Fixup, Statement, decode};
use super::super::error::{PtxError, PtxResult};
use super::super::instruction::Instruction;
use super::super::mnemonic::Mnemonic;
use super::super::module::Kernel;
use super::super::registers::assign;
use super::super::token::TokenKind;
use super::super::types::Type;
use super::names::{Names, Symbol};
use super::operand::{Operand, OperandReader};
use super::variable::declaration;
use super::{Global, ModuleParser};
use std::collections::HashMap;
use std::sync::Arc;

/// The most bytes of shared memory that any GPU has, with room; more is a damaged text.
const MAX_SHARED_BYTES: u32 = 1 << 24;

struct Body<'m, 'a> {
    module: &'m mut ModuleParser<'a>,
    names: Names<'a>,
    emitter: Emitter<'a>,
    /// Shared variables of the module that this kernel names, where it has put them.
    shared: HashMap<&'a str, Symbol>,
    shared_bytes: u32,
    local_bytes: u32,
    param_bytes: u32,
    max_threads: Option<[u32; 3]>,
    exact_threads: bool,
}

/// Reads a kernel; `.entry` has been read.
pub(super) fn entry(module: &mut ModuleParser<'_>) -> PtxResult<Kernel> {
    let name = module.cursor.word()?.to_owned();
    let mut body = Body {
        module,
        names: Names::new(),
        emitter: Emitter::default(),
        shared: HashMap::new(),
        shared_bytes: 0,
        local_bytes: 0,
        param_bytes: 0,
        max_threads: None,
        exact_threads: false,
    };
    body.parameters()?;
    body.limits()?;
    body.module.cursor.expect(b'{')?;
    while body.statement()? {}
    body.finish(name)
}

impl<'a> Body<'_, 'a> {
    fn finish(mut self, name: String) -> PtxResult<Kernel> {
        // A kernel whose last statement is not a jump ends there.
        let line = self.module.cursor.line();
        self.emitter.start(line, None);
        self.emitter.push(Instruction::Exit);
        self.emitter.resolve(&self.names)?;
        let (n_slots, mut constants) = self.names.finish(self.shared_bytes);
        let n_registers = assign(&mut self.emitter.code, &self.emitter.tables, &mut constants, n_slots);
        Ok(Kernel {
            name,
            param_bytes: self.param_bytes,
            n_registers,
            shared_bytes: self.shared_bytes,
            local_bytes: self.local_bytes,
            max_threads: self.max_threads,
            exact_threads: self.exact_threads,
            code: self.emitter.code,
            branch_tables: self.emitter.tables,
            constants,
            lines: self.emitter.lines,
            source: Arc::default(),
        })
    }

    fn parameters(&mut self) -> PtxResult<()> {
        if !self.module.cursor.eat(b'(') || self.module.cursor.eat(b')') {
            return Ok(());
        }
        loop {
            if !self.module.cursor.eat_word(".param") {
                return Err(self.module.cursor.unexpected("`.param`"));
            }
            let declared = declaration(&mut self.module.cursor)?;
            let offset = place(&mut self.param_bytes, declared.align_bytes, declared.len_bytes)
                .filter(|_| self.param_bytes <= 1 << 16)
                .ok_or_else(|| self.module.cursor.error("the parameters are larger than 65536 bytes"))?;
            self.names.declare_symbol(declared.name, Symbol::Parameter(offset));
            if self.module.cursor.eat(b')') {
                return Ok(());
            }
            self.module.cursor.expect(b',')?;
        }
    }

    /// Directives between the parameters and the body (PTX ISA 11.4).
    fn limits(&mut self) -> PtxResult<()> {
        while let Some(TokenKind::Word(word)) = self.module.cursor.peek() {
            self.module.cursor.next()?;
            match word {
                ".maxntid" => self.max_threads = Some(self.three()?),
                ".reqntid" => {
                    self.max_threads = Some(self.three()?);
                    self.exact_threads = true;
                }
                // Hints to the assembler about registers and occupancy.
                ".minnctapersm" | ".maxnctapersm" | ".maxnreg" => drop(self.three()?),
                _ => return Err(self.module.cursor.error(format!("unknown directive `{word}` of a kernel"))),
            }
        }
        Ok(())
    }

    fn three(&mut self) -> PtxResult<[u32; 3]> {
        let mut sizes = [self.module.cursor.integer32()?, 1, 1];
        for size in &mut sizes[1..] {
            if self.module.cursor.eat(b',') {
                *size = self.module.cursor.integer32()?;
            }
        }
        Ok(sizes)
    }

    /// One statement; false when the body has ended.
    fn statement(&mut self) -> PtxResult<bool> {
        let line = self.module.cursor.line();
        match self.module.cursor.peek() {
            Some(TokenKind::Punct(b'}')) => {
                self.module.cursor.next()?;
                return Ok(self.names.close());
            }
            Some(TokenKind::Punct(b'{')) => {
                self.module.cursor.next()?;
                self.names.open();
            }
            Some(TokenKind::Punct(b';')) => drop(self.module.cursor.next()?),
            Some(TokenKind::Punct(b'@')) => self.guarded(line)?,
            Some(TokenKind::Word(word))
                if self.module.cursor.peek_second() == Some(TokenKind::Punct(b':')) =>
            {
                self.label(word, line)?;
            }
            Some(TokenKind::Word(word)) if word.starts_with('.') => self.directive(line)?,
            _ => self.instruction(line, None)?,
        }
        Ok(true)
    }

    fn label(&mut self, name: &'a str, line: u32) -> PtxResult<()> {
        self.module.cursor.next()?;
        self.module.cursor.next()?;
        if !self.module.cursor.eat_word(".branchtargets") {
            return self.names.declare_label(name, self.emitter.pc(), line);
        }
        let mut targets = Vec::new();
        loop {
            targets.push(self.module.cursor.word()?);
            if self.module.cursor.eat(b';') {
                break;
            }
            self.module.cursor.expect(b',')?;
        }
        self.emitter.declare_table(name, targets, self.names.scope(), line)
    }

    fn directive(&mut self, line: u32) -> PtxResult<()> {
        match self.module.cursor.word()? {
            ".reg" => self.registers(line),
            ".loc" => self.location(line),
            ".local" => {
                let declared = declaration(&mut self.module.cursor)?;
                let offset = place(&mut self.local_bytes, declared.align_bytes, declared.len_bytes)
                    .filter(|_| self.local_bytes <= 1 << 19)
                    .ok_or_else(|| PtxError::new(line, "local memory is larger than 512 KiB a thread"))?;
                self.names.declare_symbol(declared.name, Symbol::Local(offset));
                self.module.cursor.expect(b';')
            }
            ".shared" => {
                let declared = declaration(&mut self.module.cursor)?;
                let symbol = self.place_shared(declared.align_bytes, declared.len_bytes, declared.is_open);
                let symbol = symbol.ok_or_else(|| PtxError::new(line, "too much shared memory"))?;
                self.names.declare_symbol(declared.name, symbol);
                self.module.cursor.expect(b';')
            }
            ".pragma" => {
                while !self.module.cursor.eat(b';') {
                    self.module.cursor.next()?;
                }
                Ok(())
            }
            other => Err(PtxError::new(line, format!("unknown directive `{other}` in a kernel"))),
        }
    }

    /// `.reg .b32 %r<4>, name;`
    fn registers(&mut self, line: u32) -> PtxResult<()> {
        let word = self.module.cursor.word()?;
        let ty = word.strip_prefix('.').and_then(Type::parse);
        let ty = ty
            .ok_or_else(|| PtxError::new(line, format!("`{word}` is not a type that a register may have")))?;
        loop {
            let name = self.module.cursor.word()?;
            let count = if self.module.cursor.eat(b'<') {
                let count = self.module.cursor.integer()?;
                self.module.cursor.expect(b'>')?;
                Some(count)
            } else {
                None
            };
            self.names.declare(name, ty, count, line)?;
            if self.module.cursor.eat(b';') {
                return Ok(());
            }
            self.module.cursor.expect(b',')?;
        }
    }

    /// `.loc 1 8 0`, `.loc 1 8 0, function_name $L__info, inlined_at 2 5 3`.
    fn location(&mut self, line: u32) -> PtxResult<()> {
        let mut inlined_at = None;
        let (file, source_line) = (self.module.cursor.integer32()?, self.module.cursor.integer32()?);
        while self.module.cursor.is_on(line) {
            if self.module.cursor.eat_word("inlined_at") {
                inlined_at = Some((self.module.cursor.integer32()?, self.module.cursor.integer32()?));
            } else {
                self.module.cursor.next()?;
            }
        }
        self.emitter.set_source((file, source_line), inlined_at);
        Ok(())
    }

    /// `@%p` or `@!%p` and the instruction behind it.
    fn guarded(&mut self, line: u32) -> PtxResult<()> {
        self.module.cursor.expect(b'@')?;
        let negate = self.module.cursor.eat(b'!');
        let name = self.module.cursor.word()?;
        match self.names.register(name, line)? {
            Some(register) if register.ty == Type::Pred => {
                self.instruction(line, Some((register.slot, negate)))
            }
            _ => Err(PtxError::new(line, format!("`{name}` is not a predicate"))),
        }
    }

    fn instruction(&mut self, line: u32, guard: Option<(u16, bool)>) -> PtxResult<()> {
        let name = self.module.cursor.word()?;
        let operands = self.operands()?;
        self.emitter.start(line, guard);
        let statement = Statement { mnemonic: Mnemonic::new(name, line), operands };
        decode(statement, &mut self.names, &mut self.emitter)
    }

    fn operands(&mut self) -> PtxResult<Vec<Operand<'a>>> {
        let Self { module, names, shared, shared_bytes, .. } = self;
        let ModuleParser { cursor, globals, .. } = &mut **module;
        let mut global = |name: &'a str| {
            if let Some(symbol) = shared.get(name) {
                return Some(*symbol);
            }
            let symbol = match globals.get(name)? {
                Global::Variable(index) => Symbol::Variable(*index),
                Global::Shared { align_bytes, dynamic: true, .. } => Symbol::DynamicShared(*align_bytes),
                Global::Shared { align_bytes, len_bytes, .. } => {
                    Symbol::Shared(place(shared_bytes, *align_bytes, *len_bytes)?)
                }
            };
            shared.insert(name, symbol);
            Some(symbol)
        };
        OperandReader { cursor, names, global: &mut global }.list()
    }

    fn place_shared(&mut self, align_bytes: u32, len_bytes: u32, is_open: bool) -> Option<Symbol> {
        if is_open {
            return Some(Symbol::DynamicShared(align_bytes));
        }
        place(&mut self.shared_bytes, align_bytes, len_bytes)
            .filter(|_| self.shared_bytes <= MAX_SHARED_BYTES)
            .map(Symbol::Shared)
    }
}

/// Appends `len_bytes` to an area and gives the offset.
fn place(area: &mut u32, align_bytes: u32, len_bytes: u32) -> Option<u32> {
    let offset = area.checked_next_multiple_of(align_bytes)?;
    *area = offset.checked_add(len_bytes)?;
    Some(offset)
}

impl Fixup<'_> {
    /// The error of a label that does not exist.
    pub(crate) fn missing(&self) -> PtxError {
        PtxError::new(self.line, format!("there is no label `{}` here", self.label))
    }
}
