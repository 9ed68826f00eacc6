//! Random programs of streams and events keep the order that they ask for, eager and in graphs.

use super::*;
use crate::backend::EventHandle;
use proptest::prelude::*;

const STREAMS: usize = 3;
const EVENTS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A kernel on a stream.
    Launch(usize),
    /// An event behind a stream's work.
    Record(usize, usize),
    /// A stream waits for an event.
    Wait(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (stream, event) = (0..STREAMS, 0..EVENTS);
    let step = prop_oneof![
        2 => stream.clone().prop_map(Step::Launch),
        1 => (stream.clone(), event.clone()).prop_map(|(stream, event)| Step::Record(stream, event)),
        1 => (stream, event).prop_map(|(stream, event)| Step::Wait(stream, event)),
    ];
    prop::collection::vec(step, 1..24)
}

/// For each launch, the launches that must come before it, as bits.
fn predecessors(steps: &[Step]) -> Vec<u32> {
    let mut before = Vec::new();
    let (mut streams, mut events) = ([0_u32; STREAMS], [0_u32; EVENTS]);
    for step in steps {
        match *step {
            Step::Launch(stream) => {
                before.push(streams[stream]);
                streams[stream] |= 1 << (before.len() - 1);
            }
            Step::Record(stream, event) => events[event] = streams[stream],
            Step::Wait(stream, event) => streams[stream] |= events[event],
        }
    }
    before
}

struct Program {
    bed: Bed,
    events: Vec<EventHandle>,
    counter: u64,
    order: u64,
}

impl Program {
    fn new(seed: u64) -> Self {
        let bed = Bed::new(SimConfig { n_devices: STREAMS as u32, seed, ..SimConfig::default() });
        let (counter, order) = (bed.alloc(0, GRAIN), bed.alloc(0, GRAIN));
        Self { bed, events: Vec::new(), counter, order }
    }

    fn run(&mut self, steps: &[Step]) {
        // An event belongs to the device whose stream records it, so there is one for each pair.
        let machine = &self.bed.machine;
        let pair = |index: usize| machine.event_create((index / EVENTS) as u32, false).unwrap();
        self.events = (0..STREAMS * EVENTS).map(pair).collect();
        let mut recorded_by = [0; EVENTS];
        let mut id = 0;
        for step in steps {
            match *step {
                Step::Launch(stream) => {
                    self.bed.launch(stream as u32, "log", (1, 1), &[self.counter, self.order, id]);
                    id += 1;
                }
                Step::Record(stream, event) => {
                    recorded_by[event] = stream;
                    machine
                        .event_record(self.events[stream * EVENTS + event], self.bed.streams[stream])
                        .unwrap();
                }
                Step::Wait(stream, event) => {
                    let handle = self.events[recorded_by[event] * EVENTS + event];
                    machine.stream_wait_event(self.bed.streams[stream], handle).unwrap();
                }
            }
        }
    }

    /// Checks what ran since the last check.
    fn check(&self, before: &[u32]) {
        (0..STREAMS as u32).for_each(|device| self.bed.synchronize(device).unwrap());
        let ran = self.bed.words(0, self.order, before.len());
        assert_eq!(self.bed.words(0, self.counter, 1), [before.len() as u32]);
        let mut done = 0_u32;
        for id in ran {
            let missing = before[id as usize] & !done;
            assert_eq!(missing, 0, "launch {id} ran before launches {missing:#b}");
            done |= 1 << id;
        }
        assert_eq!(done.count_ones() as usize, before.len());
        self.bed.machine.fill(0, self.counter, 0, 4).unwrap();
    }
}

/// `steps` between a fork from stream 0 and a join to it.
fn forked(steps: &[Step]) -> Vec<Step> {
    let spare = EVENTS - 1;
    let inner =
        steps.iter().filter(|step| !matches!(step, Step::Record(_, e) | Step::Wait(_, e) if *e == spare));
    let fork = (1..STREAMS).map(|stream| Step::Wait(stream, spare));
    let join = (1..STREAMS).flat_map(|stream| [Step::Record(stream, spare), Step::Wait(0, spare)]);
    let first = [Step::Launch(0), Step::Record(0, spare)];
    first.into_iter().chain(fork).chain(inner.copied()).chain(join).chain([Step::Launch(0)]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn eager(steps in steps(), seed in any::<u64>()) {
        let mut program = Program::new(seed);
        program.run(&steps);
        program.check(&predecessors(&steps));
    }

    #[test]
    fn captured(steps in steps(), seed in any::<u64>()) {
        let steps = forked(&steps);
        let mut program = Program::new(seed);
        let machine = program.bed.machine.clone();
        machine.capture_begin(program.bed.streams[0]).unwrap();
        program.run(&steps);
        let graph = machine.capture_end(program.bed.streams[0]).unwrap();
        let before = predecessors(&steps);
        prop_assert_eq!(machine.graph_facts(graph).unwrap().n_kernel_nodes as usize, before.len());
        let exec = machine.graph_instantiate(graph).unwrap();
        for _ in 0..3 {
            machine.graph_launch(exec, program.bed.streams[1]).unwrap();
            program.check(&before);
        }
    }
}
