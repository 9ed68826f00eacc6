//! Splits PTX text into tokens (PTX ISA 4.1–4.4).

use super::error::{PtxError, PtxResult};

/// One token and the line it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// Line, counted from 1.
    pub(crate) line: u32,
    /// What it is.
    pub(crate) kind: TokenKind<'a>,
}

/// Kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind<'a> {
    /// Identifier, directive or instruction with its modifiers: `%rd1`, `.reg`, `ld.global.L1::no_allocate.b32`.
    Word(&'a str),
    /// Number as written: `12`, `0x1f`, `0f3F800000`, `8.4`.
    Number(&'a str),
    /// String without its quotes.
    Text(&'a str),
    /// Any other character.
    Punct(u8),
}

impl TokenKind<'_> {
    /// The token as it was written, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Word(text) | Self::Number(text) => format!("`{text}`"),
            Self::Text(text) => format!("\"{text}\""),
            Self::Punct(byte) => format!("`{}`", char::from(*byte)),
        }
    }
}

/// Splits `text`; comments disappear.
pub(crate) fn tokenize(text: &str) -> PtxResult<Vec<Token<'_>>> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, line: 1 };
    let mut tokens = Vec::with_capacity(text.len() / 6);
    while let Some(token) = lexer.next()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> PtxResult<Option<Token<'a>>> {
        self.skip_blank()?;
        let Some(&first) = self.bytes.get(self.at) else { return Ok(None) };
        let line = self.line;
        let kind = match first {
            b'"' => self.string()?,
            b'0'..=b'9' => {
                TokenKind::Number(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'.'))
            }
            byte if starts_word(byte) => TokenKind::Word(self.word()),
            byte if byte.is_ascii_graphic() => {
                self.at += 1;
                TokenKind::Punct(byte)
            }
            byte => return Err(PtxError::new(line, format!("byte {byte:#04x} is not PTX"))),
        };
        Ok(Some(Token { line, kind }))
    }

    fn skip_blank(&mut self) -> PtxResult<()> {
        while let Some(&byte) = self.bytes.get(self.at) {
            match (byte, self.bytes.get(self.at + 1)) {
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (b' ' | b'\t' | b'\r', _) => self.at += 1,
                (b'/', Some(b'/')) => {
                    self.take_while(|byte| byte != b'\n');
                }
                (b'/', Some(b'*')) => self.block_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn block_comment(&mut self) -> PtxResult<()> {
        let Some(len) = self.text.get(self.at..).and_then(|rest| rest.find("*/")) else {
            return Err(PtxError::new(self.line, "comment without end"));
        };
        let end = self.at + len + 2;
        self.line += self.bytes[self.at..end].iter().filter(|&&byte| byte == b'\n').count() as u32;
        self.at = end;
        Ok(())
    }

    fn string(&mut self) -> PtxResult<TokenKind<'a>> {
        self.at += 1;
        let start = self.at;
        self.take_while(|byte| byte != b'"' && byte != b'\n');
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(PtxError::new(self.line, "string without end"));
        }
        self.at += 1;
        Ok(TokenKind::Text(&self.text[start..self.at - 1]))
    }

    /// A word; `::` belongs to it when more of the word follows, a single colon ends it (a label).
    fn word(&mut self) -> &'a str {
        let start = self.at;
        loop {
            self.take_while(continues_word);
            let rest = &self.bytes[self.at..];
            match rest {
                [b':', b':', next, ..] if continues_word(*next) => self.at += 2,
                _ => return &self.text[start..self.at],
            }
        }
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(|&byte| belongs(byte)) {
            self.at += 1;
        }
        // A predicate may stop inside a multi-byte character only if it rejects non-ASCII bytes, and all bytes
        // of such a character are non-ASCII: both ends are character boundaries.
        self.text.get(start..self.at).unwrap_or_default()
    }
}

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}
