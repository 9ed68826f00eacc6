//! A progress bar where a person watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// The bar, or nothing.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For so many rows; hidden unless standard error is a terminal.
    pub(crate) fn new(n_rows: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style =
            ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("the template is valid");
        Self { bar: ProgressBar::with_draw_target(Some(n_rows), target).with_style(style) }
    }

    /// Says what is worked on.
    pub(crate) fn start(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Counts a row.
    pub(crate) fn done(&self) {
        self.bar.inc(1);
    }

    /// Takes the bar away while something is written.
    pub(crate) fn suspend<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
