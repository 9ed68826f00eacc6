//! Schedules on real kernels: what the kinds find, and that a run can be repeated.

use super::*;
use crate::sim::schedule::{Exhaustive, Schedule, ScheduleKind};
use std::collections::BTreeSet;

/// Two threads of one block. `bump`: each loads a word, and stores one more: an update is lost where both load first.
/// `pair`: thread 0 stores x and then y, thread 1 loads y and then x.
const RACY: &str = "
.version 7.8
.target sm_80
.address_size 64
.visible .entry bump(.param .u64 word)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [word];
    ld.relaxed.gpu.global.b32 %r1, [%rd1];
    add.u32 %r2, %r1, 1;
    st.relaxed.gpu.global.b32 [%rd1], %r2;
    ret;
}
.visible .entry pair(.param .u64 word)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [word];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $reader;
    st.relaxed.gpu.global.b32 [%rd1], 1;
    st.relaxed.gpu.global.b32 [%rd1+4], 1;
    ret;
$reader:
    ld.relaxed.gpu.global.b32 %r2, [%rd1+4];
    ld.relaxed.gpu.global.b32 %r3, [%rd1];
    st.relaxed.gpu.global.b32 [%rd1+8], %r2;
    st.relaxed.gpu.global.b32 [%rd1+12], %r3;
    ret;
}
";

struct Rig {
    bed: Bed,
    module: ModuleHandle,
    memory: u64,
}

impl Rig {
    fn new() -> Self {
        let bed = Bed::new(SimConfig { n_devices: 1, ..SimConfig::default() });
        let module = bed.machine.module_load(0, RACY, "tests/schedules.rs").unwrap();
        let memory = bed.alloc(0, GRAIN);
        Self { bed, module, memory }
    }

    /// The first four words after a run of so many threads.
    fn run(&self, kernel: &str, threads: u32, schedule: &Schedule) -> Vec<u32> {
        let machine = &self.bed.machine;
        machine.fill(0, self.memory, 0, 64).unwrap();
        machine.restart(schedule, ProbeKind::None).unwrap();
        let function = machine.function(self.module, kernel).unwrap();
        let shape = LaunchShape { blocks: 1, threads, shared_bytes: 0, waits_itself: false };
        machine.launch(self.bed.streams[0], function, shape, &self.memory.to_le_bytes()).unwrap();
        self.bed.synchronize(0).unwrap();
        self.bed.words(0, self.memory, 4)
    }

    /// What runs of all schedules give.
    fn all(&self, kernel: &str, threads: u32, preemptions_max: u32) -> BTreeSet<Vec<u32>> {
        let mut search = Exhaustive::new(preemptions_max);
        let mut found = BTreeSet::new();
        while let Some(prefix) = search.next_prefix() {
            let schedule = Schedule { kind: ScheduleKind::Choices(prefix), seed: 0 };
            found.insert(self.run(kernel, threads, &schedule));
            search.ran(&self.bed.machine.choices());
        }
        found
    }
}

#[test]
fn an_exhaustive_search_finds_every_outcome() {
    let rig = Rig::new();
    let firsts = |found: BTreeSet<Vec<u32>>| found.iter().map(|words| words[0]).collect::<Vec<_>>();
    assert_eq!(firsts(rig.all("bump", 2, 0)), [2]);
    assert_eq!(firsts(rig.all("bump", 2, 1)), [1, 2]);
    assert_eq!(firsts(rig.all("bump", 3, 2)), [1, 2, 3]);
    // Never y without x: that takes weak memory.
    let seen: Vec<_> = rig.all("pair", 2, 4).iter().map(|words| (words[2], words[3])).collect();
    assert_eq!(seen, [(0, 0), (0, 1), (1, 1)]);
}

/// A lost update needs two orders: both loads before either store. Each thread of a fair schedule mostly runs to its end
/// in one burst.
#[test]
fn pct_finds_a_mistake_of_depth_two() {
    let rig = Rig::new();
    let kind = ScheduleKind::Pct { n_changes: 1, n_steps: 12 };
    let is_lost = |seed| rig.run("bump", 2, &Schedule { kind: kind.clone(), seed })[0] == 1;
    let n_found = (0..60).filter(|&seed| is_lost(seed)).count();
    // At least 1 in 2 · 12, by the bound of the paper.
    assert!((2..60).contains(&n_found), "{n_found} of 60 seeds");
}

#[test]
fn a_run_is_repeated_by_its_text() {
    let rig = Rig::new();
    let kinds = [
        ScheduleKind::Random,
        ScheduleKind::Unfair,
        ScheduleKind::Pct { n_changes: 3, n_steps: 100 },
        ScheduleKind::Choices([0, 1, 0, 1].into()),
    ];
    for (kind, seed) in kinds.iter().flat_map(|kind| (0..5).map(move |seed| (kind.clone(), seed))) {
        let schedule = Schedule { kind, seed };
        let first = rig.run("bump", 40, &schedule);
        let work = rig.bed.machine.counters();
        let again = rig.run("bump", 40, &schedule.to_string().parse().unwrap());
        assert_eq!((first, work), (again, rig.bed.machine.counters()), "{schedule}");
    }
}

#[test]
fn a_machine_starts_anew_only_when_it_rests() {
    let rig = Rig::new();
    let machine = &rig.bed.machine;
    let function = machine.function(rig.module, "bump").unwrap();
    let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
    machine.launch(rig.bed.streams[0], function, shape, &rig.memory.to_le_bytes()).unwrap();
    let schedule = Schedule { kind: ScheduleKind::RoundRobin, seed: 0 };
    assert!(machine.restart(&schedule, ProbeKind::None).is_err());
    assert!(machine.replace_kernels(RACY, "itself").is_err());
    rig.bed.synchronize(0).unwrap();
    machine.restart(&schedule, ProbeKind::None).unwrap();
    assert_eq!(machine.counters().unwrap().instructions, 0);
}

#[test]
fn other_code_runs_in_a_kernels_place() {
    let rig = Rig::new();
    let schedule = Schedule { kind: ScheduleKind::RoundRobin, seed: 0 };
    let by_ten = RACY.replace("add.u32 %r2, %r1, 1;", "add.u32 %r2, %r1, 10;");
    assert_eq!(rig.run("bump", 1, &schedule)[0], 1);
    assert_eq!(rig.bed.machine.replace_kernels(&by_ten, "by ten").unwrap(), 2);
    assert_eq!(rig.run("bump", 1, &schedule)[0], 10);
    let other = RACY.replace(".param .u64 word", ".param .u32 word");
    assert!(rig.bed.machine.replace_kernels(&other, "narrow").is_err());
    assert_eq!(rig.run("bump", 1, &schedule)[0], 10);
}

#[test]
fn a_trace_tells_who_did_what() {
    use crate::sim::TraceKind;
    let rig = Rig::new();
    rig.run("pair", 2, &Schedule { kind: ScheduleKind::RoundRobin, seed: 0 });
    assert!(rig.bed.machine.trace().events.is_empty(), "only a machine that is told to keeps events");
    let schedule = Schedule { kind: ScheduleKind::RoundRobin, seed: 0 };
    rig.bed.machine.restart(&schedule, ProbeKind::Trace).unwrap();
    let function = rig.bed.machine.function(rig.module, "pair").unwrap();
    let shape = LaunchShape { blocks: 1, threads: 2, shared_bytes: 0, waits_itself: false };
    rig.bed.machine.launch(rig.bed.streams[0], function, shape, &rig.memory.to_le_bytes()).unwrap();
    rig.bed.synchronize(0).unwrap();
    let trace = rig.bed.machine.trace();
    let kinds = |thread| {
        let of_thread = trace.events.iter().filter(move |event| event.thread == thread && event.ptx_line > 0);
        of_thread.map(|event| match &event.kind {
            TraceKind::Load(access) => ("load", access.address - rig.memory),
            TraceKind::Store(access) => ("store", access.address - rig.memory),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(kinds(0).collect::<Vec<_>>(), [("store", 0), ("store", 4)]);
    assert_eq!(kinds(1).collect::<Vec<_>>(), [("load", 4), ("load", 0), ("store", 8), ("store", 12)]);
    assert_eq!((trace.launches.len(), trace.launches[0].kernel.as_str()), (1, "pair"));
    let ends = [&trace.events[0].kind, &trace.events[trace.events.len() - 1].kind];
    assert_eq!(ends, [&TraceKind::Begin, &TraceKind::End]);
    assert!(!trace.is_cut);
}
