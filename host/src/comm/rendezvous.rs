//! The meeting of ranks that share a process.

use crate::comm::bootstrap::Bootstrap;
use crate::{ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where the ranks of one process meet.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    state: Mutex<State>,
    changed: Condvar,
    deadline: Duration,
}

#[derive(Debug)]
struct State {
    /// What each rank has given to the exchange in progress.
    given: Vec<Option<(&'static str, Vec<u8>)>>,
    /// What each rank will find of the exchange that it waited for.
    outcome: Vec<Option<Arc<Outcome>>>,
    has_left: Vec<bool>,
}

type Outcome = Result<Vec<Vec<u8>>>;

/// One rank at the meeting.
#[derive(Debug)]
pub(crate) struct Seat {
    rendezvous: Arc<Rendezvous>,
    rank: u32,
}

impl Rendezvous {
    /// A meeting of `n_ranks`, each exchange of which may take `deadline`.
    pub(crate) fn seats(n_ranks: u32, deadline: Duration) -> Vec<Seat> {
        let n = n_ranks as usize;
        let state = State { given: vec![None; n], outcome: vec![None; n], has_left: vec![false; n] };
        let rendezvous = Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), deadline });
        (0..n_ranks).map(|rank| Seat { rendezvous: rendezvous.clone(), rank }).collect()
    }
}

impl State {
    /// Ends the exchange if everybody has given, or if somebody never will.
    fn settle(&mut self) {
        let steps: Vec<_> = self.given.iter().flatten().map(|(step, _)| *step).collect();
        if steps.len() == self.given.len() {
            let messages = self.given.iter().flatten().map(|(_, message)| message.clone()).collect();
            let same = crate::comm::bootstrap::equal("the step of the exchange", &steps);
            self.finish(same.map(|_| messages));
        } else if let (Some(rank), false) = (self.gone(), steps.is_empty()) {
            let reason = "it left the communicator".to_owned();
            self.finish(Err(ErrorKind::RankFailed { rank, reason }.into()));
        }
    }

    /// Hands the outcome to every rank that has given.
    fn finish(&mut self, outcome: Outcome) {
        let outcome = Arc::new(outcome);
        for (given, slot) in self.given.iter_mut().zip(&mut self.outcome) {
            if given.take().is_some() {
                *slot = Some(outcome.clone());
            }
        }
    }

    fn gone(&self) -> Option<u32> {
        (0..self.given.len() as u32).find(|&rank| self.has_left[rank as usize])
    }

    fn missing(&self) -> Vec<u32> {
        (0..self.given.len() as u32).filter(|&rank| self.given[rank as usize].is_none()).collect()
    }
}

impl Bootstrap for Seat {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn all_gather(&self, step: &'static str, message: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let start = Instant::now();
        let mut state = self.rendezvous.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = self.rank as usize;
        state.given[rank] = Some((step, message));
        state.settle();
        self.rendezvous.changed.notify_all();
        loop {
            if let Some(outcome) = state.outcome[rank].take() {
                return outcome.as_ref().clone();
            }
            let left = self.rendezvous.deadline.saturating_sub(start.elapsed());
            if left.is_zero() {
                let timeout_ms = self.rendezvous.deadline.as_millis() as u64;
                let error = ErrorKind::Deadline { what: step.into(), timeout_ms, missing: state.missing() };
                state.finish(Err(error.into()));
                self.rendezvous.changed.notify_all();
                continue;
            }
            let waited = self.rendezvous.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ranks of one process are dropped one after another by whoever drives them: nobody will come.
    fn hurry(&self, _patience: Duration) {
        self.leave();
    }

    fn leave(&self) {
        let mut state = self.rendezvous.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_left[self.rank as usize] = true;
        state.settle();
        self.rendezvous.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meet(n_ranks: u32, deadline_ms: u64, come: impl Fn(&Seat) -> Outcome + Sync) -> Vec<Outcome> {
        let seats = Rendezvous::seats(n_ranks, Duration::from_millis(deadline_ms));
        std::thread::scope(|scope| {
            let threads: Vec<_> = seats.iter().map(|seat| scope.spawn(|| come(seat))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn everybody_gets_everything_in_rank_order() {
        let outcomes = meet(5, 10_000, |seat| {
            for round in 0..100u8 {
                let got = seat.all_gather("step", vec![seat.rank() as u8, round])?;
                assert_eq!(got, (0..5).map(|rank| vec![rank, round]).collect::<Vec<_>>());
            }
            Ok(vec![])
        });
        assert!(outcomes.iter().all(Result::is_ok));
    }

    #[test]
    fn a_missing_rank_is_named_by_all() {
        let outcomes = meet(3, 50, |seat| match seat.rank() {
            1 => Ok(vec![]),
            _ => seat.all_gather("step", vec![]),
        });
        for rank in [0, 2] {
            let kind = outcomes[rank].as_ref().expect_err("nobody met rank 1").kind().clone();
            assert_eq!(kind, ErrorKind::Deadline { what: "step".into(), timeout_ms: 50, missing: vec![1] });
        }
    }

    #[test]
    fn a_rank_that_leaves_is_named_at_once() {
        let outcomes = meet(3, 60_000, |seat| match seat.rank() {
            1 => {
                seat.leave();
                Ok(vec![])
            }
            _ => seat.all_gather("step", vec![]),
        });
        for rank in [0, 2] {
            let error = outcomes[rank].as_ref().expect_err("rank 1 left");
            assert!(matches!(error.kind(), ErrorKind::RankFailed { rank: 1, .. }), "{error}");
        }
    }

    #[test]
    fn a_rank_that_has_left_waits_for_nobody() {
        let outcomes = meet(2, 60_000, |seat| match seat.rank() {
            1 => Ok(vec![]),
            _ => {
                seat.leave();
                seat.all_gather("step", vec![])
            }
        });
        let error = outcomes[0].as_ref().expect_err("rank 1 never comes");
        assert!(matches!(error.kind(), ErrorKind::RankFailed { rank: 0, .. }), "{error}");
    }

    #[test]
    fn different_steps_are_a_mismatch() {
        let steps = ["a", "b"];
        let outcomes = meet(2, 10_000, |seat| seat.all_gather(steps[seat.rank() as usize], vec![]));
        for outcome in outcomes {
            let error = outcome.expect_err("the steps differ");
            assert!(error.to_string().contains("rank 0 a; rank 1 b"), "{error}");
        }
    }
}
