//! Operands of instructions (PTX ISA 6).

use super::super::cursor::Cursor;
use super::super::error::PtxResult;
use super::super::token::TokenKind;
use super::names::{Names, Register, Symbol};

/// An operand as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operand<'a> {
    /// A register.
    Register(Register),
    /// `!%p`.
    Not(Register),
    /// A special register, with its `%`.
    Special(&'a str),
    /// A number's bits: an integer in two's complement.
    Integer(u64),
    /// `0f…`, and a `0d…` literal rounded where an f32 is wanted.
    Float32(u32),
    /// `0d…`.
    Float64(u64),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `[base+offset]`.
    Address(Base, i64),
    /// A variable's or parameter's name, with an offset.
    Symbol(Symbol, i64),
    /// A label.
    Label(&'a str),
    /// `_`.
    Sink,
    /// `a|b`.
    Pair(Box<(Operand<'a>, Operand<'a>)>),
}

/// Start of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// A register.
    Register(Register),
    /// A variable or parameter.
    Symbol(Symbol),
    /// 0.
    Absolute,
}

/// A number with its sign, if the next tokens are one. Floats give their bits.
pub(crate) fn literal(cursor: &mut Cursor<'_>) -> PtxResult<Option<u64>> {
    Ok(match number(cursor)? {
        Some(Operand::Integer(bits) | Operand::Float64(bits)) => Some(bits),
        Some(Operand::Float32(bits)) => Some(bits.into()),
        _ => None,
    })
}

fn number<'a>(cursor: &mut Cursor<'a>) -> PtxResult<Option<Operand<'a>>> {
    let is_negative = cursor.eat(b'-');
    let Some(TokenKind::Number(text)) = cursor.peek() else {
        return if is_negative { Err(cursor.unexpected("a number")) } else { Ok(None) };
    };
    let float = |prefix: [&str; 2]| {
        let digits = text.strip_prefix(prefix[0]).or_else(|| text.strip_prefix(prefix[1]))?;
        u64::from_str_radix(digits, 16).ok().map(|bits| (bits, digits.len()))
    };
    let operand = match (float(["0f", "0F"]), float(["0d", "0D"])) {
        (Some((bits, 8)), _) if !is_negative => Operand::Float32(bits as u32),
        (_, Some((bits, 16))) if !is_negative => Operand::Float64(bits),
        _ => {
            let value = super::integer_of(text).ok_or_else(|| cursor.unexpected("a number"))?;
            Operand::Integer(if is_negative { value.wrapping_neg() } else { value })
        }
    };
    cursor.next()?;
    Ok(Some(operand))
}

/// Reads operands; `symbol` finds variables of the module.
pub(crate) struct OperandReader<'r, 'a> {
    pub(crate) cursor: &'r mut Cursor<'a>,
    pub(crate) names: &'r mut Names<'a>,
    pub(crate) global: &'r mut dyn FnMut(&'a str) -> Option<Symbol>,
}

impl<'a> OperandReader<'_, 'a> {
    /// `a, b, c;` with the semicolon.
    pub(crate) fn list(&mut self) -> PtxResult<Vec<Operand<'a>>> {
        let mut operands = Vec::new();
        if self.cursor.eat(b';') {
            return Ok(operands);
        }
        loop {
            operands.push(self.operand()?);
            if self.cursor.eat(b';') {
                return Ok(operands);
            }
            self.cursor.expect(b',')?;
        }
    }

    fn operand(&mut self) -> PtxResult<Operand<'a>> {
        let first = match self.cursor.peek() {
            Some(TokenKind::Punct(b'{')) => self.vector()?,
            Some(TokenKind::Punct(b'[')) => self.address()?,
            Some(TokenKind::Punct(b'!')) => self.negated()?,
            Some(TokenKind::Word(_)) => self.name()?,
            _ => match number(self.cursor)? {
                Some(operand) => operand,
                None => return Err(self.cursor.unexpected("an operand")),
            },
        };
        if !self.cursor.eat(b'|') {
            return Ok(first);
        }
        let second = self.name()?;
        Ok(Operand::Pair(Box::new((first, second))))
    }

    /// Elements are scalars, so that nesting has an end.
    fn vector(&mut self) -> PtxResult<Operand<'a>> {
        self.cursor.expect(b'{')?;
        let mut elements = Vec::new();
        loop {
            let element = match self.cursor.peek() {
                Some(TokenKind::Word(_)) => self.name()?,
                _ => match number(self.cursor)? {
                    Some(operand) => operand,
                    None => return Err(self.cursor.unexpected("an element")),
                },
            };
            elements.push(element);
            if self.cursor.eat(b'}') {
                return Ok(Operand::Vector(elements));
            }
            self.cursor.expect(b',')?;
        }
    }

    fn address(&mut self) -> PtxResult<Operand<'a>> {
        self.cursor.expect(b'[')?;
        let base = match self.cursor.peek() {
            Some(TokenKind::Word(_)) => match self.plain_name()? {
                Operand::Register(register) => Base::Register(register),
                Operand::Symbol(symbol, _) => Base::Symbol(symbol),
                _ => {
                    return Err(self
                        .cursor
                        .error("the address does not begin with a register or a variable"));
                }
            },
            _ => Base::Absolute,
        };
        let offset = if base == Base::Absolute { self.signed()? } else { self.offset()? };
        self.cursor.expect(b']')?;
        Ok(Operand::Address(base, offset))
    }

    /// `+8`, `-8`, `+-8`, or nothing.
    fn offset(&mut self) -> PtxResult<i64> {
        let is_plus = self.cursor.eat(b'+');
        if !is_plus && self.cursor.peek() != Some(TokenKind::Punct(b'-')) {
            return Ok(0);
        }
        self.signed()
    }

    fn signed(&mut self) -> PtxResult<i64> {
        match number(self.cursor)? {
            Some(Operand::Integer(bits)) => Ok(bits as i64),
            _ => Err(self.cursor.unexpected("an offset in bytes")),
        }
    }

    fn negated(&mut self) -> PtxResult<Operand<'a>> {
        self.cursor.expect(b'!')?;
        match self.name()? {
            Operand::Register(register) => Ok(Operand::Not(register)),
            _ => Err(self.cursor.error("`!` stands before a predicate register only")),
        }
    }

    fn name(&mut self) -> PtxResult<Operand<'a>> {
        let operand = self.plain_name()?;
        match operand {
            Operand::Symbol(symbol, _) => Ok(Operand::Symbol(symbol, self.offset()?)),
            other => Ok(other),
        }
    }

    fn plain_name(&mut self) -> PtxResult<Operand<'a>> {
        let line = self.cursor.line();
        let name = self.cursor.word()?;
        if name == "_" {
            return Ok(Operand::Sink);
        }
        if let Some(register) = self.names.register(name, line)? {
            return Ok(Operand::Register(register));
        }
        if let Some(symbol) = self.names.symbol(name).or_else(|| (self.global)(name)) {
            return Ok(Operand::Symbol(symbol, 0));
        }
        if name.starts_with('%') {
            return Ok(Operand::Special(name));
        }
        Ok(Operand::Label(name))
    }
}
