//! Checks on errors: their kind, and that their text carries the operands.

use anyhow::{Result, bail, ensure};
use std::fmt::Debug;
use symmem::{Error, ErrorKind};

/// The error of a result that must be one.
pub(crate) fn error_of<T: Debug>(what: &str, result: symmem::Result<T>) -> Result<Error> {
    match result {
        Ok(value) => bail!("{what}: expected an error, got {value:?}"),
        Err(error) => Ok(error),
    }
}

/// Fails unless the result is an error of a kind that `is` accepts, whose text has every one of `words` in it.
pub(crate) fn expect<T: Debug>(
    what: &str,
    result: symmem::Result<T>,
    is: impl FnOnce(&ErrorKind) -> bool,
    words: &[&str],
) -> Result<()> {
    let error = error_of(what, result)?;
    ensure!(is(error.kind()), "{what}: another kind than expected: {:?}", error.kind());
    let text = error.to_string();
    for word in words {
        ensure!(text.contains(word), "{what}: the message lacks `{word}`: {text}");
    }
    Ok(())
}

/// Shorthand for a kind of error, whatever its operands: `kind!(Mismatch)`.
macro_rules! kind {
    ($name:ident) => {
        |kind: &symmem::ErrorKind| matches!(kind, symmem::ErrorKind::$name { .. })
    };
}

pub(crate) use kind;
