//! What the rows of a run add up to.

use crate::case::Case;
use crate::measure::{Outcome, Settings};
use crate::rates::rates;
use anyhow::Result;

/// What the rows add up to.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) rows: u64,
    pub(super) wrong: u64,
    pub(super) failed: u64,
    busbw_gbps: Vec<f64>,
    /// Rows that were checked in fewer rounds than asked for.
    pub(super) shortened: u64,
}

impl Totals {
    /// Counts one measurement.
    pub(super) fn add(&mut self, case: &Case, settings: &Settings, outcome: &Result<Outcome>) {
        self.rows += 1;
        let Ok(outcome) = outcome else {
            self.failed += 1;
            return;
        };
        self.wrong += outcome.findings.wrong;
        self.shortened += u64::from(outcome.checked_rounds < settings.rounds);
        let rates = outcome.time_us.and_then(|time| rates(case, time.median));
        self.busbw_gbps.extend(rates.map(|rates| rates.busbw_gbps));
    }

    /// Mean over all measurements that have a bandwidth.
    pub(super) fn mean_busbw_gbps(&self) -> Option<f64> {
        let n = self.busbw_gbps.len() as f64;
        (n > 0.0).then(|| self.busbw_gbps.iter().sum::<f64>() / n)
    }
}
