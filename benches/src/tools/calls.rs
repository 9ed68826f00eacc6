//! How long the calls of the machine take, by name.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use symmem::tap::{Call, Watch};

thread_local! {
    /// When the call that this thread is in began: calls do not nest.
    static START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Adds up the time of each call of a watched machine ([`symmem::Machine::watched`]).
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<Mutex<BTreeMap<&'static str, (u32, Duration)>>>);

impl Watch for Calls {
    fn before(&self, _call: &Call) -> symmem::Result<()> {
        START.set(Some(Instant::now()));
        Ok(())
    }

    fn after(&self, call: &Call) -> symmem::Result<()> {
        let Some(start) = START.take() else { return Ok(()) };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (n, time) = calls.entry(call.name).or_default();
        *n += 1;
        *time += start.elapsed();
        Ok(())
    }
}

impl Calls {
    /// Prints the calls since the last time, the longest first, and forgets them.
    pub(super) fn print(&self, what: &str) {
        let calls = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut calls: Vec<_> = calls.into_iter().collect();
        calls.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
        println!(
            "# calls of {what}, all ranks: {:<24} {:>8} {:>14} {:>12}",
            "call", "number", "together/us", "each/us"
        );
        for (name, (n, time)) in calls {
            let time_us = time.as_secs_f64() * 1e6;
            println!("# {:<24} {n:>8} {time_us:>14.1} {:>12.1}", name, time_us / f64::from(n));
        }
    }
}
