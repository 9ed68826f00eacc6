//! What the rows of a run add up to.

use crate::case::Case;
use crate::measure::{Outcome, Settings};
use anyhow::Result;

/// What the rows add up to.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) rows: u64,
    pub(super) wrong: u64,
    pub(super) failed: u64,
    busbw_gbps: Vec<f64>,
    ratios_to_nccl: Vec<f64>,
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
        self.busbw_gbps.extend(outcome.rates(case, settings.mode).map(|rates| rates.busbw_gbps));
        self.ratios_to_nccl.extend(outcome.ratio_to_nccl());
    }

    /// Mean over all measurements that have a bandwidth.
    pub(super) fn mean_busbw_gbps(&self) -> Option<f64> {
        let n = self.busbw_gbps.len() as f64;
        (n > 0.0).then(|| self.busbw_gbps.iter().sum::<f64>() / n)
    }

    /// Geometric mean and least of the ratios to NCCL, over all measurements that have one.
    pub(super) fn ratio_to_nccl(&self) -> Option<(f64, f64)> {
        let least = self.ratios_to_nccl.iter().copied().reduce(f64::min)?;
        let logs: f64 = self.ratios_to_nccl.iter().map(|ratio| ratio.ln()).sum();
        Some(((logs / self.ratios_to_nccl.len() as f64).exp(), least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_averaged_as_factors() {
        assert_eq!(Totals::default().ratio_to_nccl(), None);
        let totals = Totals { ratios_to_nccl: vec![4.0, 1.0], ..Totals::default() };
        let (mean, least) = totals.ratio_to_nccl().expect("two");
        assert!((mean - 2.0).abs() < 1e-12 && least == 1.0, "{mean} {least}");
    }
}
