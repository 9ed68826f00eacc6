//! A position in the tokens of a PTX text.

use super::error::{PtxError, PtxResult};
use super::token::{Token, TokenKind};

/// Reads tokens one after the other.
pub(crate) struct Cursor<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(tokens: Vec<Token<'a>>) -> Self {
        Self { tokens, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<TokenKind<'a>> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    pub(crate) fn peek_second(&self) -> Option<TokenKind<'a>> {
        self.tokens.get(self.at + 1).map(|token| token.kind)
    }

    /// Line of the next token, or of the last one at the end of the text.
    pub(crate) fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |token| token.line)
    }

    pub(crate) fn next(&mut self) -> PtxResult<TokenKind<'a>> {
        let token =
            self.peek().ok_or_else(|| self.error("the text ends here, in the middle of something"))?;
        self.at += 1;
        Ok(token)
    }

    /// Whether the next token is this character; steps over it if so.
    pub(crate) fn eat(&mut self, punct: u8) -> bool {
        let there = self.peek() == Some(TokenKind::Punct(punct));
        self.at += usize::from(there);
        there
    }

    /// Whether the next token is this word; steps over it if so.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(TokenKind::Word(word));
        self.at += usize::from(there);
        there
    }

    pub(crate) fn expect(&mut self, punct: u8) -> PtxResult<()> {
        if self.eat(punct) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{}`", char::from(punct))))
    }

    pub(crate) fn word(&mut self) -> PtxResult<&'a str> {
        match self.peek() {
            Some(TokenKind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// An unsigned decimal or hexadecimal number.
    pub(crate) fn integer(&mut self) -> PtxResult<u64> {
        let Some(TokenKind::Number(text)) = self.peek() else { return Err(self.unexpected("a number")) };
        let value = parse_integer(text).ok_or_else(|| self.unexpected("an integer of at most 64 bits"))?;
        self.at += 1;
        Ok(value)
    }

    /// As [`Cursor::integer`], of at most 32 bits.
    pub(crate) fn integer32(&mut self) -> PtxResult<u32> {
        let start = self.at;
        u32::try_from(self.integer()?).map_err(|_| {
            self.at = start;
            self.unexpected("an integer of at most 32 bits")
        })
    }

    /// Steps over the rest of a directive that ends with its line.
    pub(crate) fn skip_line(&mut self, line: u32) {
        while self.tokens.get(self.at).is_some_and(|token| token.line == line) {
            self.at += 1;
        }
    }

    /// Whether the next token stands on `line`.
    pub(crate) fn is_on(&self, line: u32) -> bool {
        self.tokens.get(self.at).is_some_and(|token| token.line == line)
    }

    /// Steps over a `{ … }` block with the blocks inside it.
    pub(crate) fn skip_block(&mut self) -> PtxResult<()> {
        self.expect(b'{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                TokenKind::Punct(b'{') => depth += 1,
                TokenKind::Punct(b'}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> PtxError {
        PtxError::new(self.line(), message)
    }

    pub(crate) fn unexpected(&self, wanted: &str) -> PtxError {
        let found = self.peek().map_or("the end of the text".to_owned(), |token| token.describe());
        self.error(format!("found {found} where {wanted} should be"))
    }
}

/// A decimal, hexadecimal, octal or binary integer, with or without the `U` suffix (PTX ISA 4.5.1).
pub(crate) fn parse_integer(text: &str) -> Option<u64> {
    let text = text.strip_suffix('U').unwrap_or(text);
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'b' | b'B', ..] => (&text[2..], 2),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok()
}
