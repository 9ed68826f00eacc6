//! Capture and graphs: what is recorded, what is refused, what a replay does.

use super::*;
use crate::backend::{CaptureState, EventHandle, GraphFacts};

impl Bed {
    fn event(&self, device: u32) -> EventHandle {
        self.machine.event_create(device, false).unwrap()
    }

    fn add(&self, device: u32, from: u64, to: u64, amount: u64) {
        self.launch(device, "copy_add", (1, 1), &[from, to, amount]);
    }
}

#[test]
fn a_captured_kernel_is_one_node_and_runs_when_launched() {
    let bed = Bed::with_devices(1);
    let (machine, stream) = (&bed.machine, bed.streams[0]);
    let word = bed.alloc(0, GRAIN);
    machine.capture_begin(stream).unwrap();
    assert!(matches!(machine.capture_state(stream).unwrap(), CaptureState::Active(_)));
    bed.add(0, word, word, 3);
    let graph = machine.capture_end(stream).unwrap();
    assert_eq!(machine.capture_state(stream).unwrap(), CaptureState::None);
    assert_eq!(machine.graph_facts(graph).unwrap(), GraphFacts { n_nodes: 1, n_kernel_nodes: 1 });
    bed.synchronize(0).unwrap();
    assert_eq!(bed.words(0, word, 1), [0], "capturing runs nothing");
    let exec = machine.graph_instantiate(graph).unwrap();
    machine.graph_destroy(graph).unwrap();
    (0..5).for_each(|_| machine.graph_launch(exec, stream).unwrap());
    machine.graph_exec_destroy(exec).unwrap();
    bed.synchronize(0).unwrap();
    assert_eq!(bed.words(0, word, 1), [15]);
}

#[test]
fn a_fork_that_is_joined_keeps_its_order_across_devices() {
    let bed = Bed::with_devices(2);
    let machine = &bed.machine;
    let word = bed.alloc(0, GRAIN);
    let (fork, join) = (bed.event(0), bed.event(1));
    machine.capture_begin(bed.streams[0]).unwrap();
    bed.add(0, word, word + 4, 1);
    machine.event_record(fork, bed.streams[0]).unwrap();
    machine.stream_wait_event(bed.streams[1], fork).unwrap();
    bed.add(1, word + 4, word + 8, 10);
    machine.event_record(join, bed.streams[1]).unwrap();
    machine.stream_wait_event(bed.streams[0], join).unwrap();
    bed.add(0, word + 8, word + 12, 100);
    let graph = machine.capture_end(bed.streams[0]).unwrap();
    assert_eq!(machine.graph_facts(graph).unwrap(), GraphFacts { n_nodes: 3, n_kernel_nodes: 3 });
    let exec = machine.graph_instantiate(graph).unwrap();
    for start in [5, 7] {
        bed.set_words(0, word, &[start]);
        machine.graph_launch(exec, bed.streams[1]).unwrap();
        bed.synchronize(1).unwrap();
        assert_eq!(bed.words(0, word, 4), [start, start + 1, start + 11, start + 111]);
    }
    bed.add(1, word, word, 1);
    bed.synchronize(1).unwrap();
}

#[test]
fn a_graph_launch_in_a_capture_is_a_child() {
    let bed = Bed::with_devices(1);
    let (machine, stream) = (&bed.machine, bed.streams[0]);
    let word = bed.alloc(0, GRAIN);
    let capture = |work: &dyn Fn()| {
        machine.capture_begin(stream).unwrap();
        work();
        machine.capture_end(stream).unwrap()
    };
    let inner = capture(&|| (0..3).for_each(|_| bed.add(0, word, word, 1)));
    let inner = machine.graph_instantiate(inner).unwrap();
    let outer = capture(&|| {
        machine.graph_launch(inner, stream).unwrap();
        bed.add(0, word, word + 4, 0);
    });
    assert_eq!(machine.graph_facts(outer).unwrap(), GraphFacts { n_nodes: 2, n_kernel_nodes: 1 });
    let outer = machine.graph_instantiate(outer).unwrap();
    machine.graph_launch(outer, stream).unwrap();
    bed.synchronize(0).unwrap();
    assert_eq!(bed.words(0, word, 2), [3, 3]);
}

#[test]
fn what_a_capturing_stream_does_not_allow_breaks_the_capture() {
    type Case = fn(&Bed, EventHandle) -> Result<(), Error>;
    // Stream 0 captures; the event was recorded on it, in the capture.
    let cases: &[(&str, u32, Case)] = &[
        ("synchronise", 900, |bed, _| bed.synchronize(0)),
        ("query", 900, |bed, _| bed.machine.stream_is_done(bed.streams[0]).map(drop)),
        ("destroy", 900, |bed, _| bed.machine.stream_destroy(bed.streams[0])),
        ("query its event", 907, |bed, event| bed.machine.event_is_done(event).map(drop)),
        ("wait for an event from outside", 905, |bed, _| {
            let outside = bed.event(1);
            bed.machine.event_record(outside, bed.streams[1])?;
            bed.machine.stream_wait_event(bed.streams[0], outside)
        }),
        ("merge two captures", 902, |bed, event| {
            bed.machine.capture_begin(bed.streams[1])?;
            bed.machine.stream_wait_event(bed.streams[1], event)
        }),
        ("end on a stream that only joined", 903, |bed, event| {
            bed.machine.stream_wait_event(bed.streams[1], event)?;
            bed.machine.capture_end(bed.streams[1]).map(drop)
        }),
        ("end from another thread", 908, |bed, _| {
            let end = || bed.machine.capture_end(bed.streams[0]).map(drop);
            std::thread::scope(|scope| scope.spawn(end).join().unwrap())
        }),
    ];
    for (name, code, case) in cases {
        let bed = Bed::with_devices(2);
        let word = bed.alloc(0, GRAIN);
        let event = bed.event(0);
        bed.machine.capture_begin(bed.streams[0]).unwrap();
        bed.add(0, word, word, 1);
        bed.machine.event_record(event, bed.streams[0]).unwrap();
        match case(&bed, event).map_err(|error| error.kind().clone()) {
            Err(ErrorKind::Driver { code: found, .. }) if found == *code => {}
            other => panic!("{name}: expected CUresult {code}, found {other:?}"),
        }
        assert_eq!(bed.machine.capture_state(bed.streams[0]).unwrap(), CaptureState::Invalidated, "{name}");
        let function = bed.function(0, "copy_add");
        let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
        refused(bed.machine.launch(bed.streams[0], function, shape, &[0; 24]), 901);
        refused(bed.machine.capture_end(bed.streams[0]), 901);
        bed.add(0, word, word, 1);
        bed.synchronize(0).unwrap();
        assert_eq!(bed.words(0, word, 1), [1], "{name}: the stream works again");
    }
}

#[test]
fn other_work_goes_on_during_a_capture() {
    let bed = Bed::with_devices(2);
    let word = bed.alloc(0, GRAIN);
    let event = bed.event(1);
    bed.machine.capture_begin(bed.streams[0]).unwrap();
    bed.set_words(0, word, &[7]);
    bed.add(1, word, word + 4, 1);
    bed.machine.event_record(event, bed.streams[1]).unwrap();
    bed.synchronize(1).unwrap();
    assert!(bed.machine.event_is_done(event).unwrap());
    assert_eq!(bed.words(0, word, 2), [7, 8]);
    bed.machine.capture_end(bed.streams[0]).unwrap();
}

#[test]
fn captures_begin_and_end_in_pairs() {
    let bed = Bed::with_devices(1);
    let (machine, stream) = (&bed.machine, bed.streams[0]);
    refused(machine.capture_end(stream), 401);
    machine.capture_begin(stream).unwrap();
    refused(machine.capture_begin(stream), 401);
    machine.capture_end(stream).unwrap();
}

#[test]
fn a_fork_that_is_not_joined_ends_in_an_error() {
    let bed = Bed::with_devices(2);
    let machine = &bed.machine;
    let word = bed.alloc(0, GRAIN);
    let fork = bed.event(0);
    machine.capture_begin(bed.streams[0]).unwrap();
    machine.event_record(fork, bed.streams[0]).unwrap();
    machine.stream_wait_event(bed.streams[1], fork).unwrap();
    bed.add(1, word, word, 1);
    refused(machine.capture_end(bed.streams[0]), 904);
    assert_eq!(machine.capture_state(bed.streams[1]).unwrap(), CaptureState::None);
}

#[test]
fn an_event_of_a_finished_capture_cannot_be_waited_for() {
    let bed = Bed::with_devices(1);
    let event = bed.event(0);
    bed.machine.capture_begin(bed.streams[0]).unwrap();
    bed.machine.event_record(event, bed.streams[0]).unwrap();
    bed.machine.capture_end(bed.streams[0]).unwrap();
    refused(bed.machine.stream_wait_event(bed.streams[0], event), 1);
    refused(bed.machine.event_is_done(event), 907);
}

#[test]
fn dead_handles_are_refused() {
    let bed = Bed::with_devices(1);
    let machine = &bed.machine;
    let stream = machine.stream_create(0).unwrap();
    let event = bed.event(0);
    machine.stream_destroy(stream).unwrap();
    machine.event_destroy(event).unwrap();
    refused(machine.stream_synchronize(stream), 400);
    refused(machine.stream_destroy(stream), 400);
    refused(machine.event_record(event, bed.streams[0]), 400);
    refused(machine.event_destroy(event), 400);
    machine.capture_begin(bed.streams[0]).unwrap();
    let graph = machine.capture_end(bed.streams[0]).unwrap();
    machine.graph_destroy(graph).unwrap();
    refused(machine.graph_instantiate(graph), 400);
    refused(machine.graph_facts(graph), 400);
}
