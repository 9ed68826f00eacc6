//! A seed is a run.

use super::*;
use crate::backend::WorkCounters;
use crate::sim::{ProbeKind, ScheduleKind};

/// Tickets that threads drew from one counter, and the work done.
fn draw(config: SimConfig) -> (Vec<u32>, WorkCounters) {
    let bed = Bed::new(SimConfig { n_devices: 2, ..config });
    let (counter, order) = (bed.alloc(0, GRAIN), bed.alloc(0, GRAIN));
    for device in 0..2 {
        bed.launch(device, "tickets", (4, 64), &[counter, order]);
    }
    bed.synchronize(0).unwrap();
    bed.synchronize(1).unwrap();
    assert_eq!(bed.words(0, counter, 1), [512]);
    (bed.words(0, order, 512), bed.machine.counters().unwrap())
}

#[test]
fn equal_seeds_give_equal_runs_and_others_others() {
    let run = |seed| draw(SimConfig { seed, ..SimConfig::default() });
    assert_eq!(run(5), run(5));
    let orders: Vec<_> = (0..8).map(|seed| run(seed).0).collect();
    for (index, order) in orders.iter().enumerate() {
        assert!(!orders[..index].contains(order), "two seeds gave the same order");
    }
}

#[test]
fn round_robin_does_not_depend_on_the_seed() {
    let run = |seed| draw(SimConfig { seed, schedule: ScheduleKind::RoundRobin, ..SimConfig::default() });
    assert_eq!(run(1), run(2));
}

#[test]
fn a_probe_does_not_change_the_run() {
    let run = |probe| draw(SimConfig { probe, ..SimConfig::default() });
    let (plain, hops) = (run(ProbeKind::None), run(ProbeKind::Hops));
    assert_eq!(plain.0, hops.0);
    assert_eq!(WorkCounters { hops: 0, ..hops.1 }, plain.1);
}
