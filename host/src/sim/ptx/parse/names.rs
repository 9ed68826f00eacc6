//! Registers, constants and labels of one kernel: names to slots.

use super::super::error::{PtxError, PtxResult};
use super::super::instruction::{NO_SLOT, Slot};
use super::super::module::Constant;
use super::super::types::Type;
use std::collections::HashMap;

/// A register as an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    /// Its first slot; a 128-bit register takes the next one too.
    pub(crate) slot: Slot,
    /// The type it was declared with.
    pub(crate) ty: Type,
}

/// What a name in a kernel stands for, registers and labels aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    /// Offset in parameter memory.
    Parameter(u32),
    /// Offset in shared memory.
    Shared(u32),
    /// Dynamic shared memory: begins behind the declared one, aligned to so many bytes.
    DynamicShared(u32),
    /// Offset in local memory.
    Local(u32),
    /// Index of a variable of the module.
    Variable(usize),
}

/// One `{ }` block.
#[derive(Default)]
struct Scope<'a> {
    parent: usize,
    registers: HashMap<&'a str, Register>,
    /// `%r<9>`: prefix, type, count. A register gets its slot when it is first named.
    families: Vec<(&'a str, Type, u64)>,
    symbols: HashMap<&'a str, Symbol>,
    labels: HashMap<&'a str, u32>,
}

/// Names of a kernel.
pub(crate) struct Names<'a> {
    scopes: Vec<Scope<'a>>,
    current: usize,
    n_slots: u32,
    constants: HashMap<(u64, Option<usize>), Slot>,
    /// Slots whose value is an offset behind the declared shared memory, with the alignment.
    dynamic: Vec<(Slot, u32)>,
    sink: Option<Slot>,
    carry: Option<Slot>,
}

impl<'a> Names<'a> {
    pub(crate) fn new() -> Self {
        Self {
            scopes: vec![Scope::default()],
            current: 0,
            n_slots: 0,
            constants: HashMap::new(),
            dynamic: Vec::new(),
            sink: None,
            carry: None,
        }
    }

    /// Enters a `{ }` block.
    pub(crate) fn open(&mut self) {
        self.scopes.push(Scope { parent: self.current, ..Scope::default() });
        self.current = self.scopes.len() - 1;
    }

    /// Leaves a block; false if this is the kernel's body.
    pub(crate) fn close(&mut self) -> bool {
        let is_inner = self.current != 0;
        self.current = self.scopes[self.current].parent;
        is_inner
    }

    /// The block that is open now; labels named in it are looked up from there.
    pub(crate) fn scope(&self) -> usize {
        self.current
    }

    /// `.reg TYPE %r<N>` or, with `count` absent, `.reg TYPE name`.
    pub(crate) fn declare(
        &mut self,
        name: &'a str,
        ty: Type,
        count: Option<u64>,
        line: u32,
    ) -> PtxResult<()> {
        match count {
            Some(count) => self.scopes[self.current].families.push((name, ty, count)),
            None => {
                let register = Register { slot: self.allocate(ty, line)?, ty };
                if self.scopes[self.current].registers.insert(name, register).is_some() {
                    return Err(PtxError::new(line, format!("register `{name}` is declared twice")));
                }
            }
        }
        Ok(())
    }

    /// Makes `name` stand for `symbol` in the open block.
    pub(crate) fn declare_symbol(&mut self, name: &'a str, symbol: Symbol) {
        self.scopes[self.current].symbols.insert(name, symbol);
    }

    /// Puts a label at `pc`.
    pub(crate) fn declare_label(&mut self, name: &'a str, pc: u32, line: u32) -> PtxResult<()> {
        match self.scopes[self.current].labels.insert(name, pc) {
            None => Ok(()),
            Some(_) => Err(PtxError::new(line, format!("label `{name}` stands twice in one block"))),
        }
    }

    /// Where a label stands, looked up from `scope` outwards.
    pub(crate) fn label(&self, scope: usize, name: &str) -> Option<u32> {
        self.outwards(scope).find_map(|scope| scope.labels.get(name).copied())
    }

    /// What a name stands for, looked up from the open block outwards.
    pub(crate) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.outwards(self.current).find_map(|scope| scope.symbols.get(name).copied())
    }

    /// The register of a name, looked up from the open block outwards.
    pub(crate) fn register(&mut self, name: &'a str, line: u32) -> PtxResult<Option<Register>> {
        let mut at = self.current;
        loop {
            if let Some(register) = self.scopes[at].registers.get(name) {
                return Ok(Some(*register));
            }
            if let Some(ty) = self.scopes[at].family_type(name) {
                let register = Register { slot: self.allocate(ty, line)?, ty };
                self.scopes[at].registers.insert(name, register);
                return Ok(Some(register));
            }
            if at == 0 {
                return Ok(None);
            }
            at = self.scopes[at].parent;
        }
    }

    fn outwards(&self, from: usize) -> impl Iterator<Item = &Scope<'a>> {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let at = next?;
            next = (at != 0).then(|| self.scopes[at].parent);
            Some(&self.scopes[at])
        })
    }

    fn allocate(&mut self, ty: Type, line: u32) -> PtxResult<Slot> {
        let slot = self.n_slots;
        self.n_slots += if ty == Type::B128 { 2 } else { 1 };
        if self.n_slots > u32::from(NO_SLOT) {
            return Err(PtxError::new(
                line,
                format!("the kernel needs more than {NO_SLOT} registers and constants"),
            ));
        }
        Ok(slot as Slot)
    }

    /// A slot that always holds `value`, plus a variable's address.
    pub(crate) fn constant(&mut self, value: u64, variable: Option<usize>, line: u32) -> PtxResult<Slot> {
        if let Some(slot) = self.constants.get(&(value, variable)) {
            return Ok(*slot);
        }
        let slot = self.allocate(Type::B64, line)?;
        self.constants.insert((value, variable), slot);
        Ok(slot)
    }

    /// A slot that holds the address of dynamic shared memory.
    pub(crate) fn dynamic_shared(&mut self, align_bytes: u32, line: u32) -> PtxResult<Slot> {
        if let Some((slot, _)) = self.dynamic.iter().find(|(_, align)| *align == align_bytes) {
            return Ok(*slot);
        }
        let slot = self.allocate(Type::B64, line)?;
        self.dynamic.push((slot, align_bytes));
        Ok(slot)
    }

    /// The slot that `_` writes to.
    pub(crate) fn sink(&mut self, line: u32) -> PtxResult<Slot> {
        let slot = self.sink.map_or_else(|| self.allocate(Type::B128, line), Ok)?;
        self.sink = Some(slot);
        Ok(slot)
    }

    /// The carry flag.
    pub(crate) fn carry(&mut self, line: u32) -> PtxResult<Slot> {
        let slot = self.carry.map_or_else(|| self.allocate(Type::B64, line), Ok)?;
        self.carry = Some(slot);
        Ok(slot)
    }

    /// Number of slots and the constants among them, once the kernel has been read.
    pub(crate) fn finish(self, shared_bytes: u32) -> (u32, Vec<Constant>) {
        let dynamic = self.dynamic.iter().map(|(slot, align)| Constant {
            slot: *slot,
            value: u64::from(shared_bytes).next_multiple_of(u64::from(*align)),
            variable: None,
        });
        let constants = self.constants.iter().map(|((value, variable), slot)| Constant {
            slot: *slot,
            value: *value,
            variable: *variable,
        });
        let mut all: Vec<Constant> = constants.chain(dynamic).collect();
        all.sort_by_key(|constant| constant.slot);
        (self.n_slots, all)
    }
}

impl Scope<'_> {
    fn family_type(&self, name: &str) -> Option<Type> {
        self.families.iter().find_map(|(prefix, ty, count)| {
            let digits = name.strip_prefix(prefix)?;
            let is_plain = digits == "0" || !digits.starts_with('0');
            let index: u64 = digits.parse().ok().filter(|_| is_plain && !digits.starts_with('+'))?;
            (index < *count).then_some(*ty)
        })
    }
}
