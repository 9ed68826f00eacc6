//! Rules that every kind keeps, and what each is there to find.

use super::*;

const KINDS: [ScheduleKind; 4] = [
    ScheduleKind::Random,
    ScheduleKind::RoundRobin,
    ScheduleKind::Pct { n_changes: 3, n_steps: 10_000 },
    ScheduleKind::Unfair,
];

fn threads(n: u32) -> Vec<ThreadId> {
    (0..n).map(|thread| ThreadId { block: 0, thread }).collect()
}

fn candidates<'a>(active: &'a [ThreadId], polling: &'a [ThreadId]) -> Candidates<'a> {
    Candidates { active, polling, touches_memory: &|_| true }
}

fn each(kinds: &[ScheduleKind], check: impl Fn(Box<dyn Scheduler>)) {
    kinds.iter().for_each(|kind| check(scheduler(kind, 7)));
}

#[test]
fn fair_picks_reach_every_thread() {
    each(&KINDS[..2], |mut scheduler| {
        for (n_active, n_polling) in [(1, 0), (0, 1), (5, 0), (0, 5), (3, 4)] {
            let (active, polling) = (threads(n_active), threads(n_polling));
            let mut seen = [vec![false; active.len()], vec![false; polling.len()]];
            for _ in 0..2000 {
                let pick = scheduler.pick(candidates(&active, &polling));
                assert!(pick.burst > 0);
                seen[usize::from(pick.polling)][pick.index] = true;
            }
            assert!(seen.iter().flatten().all(|&seen| seen), "{scheduler:?} {n_active} {n_polling}");
        }
    });
}

#[test]
fn picks_lie_in_the_lists() {
    each(&KINDS, |mut scheduler| {
        for (n_active, n_polling) in [(1, 0), (0, 1), (5, 0), (0, 5), (3, 4)].repeat(300) {
            let pick = scheduler.pick(candidates(&threads(n_active), &threads(n_polling)));
            let len = if pick.polling { n_polling } else { n_active };
            assert!(pick.burst > 0 && pick.index < len as usize, "{scheduler:?}");
        }
    });
}

#[test]
fn where_all_poll_each_gets_its_turn() {
    each(&KINDS, |mut scheduler| {
        (0..4).for_each(|place| scheduler.block_starts(place, place));
        let polling: Vec<_> = (0..8).map(|n| ThreadId { block: n / 2, thread: n % 2 }).collect();
        let mut turns = [0; 8];
        for _ in 0..800 {
            turns[scheduler.pick(candidates(&[], &polling)).index] += 1;
        }
        assert!(turns.iter().all(|&n| n > 0), "{scheduler:?} {turns:?}");
    });
}

#[test]
fn a_seed_is_a_schedule() {
    for kind in KINDS.iter().filter(|kind| **kind != ScheduleKind::RoundRobin) {
        let run = |seed| {
            let mut scheduler = scheduler(kind, seed);
            let active = threads(100);
            (0..50).map(|_| scheduler.pick(candidates(&active, &[]))).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2), "{kind:?}");
    }
}

#[test]
fn blocks_are_chosen_among_those_that_wait() {
    each(&KINDS, |mut scheduler| {
        for n in 1..50 {
            assert!(scheduler.pick_block(n) < n && scheduler.pick_grid(n) < n);
        }
    });
}

/// Some seed leaves each device behind for as long as others have something to do.
#[test]
fn unfair_seeds_leave_each_device_behind() {
    let active: Vec<_> = (0..3).map(|block| ThreadId { block, thread: 0 }).collect();
    let left_behind = |seed| {
        let mut scheduler = scheduler(&ScheduleKind::Unfair, seed);
        (0..3).for_each(|place| scheduler.block_starts(place, place));
        let mut turns = [0; 3];
        (0..40).for_each(|_| turns[scheduler.pick(candidates(&active, &[])).index] += 1);
        turns.map(|n| n == 0)
    };
    let mut found = [false; 3];
    for seed in 0..60 {
        found.iter_mut().zip(left_behind(seed)).for_each(|(found, here)| *found |= here);
    }
    assert_eq!(found, [true; 3]);
}

/// Two threads of two steps each: all six interleavings, and of those the four that preempt at most once.
#[test]
fn an_exhaustive_search_finds_every_interleaving_once() {
    let all = |preemptions_max| {
        let mut search = Exhaustive::new(preemptions_max);
        let mut orders = Vec::new();
        while let Some(prefix) = search.next_prefix() {
            let mut scheduler = scheduler(&ScheduleKind::Choices(prefix), 0);
            let (mut active, mut left, mut order) = (threads(2), [2, 2], Vec::new());
            while !active.is_empty() {
                let index = scheduler.pick(candidates(&active, &[])).index;
                let who = active[index].thread as usize;
                order.push(who);
                left[who] -= 1;
                if left[who] == 0 {
                    active.swap_remove(index);
                }
            }
            search.ran(scheduler.choices());
            orders.push(order);
        }
        let n_runs = orders.len();
        orders.sort();
        orders.dedup();
        assert_eq!(orders.len(), n_runs, "an order came twice");
        n_runs
    };
    assert_eq!((all(0), all(1), all(2)), (2, 4, 6));
}
