//! What orders launches and the host, and what a race is told as. What orders threads is in the litmus suite.

use super::*;

fn bed(n_devices: u32) -> Bed {
    Bed::new(SimConfig { n_devices, probe: ProbeKind::Races, ..SimConfig::default() })
}

/// What a step of the host gives: nothing, or the report of a race.
#[track_caller]
fn race(result: Result<(), Error>) -> Option<String> {
    match result {
        Ok(()) => None,
        Err(error) => match error.kind() {
            ErrorKind::Race { report } => Some(report.clone()),
            other => panic!("{other:?}"),
        },
    }
}

fn copy(bed: &Bed, device: u32, from: u64, to: u64) {
    bed.launch(device, "copy_add", (1, 1), &[from, to, 0]);
}

/// Synchronises all streams; gives the first race.
fn finish(bed: &Bed) -> Option<String> {
    let n_devices = bed.machine.device_count();
    let results: Vec<_> = (0..n_devices).map(|device| race(bed.synchronize(device))).collect();
    results.into_iter().flatten().next()
}

/// Puts what comes next on one stream behind another stream.
fn event(bed: &Bed, record: usize, wait: usize) -> crate::backend::EventHandle {
    let event = bed.machine.event_create(record as u32, false).unwrap();
    bed.machine.event_record(event, bed.streams[record]).unwrap();
    bed.machine.stream_wait_event(bed.streams[wait], event).unwrap();
    event
}

/// Each way to put a launch behind another one, and none.
#[test]
fn order_of_two_launches() {
    let check = |name: &str, races: bool, between: fn(&Bed)| {
        for seed in 0..4 {
            let bed =
                Bed::new(SimConfig { n_devices: 2, seed, probe: ProbeKind::Races, ..SimConfig::default() });
            let words = bed.alloc(0, GRAIN);
            copy(&bed, 0, words, words + 64);
            between(&bed);
            copy(&bed, 1, words + 64, words + 128);
            assert_eq!(finish(&bed).is_some(), races, "{name}, seed {seed}");
        }
    };
    check("nothing", true, |_| ());
    check("an event", false, |bed| _ = event(bed, 0, 1));
    check("an event of the wrong stream", true, |bed| _ = event(bed, 1, 1));
    check("a wait of the host", false, |bed| bed.synchronize(0).unwrap());
    check("a wait of the host for the wrong stream", true, |bed| bed.synchronize(1).unwrap());
    check("a host that polls until the stream is done", false, |bed| {
        while !bed.machine.stream_is_done(bed.streams[0]).unwrap() {}
    });
    check("a host that polls an event until it is done", false, |bed| {
        let event = event(bed, 0, 0);
        while !bed.machine.event_is_done(event).unwrap() {}
    });
    check("two events by a third launch", false, |bed| {
        let words = bed.alloc(1, GRAIN);
        event(bed, 0, 1);
        copy(bed, 1, words, words);
        event(bed, 1, 0);
    });
}

#[test]
fn a_stream_and_a_graph_are_orders() {
    let bed = bed(2);
    let words = bed.alloc(0, GRAIN);
    (0..5).for_each(|n| copy(&bed, 0, words + n * 4, words + n * 4 + 4));
    assert_eq!(finish(&bed), None);
    bed.machine.capture_begin(bed.streams[0]).unwrap();
    (0..3).for_each(|n| copy(&bed, 0, words + n * 4, words + n * 4 + 4));
    let graph = bed.machine.capture_end(bed.streams[0]).unwrap();
    let exec = bed.machine.graph_instantiate(graph).unwrap();
    // Launches of one graph never overlap, whatever their streams.
    (0..6).for_each(|n| bed.machine.graph_launch(exec, bed.streams[n % 2]).unwrap());
    assert_eq!(finish(&bed), None);
    let other = bed.machine.graph_instantiate(graph).unwrap();
    bed.machine.graph_launch(exec, bed.streams[0]).unwrap();
    bed.machine.graph_launch(other, bed.streams[1]).unwrap();
    assert!(finish(&bed).is_some(), "two graphs on two streams");
}

#[test]
fn the_host_must_wait() {
    let bed = bed(1);
    let (words, event) = (bed.alloc(0, GRAIN), bed.machine.event_create(0, false).unwrap());
    let read = |at: u64| race(bed.machine.read(0, at, &mut [0; 4]));
    let write = |at: u64| race(bed.machine.write(0, at, &[1; 4]));
    let start = || {
        copy(&bed, 0, words, words + 64);
        bed.machine.event_record(event, bed.streams[0]).unwrap();
        // Another host thread's wait lets the kernel run; this one does not know.
        let other = bed.machine.stream_create(0).unwrap();
        let function = bed.function(0, "busy");
        let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
        let argument: Vec<u8> =
            [words + 4096, 500].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        bed.machine.launch(other, function, shape, &argument).unwrap();
        bed.machine.stream_synchronize(other).unwrap();
    };
    start();
    assert_eq!(read(words), None, "both read");
    assert!(read(words + 64).unwrap().contains("the host reads"));
    bed.synchronize(0).unwrap();
    assert_eq!(read(words + 64), None);
    start();
    assert!(write(words).unwrap().contains("the host writes"));
    bed.synchronize(0).unwrap();
    assert_eq!(write(words), None);
    copy(&bed, 0, words, words + 64);
    assert_eq!(finish(&bed), None, "a launch comes behind what the host did before");
    copy(&bed, 0, words, words + 64);
    assert_eq!(write(words), None, "the kernel has not begun");
    assert!(finish(&bed).unwrap().contains("launch the kernel behind the host's access"));
}

/// A kernel that may be launched early knows nothing of the one before until it has waited for it.
#[test]
fn a_kernel_that_waits_itself_must_wait() {
    let store = "st.global.b32 [%rd2], %r3;";
    for waits in [true, false] {
        let wait = if waits { "griddepcontrol.wait;" } else { "" };
        let text =
            KERNELS.replace("ld.global.b32 %r2, [%rd1];", &format!("{wait}ld.global.b32 %r2, [%rd1];"));
        assert!(text.contains(store));
        let bed = bed(1);
        let module = bed.machine.module_load(0, &text, "early").unwrap();
        let function = bed.machine.function(module, "copy_add").unwrap();
        let words = bed.alloc(0, GRAIN);
        for n in 0..3 {
            let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: true };
            let arguments = [words + n * 4, words + n * 4 + 4, 0];
            let argument: Vec<u8> = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
            bed.machine.launch(bed.streams[0], function, shape, &argument).unwrap();
        }
        assert_eq!(finish(&bed).is_some(), !waits);
    }
}

#[test]
fn a_report_names_both_accesses_and_the_cure() {
    let bed = bed(2);
    let words = bed.alloc(0, GRAIN);
    copy(&bed, 0, words, words + 64);
    copy(&bed, 1, words + 128, words + 64);
    let found = finish(&bed).unwrap();
    let line = KERNELS.lines().position(|line| line.contains("st.global.b32 [%rd2], %r3;")).unwrap() + 1;
    let at = format!("at PTX line {line}: `st.global.b32 [%rd2], %r3;`");
    let who = |device| format!("kernel copy_add (launch {device}) on device {device}, block 0, thread 0");
    // Which of the two comes first, the seed decides.
    let (first, second) = if found.contains(&who(0)) { (0, 1) } else { (1, 0) };
    let expect = format!(
        "weak store of 4 bytes at {:#x}, offset 0x40 in memory of device 0\
         \n  and nothing orders that behind an earlier weak store of 4 bytes by {}\n  {at}\
         \n  would be ordered by: a release at .sys by the first thread behind its store, and an acquire at .sys by the \
         second before its store, of one word; or an order of the launches: one stream, an event, a wait of the host\
         \n  by kernel copy_add on device {second}, block 0, thread 0\n  {at}\
         \n  under schedule random:1",
        words + 64,
        who(first),
    );
    assert_eq!(found, expect);
}

/// Threads that only meet by words at the right scope: the kernels of the other tests, as they are and made wrong.
#[test]
fn kernels_that_meet() {
    let check = |changes: &[(&str, &str)], races: bool| {
        let text = changes.iter().fold(KERNELS.to_string(), |text, (from, to)| text.replace(from, to));
        let bed = bed(2);
        let load = |device| bed.machine.module_load(device, &text, "changed").unwrap();
        let modules = [load(0), load(1)];
        let (data, flag) = (bed.alloc(1, GRAIN), bed.alloc(1, GRAIN));
        let launch = |device: u32, name, arguments: [u64; 3]| {
            let function = bed.machine.function(modules[device as usize], name).unwrap();
            let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
            let argument: Vec<u8> = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
            bed.machine.launch(bed.streams[device as usize], function, shape, &argument).unwrap();
        };
        launch(1, "receive", [data, flag, data + 64]);
        launch(0, "send", [data, flag, 4711]);
        assert_eq!(finish(&bed).is_some(), races, "{changes:?}");
    };
    let weak = ("st.relaxed.sys.global.b32 [%rd1], %r1;", "st.global.b32 [%rd1], %r1;");
    let unreleased = ("st.release.sys", "st.relaxed.sys");
    let unacquired = ("fence.acq_rel.sys;", "");
    check(&[], false);
    check(&[unreleased, unacquired], false);
    check(&[weak], false);
    check(&[weak, unreleased], true);
    check(&[weak, unacquired], true);
    check(&[weak, ("st.release.sys", "st.release.gpu")], true);
    check(&[weak, ("fence.acq_rel.sys", "fence.acq_rel.gpu")], true);
    check(&[("ld.relaxed.sys.global.b32 %r2", "ld.relaxed.gpu.global.b32 %r2")], false);
    check(&[("ld.relaxed.sys.global.b32 %r2", "ld.relaxed.gpu.global.b32 %r2"), unreleased], true);
}

#[test]
fn shared_memory_races_too() {
    for (text, races) in [(KERNELS.to_string(), false), (KERNELS.replace("bar.sync 0;", ""), true)] {
        let bed = bed(1);
        let module = bed.machine.module_load(0, &text, "changed").unwrap();
        let function = bed.machine.function(module, "reverse").unwrap();
        let out = bed.alloc(0, GRAIN);
        let shape = LaunchShape { blocks: 3, threads: 96, shared_bytes: 0, waits_itself: false };
        bed.machine.launch(bed.streams[0], function, shape, &out.to_le_bytes()).unwrap();
        let found = finish(&bed);
        assert_eq!(found.is_some(), races, "{found:?}");
        assert!(found.is_none_or(|report| report.contains("shared memory of the block")));
    }
}
