//! What the machine says when a kernel goes wrong, and that it goes on afterwards.

use super::*;
use crate::sim::OnStall;

/// The report of a deadlock or fault, addresses cut out.
#[track_caller]
fn report(result: Result<(), Error>) -> String {
    match result.unwrap_err().kind() {
        ErrorKind::Deadlock { report } | ErrorKind::Fault { report } => without_addresses(report),
        other => panic!("{other:?}"),
    }
}

/// Puts `ADDR` for every number that is an address: more than 8 hexadecimal digits.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut clean = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(part.len());
        if digits > 8 {
            clean += "ADDR";
            clean += &part[digits..];
        } else {
            clean += "0x";
            clean += part;
        }
    }
    clean
}

/// Number of the first line of the kernels that holds `text`.
fn line(text: &str) -> usize {
    KERNELS.lines().position(|line| line.contains(text)).unwrap() + 1
}

#[test]
fn a_flag_that_nobody_sets() {
    let bed = Bed::with_devices(2);
    let (inbox, out) = (bed.alloc(0, GRAIN), bed.alloc(1, GRAIN));
    bed.launch(1, "receive", (3, 2), &[inbox, inbox + 64, out]);
    let expect = format!(
        "no thread can go on; 6 threads wait:\
         \n  kernel receive on device 1, block 0, thread 0 (and 5 other threads, in 3 blocks in all): \
         polls ADDR (offset 0x40 in the mapping at ADDR, memory of device 0), sees 0x0\
         \n    at PTX line {}: `ld.relaxed.sys.global.b32 %r1, [%rd2];` (tests/kernels.rs:42)",
        line("ld.relaxed.sys.global.b32 %r1, [%rd2];")
    );
    assert_eq!(report(bed.synchronize(1)), expect);
}

#[test]
fn a_barrier_that_is_never_full() {
    let bed = Bed::with_devices(1);
    bed.launch(0, "lost_at_barrier", (1, 40), &[]);
    let expect = format!(
        "no thread can go on; 40 threads wait:\
         \n  kernel lost_at_barrier on device 0, block 0, thread 0 (and 39 other threads, in 1 block in all): \
         waits at block barrier 1, 40 of 64 threads are there\
         \n    at PTX line {}: `bar.sync 1, 64;`",
        line("bar.sync 1, 64;")
    );
    assert_eq!(report(bed.synchronize(0)), expect);
}

#[test]
fn blocks_that_wait_for_blocks_that_cannot_start() {
    let config = SimConfig {
        n_devices: 1,
        n_multiprocessors: 2,
        schedule: crate::sim::ScheduleKind::RoundRobin,
        stall_polls: 500,
        ..SimConfig::default()
    };
    let bed = Bed::new(config.clone());
    let done = bed.alloc(0, GRAIN);
    bed.launch(0, "chain", (4, 1024), &[done]);
    bed.synchronize(0).unwrap();
    bed.machine.fill(0, done, 0, GRAIN).unwrap();
    bed.launch(0, "chain", (5, 1024), &[done]);
    let text = report(bed.synchronize(0));
    assert!(
        text.ends_with(
            "1 block of kernel chain on device 0 cannot start: there is no room beside the resident blocks"
        ),
        "{text}"
    );
}

#[test]
fn a_store_into_nothing() {
    let bed = Bed::with_devices(2);
    let memory = bed.alloc(1, GRAIN);
    bed.launch(0, "copy_add", (1, 1), &[memory, memory + GRAIN + 0x100, 1]);
    let text = report(bed.synchronize(0));
    let expect = format!(
        "access to ADDR, where nothing is mapped\
         \n  by kernel copy_add on device 0, block 0, thread 0\
         \n  at PTX line {}: `st.global.b32 [%rd2], %r3;`\
         \n  mapped below: 0x100 bytes past the end of 0x200000 bytes at ADDR, memory of device 1, \
         read and write access for device 0\
         \n  mapped above: ",
        line("st.global.b32 [%rd2], %r3;")
    );
    assert!(text.starts_with(&expect), "{text}\n{expect}");
}

#[test]
fn other_bad_accesses() {
    let bed = Bed::with_devices(2);
    let memory = bed.alloc(0, GRAIN);
    let check = |arguments: &[u64], expect: &str| {
        bed.launch(1, "copy_add", (1, 1), arguments);
        let text = report(bed.synchronize(1));
        assert!(text.contains(expect), "{text}");
    };
    check(&[memory + 2, memory, 0], "which is not a multiple of 4");
    bed.machine.mem_set_access(memory, GRAIN, 1, Access::Read).unwrap();
    check(&[memory, memory + 8, 0], "store or atomic to ADDR, which the device may not write");
    check(&[memory, memory + 8, 0], "mapped there: 0x200000 bytes at ADDR, memory of device 0, read access");
    bed.machine.mem_set_access(memory, GRAIN, 1, Access::None).unwrap();
    check(&[memory, memory + 8, 0], "load from ADDR, which the device may not read");
    check(&[64, memory, 0], "mapped below: nothing");
}

#[test]
fn each_stream_hears_of_a_fault_once_and_the_machine_goes_on() {
    let bed = Bed::with_devices(3);
    let memory = bed.alloc(0, GRAIN);
    let event = bed.machine.event_create(1, false).unwrap();
    bed.launch(0, "copy_add", (1, 1), &[64, memory, 0]);
    bed.launch(1, "receive", (1, 1), &[memory, memory + 4, memory]);
    bed.machine.event_record(event, bed.streams[1]).unwrap();
    for device in [1, 0] {
        assert!(report(bed.synchronize(device)).contains("where nothing is mapped"));
        bed.synchronize(device).unwrap();
    }
    assert!(bed.machine.event_is_done(event).is_err(), "the work behind the event was dropped");
    bed.synchronize(2).unwrap();
    bed.launch(0, "iota", (2, 32), &[memory]);
    bed.synchronize(0).unwrap();
    assert_eq!(bed.words(0, memory, 64), (0..64).collect::<Vec<_>>());
}

#[test]
fn a_stalled_machine_can_let_time_pass() {
    for (bound_ns, ends) in [(1_000_000_000, true), (1 << 55, false)] {
        let config = SimConfig { n_devices: 1, on_stall: OnStall::AdvanceClock, ..SimConfig::default() };
        let bed = Bed::new(config);
        let memory = bed.alloc(0, GRAIN);
        bed.launch(0, "receive_bounded", (1, 32), &[memory, memory + 4, bound_ns]);
        assert_eq!(bed.synchronize(0).is_ok(), ends, "{bound_ns}");
        assert_eq!(bed.words(0, memory + 4, 1), [u32::from(ends)]);
    }
}

#[test]
fn another_host_thread_may_end_a_stall_by_a_launch_or_a_store() {
    for by_launch in [true, false] {
        let bed = Bed::with_devices(2);
        let (inbox, out) = (bed.machine.host_alloc(128).unwrap(), bed.alloc(1, GRAIN));
        bed.launch(1, "receive", (1, 1), &[inbox.device, inbox.device + 64, out]);
        let has_used_it = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                bed.machine.device_facts(0).unwrap();
                bed.machine.live();
                has_used_it.wait();
                std::thread::sleep(std::time::Duration::from_millis(50));
                if by_launch {
                    bed.launch(0, "send", (1, 1), &[inbox.device, inbox.device + 64, 9]);
                } else {
                    bed.set_words(0, inbox.device, &[9]);
                    bed.set_words(0, inbox.device + 64, &[1]);
                }
            });
            // The other thread has used the machine before this one waits.
            has_used_it.wait();
            bed.synchronize(1).unwrap();
        });
        assert_eq!(bed.words(1, out, 1), [9]);
    }
}

#[test]
fn a_host_that_only_polls_hears_of_a_deadlock_too() {
    let config = SimConfig { n_devices: 1, stall_grace_ms: 20, stall_polls: 100, ..SimConfig::default() };
    let bed = Bed::new(config);
    let memory = bed.alloc(0, GRAIN);
    bed.launch(0, "receive", (1, 1), &[memory, memory + 64, memory]);
    let text = loop {
        match bed.machine.stream_is_done(bed.streams[0]) {
            Ok(done) => assert!(!done),
            Err(error) => break error.to_string(),
        }
    };
    assert!(text.starts_with("deadlock: no thread can go on; 1 thread waits:"), "{text}");
}

#[test]
fn a_kernel_without_an_end_is_given_up() {
    let config = SimConfig { n_devices: 1, instructions_max: 1_000_000, ..SimConfig::default() };
    let bed = Bed::new(config);
    let memory = bed.alloc(0, GRAIN);
    bed.launch(0, "endless", (1, 1), &[]);
    let text = report(bed.synchronize(0));
    assert!(text.contains("kernel endless on device 0, block 0, thread 0: runs"), "{text}");
    bed.launch(0, "iota", (1, 1), &[memory]);
    bed.synchronize(0).unwrap();
}
