//! What is wrong with a run.

use crate::subject::Run;
use std::fmt::{self, Display, Formatter};
use symmem::{Error, ErrorKind};

/// How it showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// Two accesses without an order between them.
    Race,
    /// Memory that the host finds wrong in the end.
    WrongResult,
    /// Threads that wait for ever.
    Deadlock,
    /// An access that the machine forbids.
    Fault,
    /// A bounded wait that came to its end.
    Timeout,
    /// Another error of the library.
    Other,
}

/// Something wrong, and the run that shows it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) run: Run,
    pub(crate) how: How,
    pub(crate) report: String,
}

impl How {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::WrongResult => "wrong result",
            Self::Deadlock => "deadlock",
            Self::Fault => "fault",
            Self::Timeout => "timeout",
            Self::Other => "error",
        }
    }
}

impl Finding {
    pub(crate) fn of_error(run: &Run, error: &Error) -> Self {
        let how = match error.kind() {
            ErrorKind::Deadlock { .. } => How::Deadlock,
            ErrorKind::Race { .. } => How::Race,
            ErrorKind::Fault { .. } => How::Fault,
            ErrorKind::Timeout { .. } => How::Timeout,
            _ => How::Other,
        };
        Self { run: run.clone(), how, report: error.to_string() }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.how.name(), self.report)
    }
}
