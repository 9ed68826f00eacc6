//! Block barriers: `bar`, `barrier.cta` (PTX ISA 9.7.13.1).

use crate::sim::interface::{BarrierReduction, BlockBarrier, Fault};

const BARRIERS: usize = 16;
const WARP: u32 = 32;

/// One of a block's barriers. Free when nobody has arrived.
#[derive(Clone, Debug, Default)]
struct Barrier {
    n_arrived: u32,
    n_threads: Option<u32>,
    reduction: Option<BarrierReduction>,
    n_true: u32,
    waiting: Vec<u32>,
    gone_on: Vec<u32>,
}

/// Threads that a complete barrier lets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// Their numbers in the block.
    pub(crate) threads: Vec<u32>,
    /// Threads that only arrived, before them.
    pub(crate) gone_on: Vec<u32>,
    /// What each gets from a reduction.
    pub(crate) result: Option<u64>,
}

impl Released {
    fn n_threads(&self) -> u32 {
        (self.threads.len() + self.gone_on.len()) as u32
    }
}

/// The barriers of one block.
#[derive(Debug)]
pub(crate) struct Barriers {
    all: [Barrier; BARRIERS],
    /// Threads that have arrived at any of them.
    n_arrived: u32,
}

impl Barriers {
    /// All free.
    pub(crate) fn new() -> Self {
        Self { all: std::array::from_fn(|_| Barrier::default()), n_arrived: 0 }
    }

    /// A thread arrives. `n_live` counts the threads of the block that have not exited, this one included.
    ///
    /// # Errors
    ///
    /// A fault where threads use one barrier in different ways at once.
    pub(crate) fn arrive(
        &mut self,
        thread: u32,
        request: BlockBarrier,
        n_live: u32,
    ) -> Result<Option<Released>, Fault> {
        let number = request.barrier;
        let barrier = self
            .all
            .get_mut(number as usize)
            .ok_or_else(|| Fault::Other(format!("barrier {number} does not exist; there are {BARRIERS}")))?;
        check(barrier, request)?;
        if barrier.n_arrived == 0 {
            barrier.n_threads = request.n_threads;
        }
        barrier.n_arrived += 1;
        self.n_arrived += 1;
        if let Some((reduction, predicate)) = request.reduction {
            barrier.reduction = Some(reduction);
            barrier.n_true += u32::from(predicate);
        }
        let list = if request.arrive_only { &mut barrier.gone_on } else { &mut barrier.waiting };
        list.push(thread);
        let released = barrier.release_if_complete(n_live);
        self.n_arrived -= released.as_ref().map_or(0, Released::n_threads);
        Ok(released)
    }

    /// How many threads have come to a barrier that somebody waits at, and how many it waits for.
    pub(crate) fn state(&self, number: u32, n_live: u32) -> (u32, u32) {
        let barrier = &self.all[number as usize];
        (barrier.n_arrived, barrier.n_threads.unwrap_or(n_live))
    }

    /// A thread has exited; `n_live` are left.
    pub(crate) fn after_exit(&mut self, n_live: u32) -> Vec<Released> {
        if self.n_arrived == 0 {
            return Vec::new();
        }
        let released = self.all.iter_mut().filter_map(|barrier| barrier.release_if_complete(n_live));
        let released: Vec<_> = released.collect();
        self.n_arrived -= released.iter().map(Released::n_threads).sum::<u32>();
        released
    }
}

fn check(barrier: &Barrier, request: BlockBarrier) -> Result<(), Fault> {
    let number = request.barrier;
    if let Some(n_threads) = request.n_threads.filter(|n| *n == 0 || !n.is_multiple_of(WARP)) {
        return Err(Fault::Other(format!(
            "barrier {number} for {n_threads} threads, not a multiple of a warp"
        )));
    }
    if barrier.n_arrived == 0 {
        return Ok(());
    }
    if barrier.n_threads != request.n_threads {
        let count = |n: Option<u32>| n.map_or("all".into(), |n| n.to_string());
        return Err(Fault::Other(format!(
            "barrier {number} is used for {} and for {} threads at once",
            count(barrier.n_threads),
            count(request.n_threads)
        )));
    }
    let reduction = request.reduction.map(|(reduction, _)| reduction);
    if !barrier.waiting.is_empty() && !request.arrive_only && barrier.reduction != reduction {
        return Err(Fault::Other(format!("barrier {number} is used with different reductions at once")));
    }
    Ok(())
}

impl Barrier {
    fn release_if_complete(&mut self, n_live: u32) -> Option<Released> {
        let expected = self.n_threads.unwrap_or(n_live);
        if self.n_arrived == 0 || self.n_arrived < expected {
            return None;
        }
        let Self { n_arrived, reduction, n_true, waiting, gone_on, .. } = std::mem::take(self);
        let result = reduction.map(|reduction| match reduction {
            BarrierReduction::Count => n_true.into(),
            BarrierReduction::And => u64::from(n_true == n_arrived),
            BarrierReduction::Or => u64::from(n_true > 0),
        });
        Some(Released { threads: waiting, gone_on, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: BlockBarrier =
        BlockBarrier { barrier: 0, n_threads: None, reduction: None, arrive_only: false };

    #[test]
    fn waits_for_all_live_threads() {
        let mut barriers = Barriers::new();
        assert_eq!(barriers.arrive(0, SYNC, 3), Ok(None));
        assert_eq!(barriers.arrive(2, SYNC, 3), Ok(None));
        assert_eq!(barriers.after_exit(2), [Released { threads: vec![0, 2], gone_on: vec![], result: None }]);
        assert_eq!(barriers.after_exit(0), []);
    }

    #[test]
    fn a_count_includes_those_who_only_arrive() {
        let half = BlockBarrier { barrier: 3, n_threads: Some(64), ..SYNC };
        let mut barriers = Barriers::new();
        for thread in 0..32 {
            assert_eq!(barriers.arrive(thread, BlockBarrier { arrive_only: true, ..half }, 256), Ok(None));
        }
        for thread in 32..63 {
            assert_eq!(barriers.arrive(thread, half, 256), Ok(None));
        }
        let released = barriers.arrive(63, half, 256).unwrap().unwrap();
        assert_eq!(released.threads, (32..64).collect::<Vec<_>>());
        assert_eq!(released.gone_on, (0..32).collect::<Vec<_>>());
    }

    #[test]
    fn reductions() {
        let check = |reduction, predicates: [bool; 3], expect| {
            let mut barriers = Barriers::new();
            let mut last = None;
            for (thread, predicate) in predicates.into_iter().enumerate() {
                let request = BlockBarrier { reduction: Some((reduction, predicate)), ..SYNC };
                last = barriers.arrive(thread as u32, request, 3).unwrap();
            }
            assert_eq!(last.unwrap().result, Some(expect), "{reduction:?} {predicates:?}");
        };
        check(BarrierReduction::Count, [true, false, true], 2);
        check(BarrierReduction::And, [true, false, true], 0);
        check(BarrierReduction::And, [true; 3], 1);
        check(BarrierReduction::Or, [false, false, true], 1);
        check(BarrierReduction::Or, [false; 3], 0);
    }

    #[test]
    fn refuses_mixed_use() {
        let counted = BlockBarrier { n_threads: Some(32), ..SYNC };
        let any = BlockBarrier { reduction: Some((BarrierReduction::Or, true)), ..SYNC };
        for (first, second) in [(SYNC, counted), (SYNC, any)] {
            let mut barriers = Barriers::new();
            barriers.arrive(0, first, 64).unwrap();
            assert!(matches!(barriers.arrive(1, second, 64), Err(Fault::Other(_))), "{first:?} {second:?}");
        }
        let odd = BlockBarrier { n_threads: Some(33), ..SYNC };
        assert!(Barriers::new().arrive(0, odd, 64).is_err());
        let far = BlockBarrier { barrier: 16, ..SYNC };
        assert!(Barriers::new().arrive(0, far, 64).is_err());
    }
}
