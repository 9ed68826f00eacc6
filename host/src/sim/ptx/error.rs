//! What is wrong with a PTX text, and where.

use std::fmt;

/// PTX that this machine cannot load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxError {
    /// Line of the PTX text, counted from 1.
    pub line: u32,
    /// What was found and what was expected.
    pub message: String,
}

/// A result of reading PTX.
pub type PtxResult<T> = Result<T, PtxError>;

impl PtxError {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    /// The crate's error for a text that came from `origin`.
    pub fn with_origin(&self, origin: &str) -> crate::Error {
        crate::ErrorKind::InvalidPtx { origin: origin.to_owned(), log: self.to_string() }.into()
    }
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for PtxError {}
