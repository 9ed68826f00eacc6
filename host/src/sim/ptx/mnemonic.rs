//! An instruction's name, taken apart at its dots.

use super::error::{PtxError, PtxResult};
use super::types::Type;

/// Opcode and the modifiers not yet understood. [`Mnemonic::finish`] refuses what is left, so that no modifier is ever
/// skipped in silence.
#[derive(Clone, Debug)]
pub(crate) struct Mnemonic<'a> {
    /// The whole name as written.
    pub(crate) text: &'a str,
    /// The part before the first dot.
    pub(crate) opcode: &'a str,
    /// Line of the PTX text.
    pub(crate) line: u32,
    rest: Vec<&'a str>,
}

impl<'a> Mnemonic<'a> {
    pub(crate) fn new(text: &'a str, line: u32) -> Self {
        let mut parts = text.split('.');
        let opcode = parts.next().unwrap_or_default();
        Self { text, opcode, line, rest: parts.collect() }
    }

    /// Whether the modifier is there; it counts as understood from now on.
    pub(crate) fn take(&mut self, modifier: &str) -> bool {
        let found = self.rest.iter().position(|part| *part == modifier);
        if let Some(at) = found {
            self.rest.remove(at);
        }
        found.is_some()
    }

    /// The value of the first table entry whose modifier is there.
    pub(crate) fn take_any<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        let at = self.rest.iter().position(|part| table.iter().any(|(name, _)| name == part))?;
        let part = self.rest.remove(at);
        table.iter().find(|(name, _)| *name == part).map(|(_, value)| *value)
    }

    /// The next modifier that is a type.
    pub(crate) fn take_type(&mut self) -> PtxResult<Type> {
        let at = self.rest.iter().position(|part| Type::parse(part).is_some());
        let part = at.map(|at| self.rest.remove(at));
        part.and_then(Type::parse).ok_or_else(|| self.unknown())
    }

    /// Whether a modifier that satisfies `test` is there; it counts as understood.
    pub(crate) fn take_where(&mut self, test: impl Fn(&str) -> bool) -> bool {
        let found = self.rest.iter().position(|part| test(part));
        if let Some(at) = found {
            self.rest.remove(at);
        }
        found.is_some()
    }

    /// Refuses modifiers that nobody took.
    pub(crate) fn finish(&self) -> PtxResult<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.unknown()) }
    }

    /// The error of an instruction that this machine does not know.
    pub(crate) fn unknown(&self) -> PtxError {
        let left = self.rest.iter().map(|part| format!(".{part}")).collect::<String>();
        let detail = if left.is_empty() { String::new() } else { format!(" (not understood: {left})") };
        self.error(format!("the simulated machine does not know the instruction `{}`{detail}", self.text))
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> PtxError {
        PtxError::new(self.line, message)
    }
}
