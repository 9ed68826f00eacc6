//! Declarations of variables (PTX ISA 5.4).

use super::super::cursor::Cursor;
use super::super::error::PtxResult;
use super::super::module::Variable;
use super::super::types::Type;
use super::{Global, ModuleParser};

/// The largest variable that is read; a larger one is a damaged text.
const MAX_BYTES: u64 = 1 << 30;

/// `.align N .b8 name[SIZE]`, without what comes behind.
pub(crate) struct Declaration<'a> {
    pub(crate) name: &'a str,
    pub(crate) element: Type,
    pub(crate) align_bytes: u32,
    pub(crate) len_bytes: u32,
    /// `name[]`.
    pub(crate) is_open: bool,
}

/// Reads what stands behind the state space.
pub(crate) fn declaration<'a>(cursor: &mut Cursor<'a>) -> PtxResult<Declaration<'a>> {
    let mut align = None;
    let mut vector = 1;
    let element = loop {
        let word = cursor.word()?;
        match word {
            ".align" => align = Some(cursor.integer32()?),
            ".v2" => vector = 2,
            ".v4" => vector = 4,
            ".ptr" | ".global" | ".shared" | ".const" | ".local" => {}
            _ => match word.strip_prefix('.').and_then(Type::parse) {
                Some(ty) => break ty,
                None => return Err(cursor.error(format!("`{word}` is not a type that a variable may have"))),
            },
        }
    };
    // `.param .u64 .ptr .global .align 16 name`: attributes of a pointer do not change the variable.
    while cursor.eat_word(".ptr") || cursor.eat_word(".global") || cursor.eat_word(".shared") {}
    if cursor.eat_word(".align") {
        cursor.integer32()?;
    }
    let name = cursor.word()?;
    let (count, is_open) = dimensions(cursor)?;
    let len = count.checked_mul(u64::from(element.bytes() * vector)).filter(|len| *len <= MAX_BYTES);
    let len_bytes =
        len.ok_or_else(|| cursor.error(format!("`{name}` is larger than {MAX_BYTES} bytes")))? as u32;
    let align_bytes = align.unwrap_or(element.bytes() * vector);
    if !align_bytes.is_power_of_two() || align_bytes > 1 << 16 {
        return Err(
            cursor.error(format!("alignment {align_bytes} of `{name}` is not a power of two up to 65536"))
        );
    }
    Ok(Declaration { name, element, align_bytes, len_bytes, is_open })
}

/// Number of elements, and whether a dimension was left open.
fn dimensions(cursor: &mut Cursor<'_>) -> PtxResult<(u64, bool)> {
    let mut count = 1u64;
    let mut is_open = false;
    while cursor.eat(b'[') {
        if cursor.eat(b']') {
            is_open = true;
            count = 0;
            continue;
        }
        let size = cursor.integer()?;
        count = count.checked_mul(size).ok_or_else(|| cursor.error("the array is too large"))?;
        cursor.expect(b']')?;
    }
    Ok((count, is_open))
}

impl<'a> ModuleParser<'a> {
    /// A variable of the module; `space` has been read.
    pub(super) fn variable(&mut self, space: &str, is_extern: bool) -> PtxResult<()> {
        let declared = declaration(&mut self.cursor)?;
        let mut bytes = Vec::new();
        if space != ".shared" {
            bytes = vec![0; declared.len_bytes as usize];
            if self.cursor.eat(b'=') {
                self.initializer(&declared, &mut bytes)?;
            }
        }
        self.cursor.expect(b';')?;
        let global = if space == ".shared" {
            let Declaration { align_bytes, len_bytes, .. } = declared;
            Global::Shared { align_bytes, len_bytes, dynamic: is_extern || declared.is_open }
        } else {
            self.variables.push(Variable {
                name: declared.name.to_owned(),
                align_bytes: declared.align_bytes,
                bytes,
                read_only: space == ".const",
            });
            Global::Variable(self.variables.len() - 1)
        };
        match self.globals.insert(declared.name, global) {
            None => Ok(()),
            Some(_) => Err(self.cursor.error(format!("`{}` is declared twice", declared.name))),
        }
    }

    /// `= 5` or `= {1, 2, -3}`; elements left out are 0.
    fn initializer(&mut self, declared: &Declaration<'_>, bytes: &mut [u8]) -> PtxResult<()> {
        let is_list = self.cursor.eat(b'{');
        let width = declared.element.bytes() as usize;
        let mut at = 0;
        loop {
            let value = self.initial_value(declared.name)?;
            let target = bytes.get_mut(at..at + width);
            let target = target
                .ok_or_else(|| self.cursor.error(format!("`{}` has too many values", declared.name)))?;
            target.copy_from_slice(&value.to_le_bytes()[..width]);
            at += width;
            if !is_list {
                return Ok(());
            }
            if !self.cursor.eat(b',') {
                return self.cursor.expect(b'}');
            }
        }
    }

    fn initial_value(&mut self, name: &str) -> PtxResult<u128> {
        match super::operand::literal(&mut self.cursor)? {
            Some(bits) => Ok(bits.into()),
            None => Err(self.cursor.unexpected(&format!("a number (`{name}` may not hold addresses)"))),
        }
    }
}
