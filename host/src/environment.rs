//! Environment variables, which may hold what is no text.

use crate::{ErrorKind, Result};
use std::cell::RefCell;
use std::env::VarError;

/// Lets `read` look up variables of this process; what it makes of them is given only if all of them were text.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] naming a variable that was asked for and is not UTF-8; what `read` returns.
pub(crate) fn with_variables<T>(
    read: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Result<T>,
) -> Result<T> {
    with(|name| std::env::var(name), read)
}

fn with<T>(
    variable: impl Fn(&str) -> Result<String, VarError>,
    read: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Result<T>,
) -> Result<T> {
    let wrong = RefCell::new(None);
    let look = |name: &str| match variable(name) {
        Ok(value) => Some(value),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(value)) => {
            let (what, found) = ("environment variable", format!("{name}={}", value.to_string_lossy()));
            wrong.borrow_mut().get_or_insert(ErrorKind::InvalidArgument {
                what,
                found,
                allowed: "UTF-8".into(),
            });
            None
        }
    };
    let result = read(&look);
    wrong.into_inner().map_or(result, |kind| Err(kind.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn what_is_no_text_is_named() {
        let variable = |name: &str| match name {
            "A" => Ok("1".to_owned()),
            "B" => Err(VarError::NotUnicode(OsString::from_vec(b"x\xff".to_vec()))),
            _ => Err(VarError::NotPresent),
        };
        assert_eq!(with(variable, |set| Ok((set("A"), set("C")))).expect("text"), (Some("1".into()), None));
        // Even if it would not have mattered, or if something else is wrong, too.
        for other in [Ok(()), Err(ErrorKind::Aborted { rank: 0 }.into())] {
            let error = with(variable, |set| {
                set("B");
                other
            })
            .expect_err("no text")
            .to_string();
            assert!(error.contains("environment variable is B=x") && error.contains("UTF-8"), "{error}");
        }
    }
}
