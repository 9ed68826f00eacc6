//! Why threads stop, what they get when they go on, and that slices do not matter.

use super::machine::{GLOBAL, Machine, kernel, run_to_end};
use crate::sim::interface::{
    AtomicOp, BarrierReduction, BlockBarrier, Fault, Special, Stop, WarpOp, WarpRequest,
};
use crate::sim::thread::{ThreadState, resume_with, run};

const REGISTERS: &str = ".reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n";

/// Runs a body that leaves its value in `%r0`; the first stop and the value.
fn first_stop(body: &str, results: [u64; 2]) -> (Stop, u64) {
    let kernel = kernel(&format!("{REGISTERS}{body};\nmov.b64 %d8, {GLOBAL};\nst.global.b32 [%d8], %r0;"));
    let mut machine = Machine { global: vec![0; 8], ..Machine::default() };
    let (stops, _) = run_to_end(&kernel, &mut machine, results);
    assert_eq!(stops.last(), Some(&Stop::Exit), "{body}");
    assert_eq!(stops.len(), 2, "{body}");
    (stops[0].clone(), machine.words()[0])
}

fn barrier(barrier: u32, n_threads: Option<u32>, reduction: Option<(BarrierReduction, bool)>) -> Stop {
    Stop::BlockBarrier(BlockBarrier { barrier, n_threads, reduction, arrive_only: false })
}

#[test]
fn block_barriers() {
    let count = Some((BarrierReduction::Count, true));
    let table = [
        ("bar.sync 0; mov.b32 %r0, 1", [9, 9], barrier(0, None, None), 1),
        ("bar.cta.sync 3, 64; mov.b32 %r0, 1", [9, 9], barrier(3, Some(64), None), 1),
        ("mov.b32 %r1, 5; barrier.sync.aligned %r1; mov.b32 %r0, 1", [9, 9], barrier(5, None, None), 1),
        ("setp.eq.u32 %p0, 0, 0; bar.red.popc.u32 %r0, 0, %p0", [77, 9], barrier(0, None, count), 77),
        (
            "setp.eq.u32 %p0, 0, 0; barrier.cta.red.and.pred %p1, 1, 32, !%p0; selp.b32 %r0, 7, 8, %p1",
            [5, 0],
            barrier(1, Some(32), Some((BarrierReduction::And, false))),
            7,
        ),
        (
            "setp.eq.u32 %p0, 0, 1; bar.red.or.pred %p1, 0, %p0; selp.b32 %r0, 7, 8, %p1",
            [0, 0],
            barrier(0, None, Some((BarrierReduction::Or, false))),
            8,
        ),
    ];
    for (body, results, stop, value) in table {
        assert_eq!(first_stop(body, results), (stop, value), "{body}");
    }
    let arrive = BlockBarrier { barrier: 2, n_threads: Some(96), reduction: None, arrive_only: true };
    assert_eq!(first_stop("bar.arrive 2, 96; mov.b32 %r0, 1", [0, 0]), (Stop::BlockBarrier(arrive), 1));
}

#[test]
fn exchanges_of_a_warp() {
    let shuffle = |mode, lane, clamp| WarpOp::Shuffle { mode, value: 6, lane, clamp };
    let reduce = |op, value| WarpOp::Reduce { op, value };
    let table = [
        ("bar.warp.sync 0xff; mov.b32 %r0, 1", [9, 9], 0xff, WarpOp::Sync, 1),
        ("shfl.sync.up.b32 %r0, 6, 1, 0, -1", [41, 1], u32::MAX, shuffle(0, 1, 0), 41),
        ("shfl.sync.down.b32 %r0, 6, 2, 31, 3", [41, 1], 3, shuffle(1, 2, 31), 41),
        (
            "shfl.sync.bfly.b32 %r1|%p0, 6, 16, 31, -1; selp.b32 %r0, 1, 2, %p0",
            [41, 0],
            u32::MAX,
            shuffle(2, 16, 31),
            2,
        ),
        (
            "shfl.sync.idx.b32 %r1|%p0, 6, 0, 0x181f, -1; selp.b32 %r0, %r1, 2, %p0",
            [41, 1],
            u32::MAX,
            shuffle(3, 0, 0x181f),
            41,
        ),
        (
            "setp.eq.u32 %p0, 1, 1; vote.sync.all.pred %p1, !%p0, -1; selp.b32 %r0, 1, 2, %p1",
            [4, 0],
            u32::MAX,
            WarpOp::Vote { mode: 0, predicate: false },
            1,
        ),
        (
            "setp.eq.u32 %p0, 1, 1; vote.sync.ballot.b32 %r0, %p0, 15",
            [0xf, 0],
            15,
            WarpOp::Vote { mode: 3, predicate: true },
            0xf,
        ),
        ("redux.sync.add.u32 %r0, 6, -1", [60, 0], u32::MAX, reduce(AtomicOp::Add, 6), 60),
        ("redux.sync.min.s32 %r0, -6, -1", [60, 0], u32::MAX, reduce(AtomicOp::MinSigned, -6i32 as u32), 60),
        ("match.any.sync.b32 %r0, 6, 7", [5, 0], 7, WarpOp::MatchAny { value: 6 }, 5),
        ("match.any.sync.b64 %r0, -1, 7", [5, 0], 7, WarpOp::MatchAny { value: u64::MAX }, 5),
    ];
    for (body, results, mask, op, value) in table {
        assert_eq!(first_stop(body, results), (Stop::Warp(WarpRequest { mask, op }), value), "{body}");
    }
}

#[test]
fn sleeping() {
    let (stop, value) = first_stop("nanosleep.u32 250; mov.b32 %r0, 1", [0, 0]);
    assert_eq!((stop, value), (Stop::Sleep { duration_ns: 250 }, 1));
}

#[test]
fn special_registers() {
    let specials = vec![
        (Special::Tid(0), 33),
        (Special::Tid(1), 2),
        (Special::Ntid(0), 40),
        (Special::Ntid(1), 3),
        (Special::Ntid(2), 1),
        (Special::Ctaid(2), 9),
        (Special::Nctaid(0), 64),
        (Special::Laneid, 5),
        (Special::Warpid, 3),
        (Special::Smid, 17),
        (Special::Clock, 0x1_0000_0002),
        (Special::Globaltimer, 0x3_0000_0004),
        (Special::DynamicSharedBytes, 1024),
        (Special::TotalSharedBytes, 2048),
    ];
    let table: [(&str, u64); 24] = [
        ("%tid.x", 33),
        ("%tid.y", 2),
        ("%ntid.x", 40),
        ("%ctaid.z", 9),
        ("%nctaid.x", 64),
        ("%laneid", 5),
        ("%warpid", 3),
        ("%nwarpid", 4),
        ("%smid", 17),
        ("%lanemask_eq", 0x20),
        ("%lanemask_lt", 0x1f),
        ("%lanemask_le", 0x3f),
        ("%lanemask_gt", 0xffff_ffc0),
        ("%lanemask_ge", 0xffff_ffe0),
        ("%clock", 2),
        ("%clock_hi", 1),
        ("%clock64", 0x1_0000_0002),
        ("%globaltimer", 0x3_0000_0004),
        ("%globaltimer_lo", 4),
        ("%globaltimer_hi", 3),
        ("%dynamic_smem_size", 1024),
        ("%total_smem_size", 2048),
        // 120 threads: the fourth warp has 24 lanes.
        ("activemask", 0x00ff_ffff),
        ("%tid.z", 0),
    ];
    for (name, expected) in table {
        let wide = matches!(name, "%clock64" | "%globaltimer");
        let read = match (name, wide) {
            ("activemask", _) => "activemask.b32 %r0; cvt.u64.u32 %d0, %r0;".to_owned(),
            (_, true) => format!("mov.u64 %d0, {name};"),
            (_, false) => format!("mov.u32 %r0, {name}; cvt.u64.u32 %d0, %r0;"),
        };
        let kernel = kernel(&format!("{REGISTERS}{read}\nmov.b64 %d8, {GLOBAL};\nst.global.b64 [%d8], %d0;"));
        let mut machine = Machine { global: vec![0; 8], specials: specials.clone(), ..Machine::default() };
        assert_eq!(run_to_end(&kernel, &mut machine, [0; 2]).0, [Stop::Exit]);
        assert_eq!(machine.words()[0], expected, "{name}");
    }
}

const LOOP: &str = "mov.b32 %r1, 0; mov.b32 %r0, 0;\n\
    again: add.s32 %r0, %r0, %r1; add.s32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 10;\n\
    @!%p0 bra done; bar.sync 0; bra.uni again;\n\
    done: @%p0 trap;";

/// Runs [`LOOP`] with a budget per call; the stops that are not of the budget, the steps, and the value.
fn sliced(budget: u32) -> (usize, u32, u64) {
    let kernel =
        kernel(&format!("{REGISTERS}{LOOP}\nmov.b64 %d8, {GLOBAL};\nst.global.b32 [%d8], %r0; exit;"));
    let mut machine = Machine { global: vec![0; 8], ..Machine::default() };
    let mut registers = vec![7; kernel.n_registers as usize];
    let mut thread = ThreadState::new(&kernel, &mut registers);
    let (mut barriers, mut total) = (0, 0);
    loop {
        let (stop, executed) = run(&kernel, &mut thread, &mut registers, &mut machine, budget);
        assert!(executed <= budget);
        total += executed;
        match stop {
            Stop::Budget => assert_eq!(executed, budget),
            Stop::BlockBarrier(_) => {
                barriers += 1;
                resume_with(&kernel, &mut thread, &mut registers, [0; 2]);
            }
            Stop::Exit => return (barriers, total, machine.words()[0]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn slices_do_not_matter() {
    let whole = sliced(u32::MAX);
    assert_eq!((whole.0, whole.2), (9, 45));
    for budget in 1..20 {
        assert_eq!(sliced(budget), whole, "budget {budget}");
    }
}

#[test]
fn an_ended_thread_stays_at_its_end() {
    let kernel = kernel(&format!("{REGISTERS}mov.b32 %r0, 1; ret; trap;"));
    let mut machine = Machine::default();
    let mut registers = vec![0; kernel.n_registers as usize];
    let mut thread = ThreadState::new(&kernel, &mut registers);
    assert_eq!(run(&kernel, &mut thread, &mut registers, &mut machine, 0), (Stop::Budget, 0));
    for executed in [1, 0, 0] {
        assert_eq!(run(&kernel, &mut thread, &mut registers, &mut machine, 9), (Stop::Exit, executed));
    }
}

#[test]
fn a_jump_past_its_table_is_a_fault() {
    let body = "mov.b32 %r1, 2; t: .branchtargets a, b; brx.idx %r1, t; a: ret; b: ret;";
    let kernel = kernel(&format!("{REGISTERS}{body}"));
    let (stops, _) = run_to_end(&kernel, &mut Machine::default(), [0; 2]);
    assert_eq!(stops, [Stop::Fault(Fault::Other("brx.idx with index 2, of 2 targets".into()))]);
}

/// Labels of a `{ }` block are its own: inline assembly with a loop may occur twice.
#[test]
fn labels_and_registers_of_a_block_are_its_own() {
    let block = "{ .reg .pred p; .reg .b32 n; mov.b32 n, 3; again: add.s32 %r0, %r0, 1; add.s32 n, n, -1;\n\
        setp.ne.s32 p, n, 0; @p bra again; { .reg .b64 n; mov.b64 n, 5; } }";
    let kernel = kernel(&format!(
        "{REGISTERS}mov.b32 %r0, 0;\n{block}\n{block}\nmov.b64 %d8, {GLOBAL};\nst.global.b32 [%d8], %r0;"
    ));
    let mut machine = Machine { global: vec![0; 8], ..Machine::default() };
    assert_eq!(run_to_end(&kernel, &mut machine, [0; 2]).0, [Stop::Exit]);
    assert_eq!(machine.words()[0], 6);
}
