//! The bound of a wait.

use crate::{Error, ErrorKind};
use rustix::event::Timespec;
use std::time::{Duration, Instant};

/// Longest sleep before a poll looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// When to give up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    end: Instant,
    timeout: Duration,
}

impl Deadline {
    /// In so much time from now.
    pub(super) fn after(timeout: Duration) -> Self {
        // A time that no clock reaches is as good as a day.
        let end = Instant::now().checked_add(timeout);
        Self { end: end.unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400)), timeout }
    }

    /// The same, or the given time if that is earlier.
    pub(super) fn no_later_than(self, end: Option<Instant>) -> Self {
        Self { end: end.map_or(self.end, |end| end.min(self.end)), ..self }
    }

    /// Time left; zero when it is over.
    pub(super) fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Whether it is over.
    pub(super) fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// How long a poll may sleep.
    pub(super) fn timespec(self) -> Timespec {
        let left = self.left().min(LOOK_AGAIN);
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    }

    /// What to say when it is over.
    pub(super) fn error(self, what: impl Into<String>, missing: Vec<u32>) -> Error {
        let timeout_ms = self.timeout.as_millis() as u64;
        ErrorKind::Deadline { what: what.into(), timeout_ms, missing }.into()
    }
}
