//! A rank that does not come: the others end by themselves, say whom they waited for, and stay unusable.

use crate::expect::{error_of, expect, kind};
use crate::field::{Field, Operation};
use crate::harness::{Case, Context, RunsOn};
use crate::rig::{Rig, kinds, unchecked};
use crate::seam::seam;
use anyhow::{Result, bail, ensure};
use std::mem::offset_of;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use symmem::sim::OnStall;
use symmem::symmetric::FlatOffset;
use symmem::{Algorithm, Collective, CommConfig, Dtype, ErrorKind, Op, Window};
use symmem_device::abi::{DevBaseHeader, DevBaseLayout, STATE_TIMEOUT};

const COUNT: usize = 200;
/// Bound of every wait on the device.
const TIMEOUT_MS: u64 = 200;
/// What a rank that waits takes at most to say so, in bounds; a graph of 20 that waited for each would take 20.
const PATIENCE: u32 = 10;
/// The simulated clock jumps after so many polls, further each time: often enough that it is past the bound when a
/// kernel looks at it.
const STALL_POLLS: u32 = 512;
/// One of each way to wait.
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::Ll, Algorithm::TwoShotLdSt, Algorithm::SentinelTwoShot, Algorithm::TwoShotPush];

pub(super) fn cases() -> Vec<Case> {
    let for_each = |what: &str, run: fn(&Context, Algorithm, &str) -> Result<()>| {
        let case = |algorithm: Algorithm| {
            let name = format!("bounded_waits::{what}_{algorithm}");
            Case::new(name, 2, move |context: &Context| run(context, algorithm, step_of(algorithm)))
        };
        ALGORITHMS.map(case)
    };
    let mut cases: Vec<Case> = [
        for_each("peers_of_three", peers_of_three),
        for_each("graph_of_20_waits_once", graph_of_20_waits_once),
        for_each("loop_of_20_waits_once", loop_of_20_waits_once),
        for_each("abort_ends_waits", abort_ends_waits),
        for_each("dropped_while_waiting", dropped_while_waiting),
    ]
    .into_iter()
    .flatten()
    .collect();
    cases.extend(kinds().into_iter().map(|kind| {
        let name = format!("bounded_waits::absent_rank_is_named_{}_{}", kind.0, kind.1);
        Case::new(name, 2, move |context| absent_rank_is_named(context, kind))
    }));
    let simulated = [
        for_each("loop_ends_before_the_poison", loop_ends_before_the_poison),
        for_each("deadlock_is_reported", deadlock_is_reported),
    ];
    cases.extend(simulated.into_iter().flatten().map(|case| case.runs_on(RunsOn::Sim)));
    cases
}

/// Where the kernels of an algorithm first wait for a peer.
fn step_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Ll
        | Algorithm::Ll128
        | Algorithm::LlTwoShot
        | Algorithm::Sentinel
        | Algorithm::SentinelTwoShot => "receiving packets",
        Algorithm::TwoShotPush | Algorithm::Push => "barrier behind pushed data",
        Algorithm::Ce => "barrier around copies",
        _ => "entry barrier",
    }
}

fn rig_for(context: &Context, n_ranks: u32, algorithm: Algorithm, timeout_ms: u64) -> Result<Rig> {
    rig_with_grace(context, n_ranks, algorithm, timeout_ms, 5)
}

/// `grace_ms`: how long the simulated machine waits for the host before its clock jumps.
fn rig_with_grace(
    context: &Context,
    n_ranks: u32,
    algorithm: Algorithm,
    timeout_ms: u64,
    grace_ms: u64,
) -> Result<Rig> {
    let machine = context.machine_with(|sim| {
        sim.on_stall = OnStall::AdvanceClock;
        sim.stall_grace_ms = grace_ms;
        sim.stall_polls = STALL_POLLS;
    })?;
    let n_ranks = n_ranks.min(machine.ranks_max());
    Rig::with(&machine, n_ranks, &CommConfig { algorithm: Some(algorithm), timeout_ms, ..unchecked() })
}

/// Whether an error says that `rank` waited for `peer` in the first operation.
fn is_timeout(kind: &ErrorKind, rank: u32, peer: u32, step: &str) -> bool {
    matches!(kind, ErrorKind::Timeout { rank: r, peer: p, step: s, epoch_expected: 1, epoch_seen: 0, .. }
        if (*r, *p, *s) == (rank, peer, step))
}

fn absent_rank_is_named(context: &Context, (collective, algorithm): (Collective, Algorithm)) -> Result<()> {
    let step = step_of(algorithm);
    let mut rig = rig_for(context, 2, algorithm, TIMEOUT_MS)?;
    let field = Field::new(&rig, 4096 + 8 * COUNT, 18)?;
    let operation = Operation::new(collective, Dtype::F32, Op::Sum, COUNT as u64);
    let streams = rig.streams.clone();
    let [first, second] = &mut rig.comms[..] else { bail!("two ranks were made") };
    let start = Instant::now();
    field.launch_on(first, &streams[0], &operation)?;
    let error = error_of("rank 0 waits alone", first.synchronize(&streams[0]))?;
    let bound = Duration::from_millis(TIMEOUT_MS) * PATIENCE;
    ensure!(context.is_sim() || start.elapsed() < bound, "it took {:?}", start.elapsed());
    ensure!(is_timeout(error.kind(), 0, 1, step), "{error}");
    expect(
        "its message",
        Err::<(), _>(error.clone()),
        kind!(Timeout),
        &["rank 0", "rank 1", step, "epoch 1"],
    )?;
    // Nothing is launched from now on: the same error at once.
    for again in
        [first.check(), field.launch_on(first, &streams[0], &operation), first.synchronize(&streams[0])]
    {
        let again = error_of("a later call", again)?;
        ensure!(again.kind() == error.kind(), "{again} instead of {error}");
    }
    // The other rank's kernel sees the poison and ends; it is told who gave up.
    field.launch_on(second, &streams[1], &operation)?;
    for _ in 0..2 {
        let error = error_of("the late rank", second.synchronize(&streams[1]))?;
        ensure!(*error.kind() == ErrorKind::Poisoned { rank: 1, by: 0 }, "{error}");
    }
    let refused = field.launch_on(second, &streams[1], &operation);
    expect("its later call", refused, kind!(Poisoned), &["rank 1", "rank 0"])
}

/// Two wait for the third: each names it, or the other that gave up first.
fn peers_of_three(context: &Context, algorithm: Algorithm, step: &str) -> Result<()> {
    let mut rig = rig_for(context, 3, algorithm, TIMEOUT_MS)?;
    let (n_ranks, streams) = (rig.n_ranks(), rig.streams.clone());
    let absent = n_ranks - 1;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let waiting = 0..absent as usize;
    for rank in waiting.clone() {
        rig.comms[rank].all_reduce_in_place(&mut data[rank], Op::Sum, &streams[rank])?;
    }
    let mut n_timeouts = 0;
    for rank in waiting {
        let error = error_of("a rank waits", rig.comms[rank].synchronize(&streams[rank]))?;
        if is_timeout(error.kind(), rank as u32, absent, step) {
            n_timeouts += 1;
        } else {
            let by_a_waiter =
                |kind: &ErrorKind| matches!(kind, ErrorKind::Poisoned { by, .. } if *by < absent);
            ensure!(by_a_waiter(error.kind()), "rank {rank}: {error}");
        }
    }
    ensure!(n_timeouts >= 1, "nobody named the absent rank");
    Ok(())
}

/// The kernels behind the one that gave up see the poison on entry.
fn graph_of_20_waits_once(context: &Context, algorithm: Algorithm, step: &str) -> Result<()> {
    twenty_wait_once(
        context,
        algorithm,
        step,
        |_| Ok(()),
        |rig, data, n_operations| {
            let (comm, stream) = (&mut rig.comms[0], &rig.streams[0]);
            let graph = stream.capture(|| {
                (0..n_operations).try_for_each(|_| comm.all_reduce_in_place(&mut data[0], Op::Sum, stream))
            })?;
            Ok(graph.instantiate()?.launch(stream)?)
        },
    )
}

/// So do the turns of a loop behind the one that gave up.
fn loop_of_20_waits_once(context: &Context, algorithm: Algorithm, step: &str) -> Result<()> {
    twenty_wait_once(context, algorithm, step, prepare_loops, launch_loop)
}

/// Prepares loops on every rank, which takes long where the driver has not assembled them before.
fn prepare_loops(rig: &mut Rig) -> Result<()> {
    let asked = rig.comms.iter().map(symmem::Comm::prepare_loops).collect::<symmem::Result<Vec<_>>>()?;
    Ok(asked.into_iter().try_for_each(symmem::Preparation::wait)?)
}

/// Launches a loop of so many turns on rank 0.
fn launch_loop(rig: &mut Rig, data: &mut [Window<f32>], n_operations: u32) -> Result<()> {
    let (comm, stream) = (&mut rig.comms[0], &rig.streams[0]);
    comm.repeat(NonZeroU32::new(n_operations));
    Ok(comm.all_reduce_in_place(&mut data[0], Op::Sum, stream)?)
}

/// The poison may be under way when a block gives up: a thread of another block has taken the claim word, and has come no
/// further. The block then neither waits again nor arrives at a barrier of a next turn, which a peer that still waits at
/// one before would take for its arrival there.
fn loop_ends_before_the_poison(context: &Context, algorithm: Algorithm, _: &str) -> Result<()> {
    let mut instructions = Vec::new();
    for n_operations in [1, 20] {
        let mut rig = rig_for(context, 2, algorithm, TIMEOUT_MS)?;
        let mut data = rig.alloc::<f32>(COUNT)?;
        let machine = rig.comms[0].device().machine().clone();
        let word = |rank, offset| rig.comms[0].space().address(rank, FlatOffset::new(offset));
        let claim = word(0, offset_of!(DevBaseHeader, claim) as u64);
        let inbox = word(1, DevBaseLayout::new(2).barrier_inbox_offset(0, 0));
        seam(&machine).write(0, claim, &STATE_TIMEOUT.to_ne_bytes())?;
        prepare_loops(&mut rig)?;
        launch_loop(&mut rig, &mut data, n_operations)?;
        rig.streams[0].synchronize()?;
        instructions.extend(machine.counters().map(|counters| counters.instructions));
        let mut arrived = [0; 4];
        seam(&machine).read(1, inbox, &mut arrived)?;
        let arrived = u32::from_ne_bytes(arrived);
        ensure!(arrived <= 1, "{n_operations} turns arrived at {arrived} barriers");
    }
    let [one, twenty] = instructions[..] else { bail!("the simulated machine counts") };
    ensure!(twenty - one < 19 * one / 2, "1 turn took {one} instructions, 20 took {twenty}");
    Ok(())
}

/// Launches one operation and twenty at once on rank 0, which waits alone.
fn twenty_wait_once(
    context: &Context,
    algorithm: Algorithm,
    step: &str,
    prepare: impl Fn(&mut Rig) -> Result<()>,
    launch: impl Fn(&mut Rig, &mut [Window<f32>], u32) -> Result<()>,
) -> Result<()> {
    let mut instructions = Vec::new();
    for n_operations in [1, 20] {
        let mut rig = rig_for(context, 2, algorithm, TIMEOUT_MS)?;
        let mut data = rig.alloc::<f32>(COUNT)?;
        prepare(&mut rig)?;
        let start = Instant::now();
        launch(&mut rig, &mut data, n_operations)?;
        let (comm, stream) = (&mut rig.comms[0], &rig.streams[0]);
        let error = error_of("rank 0 waits alone", comm.synchronize(stream))?;
        ensure!(is_timeout(error.kind(), 0, 1, step), "{error}");
        let bound = Duration::from_millis(TIMEOUT_MS) * PATIENCE;
        ensure!(context.is_sim() || start.elapsed() < bound, "{n_operations} took {:?}", start.elapsed());
        let counters = comm.device().machine().counters();
        instructions.extend(counters.map(|counters| counters.instructions));
    }
    if let [one, twenty] = instructions[..] {
        ensure!(twenty - one < 19 * one / 2, "1 operation took {one} instructions, 20 took {twenty}");
    }
    Ok(())
}

fn abort_ends_waits(context: &Context, algorithm: Algorithm, _: &str) -> Result<()> {
    // So long a bound that only the abort can end the wait.
    let mut rig = rig_for(context, 2, algorithm, 3_600_000)?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let streams = rig.streams.clone();
    let [first, second] = &mut rig.comms[..] else { bail!("two ranks were made") };
    first.all_reduce_in_place(&mut data[0], Op::Sum, &streams[0])?;
    first.abort();
    let error = error_of("an aborted rank", first.synchronize(&streams[0]))?;
    ensure!(*error.kind() == ErrorKind::Aborted { rank: 0 }, "{error}");
    let later = first.all_reduce_in_place(&mut data[0], Op::Sum, &streams[0]);
    expect("its later call", later, kind!(Aborted), &["rank 0"])?;
    second.all_reduce_in_place(&mut data[1], Op::Sum, &streams[1])?;
    let error = error_of("its peer", second.synchronize(&streams[1]))?;
    ensure!(*error.kind() == ErrorKind::Poisoned { rank: 1, by: 0 }, "{error}");
    Ok(())
}

/// Dropping a communicator whose kernel waits ends the wait first, so that nothing is unmapped under it.
fn dropped_while_waiting(context: &Context, algorithm: Algorithm, _: &str) -> Result<()> {
    let mut rig = rig_with_grace(context, 2, algorithm, 3_600_000, 60_000)?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let machine = rig.comms[0].device().machine().clone();
    rig.comms[0].all_reduce_in_place(&mut data[0], Op::Sum, &rig.streams[0])?;
    drop(data);
    drop(rig);
    expect("what the destructor met", machine.take_deferred(), kind!(Deadline), &["destructor", "rank 0"])
}

/// Where nobody moves the clock, the simulated machine says which kernel waits for what.
fn deadlock_is_reported(context: &Context, algorithm: Algorithm, _: &str) -> Result<()> {
    let machine = context.machine_with(|sim| sim.stall_grace_ms = 5)?;
    let config = CommConfig { algorithm: Some(algorithm), ..unchecked() };
    let mut rig = Rig::with(&machine, 2, &config)?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let stream = rig.streams[0].clone();
    let comm = &mut rig.comms[0];
    comm.all_reduce_in_place(&mut data[0], Op::Sum, &stream)?;
    let kernel = format!("symmem_all_reduce_{algorithm}_f32_sum");
    let waited = comm.synchronize(&stream);
    let words = [&kernel[..], "device 0", "polls", "sees 0x0", "SYMMEM_SIM_STALL_MS (5 ms)"];
    expect("rank 0 waits alone", waited, kind!(Deadlock), &words)?;
    expect("its later call", comm.check(), kind!(Deadlock), &[&kernel])
}
