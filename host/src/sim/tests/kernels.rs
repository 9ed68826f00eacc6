//! Kernels that work: alone, in blocks, between devices.

use super::*;
use crate::sim::ProbeKind;

#[test]
fn threads_know_who_they_are() {
    let bed = Bed::with_devices(1);
    let out = bed.alloc(0, GRAIN);
    for (blocks, threads) in [(1, 1), (3, 33), (300, 64)] {
        bed.launch(0, "iota", (blocks, threads), &[out]);
        bed.synchronize(0).unwrap();
        let n = (blocks * threads) as usize;
        assert_eq!(bed.words(0, out, n), (0..n as u32).collect::<Vec<_>>());
    }
}

#[test]
fn a_block_meets_at_its_barrier() {
    let bed = Bed::with_devices(1);
    let out = bed.alloc(0, GRAIN);
    for threads in [1, 31, 96, 1024] {
        bed.launch(0, "reverse", (5, threads), &[out]);
        bed.synchronize(0).unwrap();
        let expect: Vec<u32> = (0..5).flat_map(|_| (0..threads).rev()).collect();
        assert_eq!(bed.words(0, out, expect.len()), expect);
    }
}

#[test]
fn lanes_of_a_warp_meet_though_some_sleep() {
    let bed = Bed::with_devices(1);
    let out = bed.alloc(0, GRAIN);
    bed.launch(0, "warp_sum", (1, 64), &[out]);
    bed.synchronize(0).unwrap();
    let expect: Vec<u32> = [496; 32].into_iter().chain([496 + 32 * 32; 32]).collect();
    assert_eq!(bed.words(0, out, 64), expect);
}

#[test]
fn a_message_goes_from_device_to_device() {
    let bed = Bed::with_devices(2);
    let (inbox, out) = (bed.alloc(1, GRAIN), bed.alloc(1, GRAIN));
    let before = bed.machine.counters().unwrap();
    bed.launch(1, "receive", (1, 1), &[inbox, inbox + 64, out]);
    bed.launch(0, "send", (1, 1), &[inbox, inbox + 64, 4711]);
    bed.synchronize(1).unwrap();
    assert_eq!(bed.words(1, out, 1), [4711]);
    let after = bed.machine.counters().unwrap();
    assert_eq!(after.link_bytes - before.link_bytes, 8);
    assert_eq!(after.hops - before.hops, 2);
}

#[test]
fn hops_count_a_ping_pong() {
    let bed = Bed::with_devices(2);
    let words = [bed.alloc(0, GRAIN), bed.alloc(1, GRAIN)];
    bed.launch(0, "ping_pong", (1, 1), &[words[0], words[1], 0, 10]);
    bed.launch(1, "ping_pong", (1, 1), &[words[1], words[0], 1, 10]);
    bed.synchronize(0).unwrap();
    bed.synchronize(1).unwrap();
    assert_eq!(bed.words(0, words[0], 1), [10]);
    assert_eq!(bed.machine.counters().unwrap().hops, 10);
}

#[test]
fn a_stream_keeps_its_order_and_events_order_streams() {
    let bed = Bed::with_devices(2);
    let word = bed.alloc(0, GRAIN);
    let event = bed.machine.event_create(0, false).unwrap();
    bed.launch(0, "copy_add", (1, 1), &[word, word, 3]);
    bed.launch(0, "copy_add", (1, 1), &[word, word + 4, 5]);
    bed.machine.event_record(event, bed.streams[0]).unwrap();
    bed.machine.stream_wait_event(bed.streams[1], event).unwrap();
    bed.launch(1, "copy_add", (1, 1), &[word + 4, word + 8, 7]);
    assert!(!bed.machine.event_is_done(event).unwrap() || bed.words(0, word, 2) == [3, 8]);
    bed.synchronize(1).unwrap();
    assert_eq!(bed.words(0, word, 3), [3, 8, 15]);
    assert!(bed.machine.event_is_done(event).unwrap());
    let untimed = bed.machine.event_elapsed_us(event, event).unwrap_err().to_string();
    assert!(untimed.contains("timing"), "{untimed}");
}

#[test]
fn a_host_that_polls_makes_progress() {
    let bed = Bed::with_devices(1);
    let out = bed.alloc(0, GRAIN);
    bed.launch(0, "busy", (1, 64), &[out, 5000]);
    let n_polls = (0..1000).take_while(|_| !bed.machine.stream_is_done(bed.streams[0]).unwrap()).count();
    assert!((1..1000).contains(&n_polls), "{n_polls}");
}

#[test]
fn several_host_threads_drive_one_machine() {
    let bed = Bed::with_devices(2);
    let words = [bed.alloc(0, GRAIN), bed.alloc(1, GRAIN)];
    std::thread::scope(|scope| {
        for device in 0..2 {
            let (bed, words) = (&bed, &words);
            scope.spawn(move || {
                let (mine, theirs) = (words[device as usize], words[1 - device as usize]);
                for round in 0..20 {
                    let first = u64::from(device) + round * 10;
                    bed.launch(device, "ping_pong", (1, 1), &[mine, theirs, first, (round + 1) * 10]);
                    bed.synchronize(device).unwrap();
                }
            });
        }
    });
    assert_eq!(bed.words(0, words[0], 1), [200]);
}

#[test]
fn a_grid_larger_than_the_device_runs_in_waves() {
    let bed = Bed::new(SimConfig { n_devices: 1, n_multiprocessors: 1, ..SimConfig::default() });
    let out = bed.alloc(0, GRAIN);
    bed.launch(0, "iota", (100, 1024), &[out]);
    bed.synchronize(0).unwrap();
    assert_eq!(bed.words(0, out, 102_400), (0..102_400).collect::<Vec<_>>());
}

#[test]
fn wrong_launches_are_refused() {
    let bed = Bed::with_devices(2);
    let function = bed.function(0, "iota");
    let launch = |stream: usize, blocks, threads, shared_bytes, argument: &[u8]| {
        let shape = LaunchShape { blocks, threads, shared_bytes, waits_itself: false };
        bed.machine.launch(bed.streams[stream], function, shape, argument)
    };
    refused(launch(0, 0, 1, 0, &[0; 8]), 1);
    refused(launch(0, 1, 0, 0, &[0; 8]), 1);
    refused(launch(0, 1, 1025, 0, &[0; 8]), 1);
    refused(launch(0, 1, 1, 228 << 10, &[0; 8]), 1);
    refused(launch(0, 1, 1, 0, &[0; 4]), 1);
    refused(launch(0, 1, 1, 0, &[0; 16]), 1);
    refused(launch(1, 1, 1, 0, &[0; 8]), 400);
    refused(bed.machine.function(ModuleHandle(999), "iota"), 400);
    let missing = bed.machine.function(bed.modules[0], "no_such").unwrap_err();
    assert_eq!(
        missing.to_string(),
        "PTX from tests/kernels.ptx cannot be loaded: it has no kernel `no_such`"
    );
}

#[test]
fn modules_must_fit_the_driver_and_the_device() {
    let config = SimConfig { n_devices: 1, sm: 80, driver_version: (12, 2), ..SimConfig::default() };
    let machine = SimMachine::new(config).unwrap();
    let load = |text: &str| machine.module_load(0, text, "here").unwrap_err();
    let too_old = load(KERNELS);
    assert_eq!(
        *too_old.kind(),
        ErrorKind::DriverTooOld { driver: (12, 2), ptx: (8, 4), needed: (12, 4) },
        "{too_old}"
    );
    refused::<()>(Err(load(&KERNELS.replace(".version 8.4", ".version 8.2"))), 209);
    let broken = load(".version 8.2\n.target sm_80\n.address_size 64\nnonsense");
    assert!(
        matches!(broken.kind(), ErrorKind::InvalidPtx { .. }) && broken.to_string().contains("line 4"),
        "{broken}"
    );
    assert_eq!(machine.live(), LiveCounts::default());
}

#[test]
fn ranks_exchange_words_in_every_size_and_seed() {
    for (n_ranks, threads, seed) in [(1, 32, 1), (2, 64, 2), (3, 33, 3), (5, 128, 4), (8, 256, 5)] {
        let bed =
            Bed::new(SimConfig { n_devices: n_ranks, seed, probe: ProbeKind::Hops, ..SimConfig::default() });
        let stride = 2 * GRAIN;
        let base = bed.machine.address_reserve(stride * u64::from(n_ranks), 0, 0).unwrap();
        for rank in 0..n_ranks {
            let physical = bed.machine.mem_create(rank, GRAIN).unwrap();
            let place = base + u64::from(rank) * stride;
            bed.machine.mem_map(place, GRAIN, physical).unwrap();
            (0..n_ranks)
                .for_each(|d| bed.machine.mem_set_access(place, GRAIN, d, Access::ReadWrite).unwrap());
        }
        for epoch in 1..4 {
            let before = bed.machine.counters().unwrap();
            for rank in 0..n_ranks {
                let arguments = [base, stride, rank.into(), n_ranks.into(), epoch];
                bed.launch(rank, "all_to_all", (1, threads), &arguments);
            }
            (0..n_ranks).for_each(|rank| bed.synchronize(rank).unwrap());
            let after = bed.machine.counters().unwrap();
            let pairs = u64::from(n_ranks * (n_ranks - 1));
            assert_eq!(after.link_bytes - before.link_bytes, pairs * u64::from(threads) * 8);
            assert_eq!(after.hops - before.hops, u64::from(n_ranks > 1));
            for rank in 0..n_ranks {
                let sums = bed.words(rank, base + u64::from(rank) * stride + MIB, threads as usize);
                let senders = n_ranks * (n_ranks - 1) / 2 * 1000;
                assert_eq!(sums, (0..threads).map(|word| senders + n_ranks * word).collect::<Vec<_>>());
            }
        }
    }
}
