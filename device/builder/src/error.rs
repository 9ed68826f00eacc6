//! The one error of this crate.

use crate::check::Violation;
use std::fmt;
use std::path::Path;

/// A result of this crate.
pub type Result<T, E = BuildError> = std::result::Result<T, E>;

/// Why PTX could not be made, checked or assembled.
pub struct BuildError {
    kind: Box<Kind>,
}

enum Kind {
    Io { doing: String, source: std::io::Error },
    Command { line: String, outcome: String, output: String },
    RustSrc { attempts: Vec<(&'static str, String)> },
    Violations(Vec<Violation>),
    Message(String),
}

impl BuildError {
    /// Something that is wrong, and what to do, in words.
    pub fn message(text: impl Into<String>) -> Self {
        Kind::Message(text.into()).into()
    }

    pub(crate) fn io(doing: &str, path: &Path, source: std::io::Error) -> Self {
        Kind::Io { doing: format!("{doing} {}", path.display()), source }.into()
    }

    pub(crate) fn start(program: &str, source: std::io::Error) -> Self {
        Kind::Io { doing: format!("start `{program}`"), source }.into()
    }

    pub(crate) fn command(line: String, outcome: String, output: String) -> Self {
        Kind::Command { line, outcome, output }.into()
    }

    pub(crate) fn rust_src(attempts: Vec<(&'static str, String)>) -> Self {
        Kind::RustSrc { attempts }.into()
    }

    pub(crate) fn violations(violations: Vec<Violation>) -> Self {
        Kind::Violations(violations).into()
    }
}

impl From<Kind> for BuildError {
    fn from(kind: Kind) -> Self {
        Self { kind: Box::new(kind) }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            Kind::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            Kind::Command { line, outcome, output } if output.is_empty() => write!(f, "`{line}` {outcome}"),
            Kind::Command { line, outcome, output } => {
                write!(f, "`{line}` {outcome}:\n{}", output.trim_end())
            }
            Kind::RustSrc { attempts } => write_attempts(f, attempts),
            Kind::Violations(violations) => write_violations(f, violations),
            Kind::Message(text) => f.write_str(text),
        }
    }
}

/// The first breach of each rule in each kernel, and how many more of its kind there are.
fn write_violations(f: &mut fmt::Formatter<'_>, violations: &[Violation]) -> fmt::Result {
    write!(f, "the PTX breaks its rules in {} places:", violations.len())?;
    let same = |a: &Violation, b: &Violation| a.line > 0 && a.kernel == b.kernel && a.rule == b.rule;
    for (index, violation) in violations.iter().enumerate() {
        if violations[..index].iter().any(|earlier| same(earlier, violation)) {
            continue;
        }
        write!(f, "\n  {violation}")?;
        match violations[index + 1..].iter().filter(|later| same(violation, later)).count() {
            0 => {}
            more => write!(f, ", and {more} more such lines")?,
        }
    }
    Ok(())
}

fn write_attempts(f: &mut fmt::Formatter<'_>, attempts: &[(&'static str, String)]) -> fmt::Result {
    write!(f, "the source of `core` (rust-src) is needed to compile kernels, and was not found in:")?;
    for (place, why) in attempts {
        write!(f, "\n  {place}: {why}")?;
    }
    write!(
        f,
        "\nDo one of: `rustup component add rust-src`; on Debian, install the package `rust-src` of the compiler's \
         version; or set SYMMEM_PTX_DIR to a folder with ready PTX, made elsewhere by `cargo xtask build --ptx DIR`"
    )
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            Kind::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
