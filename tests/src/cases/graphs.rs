//! Captured collectives: one kernel node each, right at every replay.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context};
use crate::random::{Random, Values};
use crate::rig::{Rig, kinds, unchecked};
use crate::seam::seam;
use anyhow::{Context as _, Result, ensure};
use symmem::backend::GraphFacts;
use symmem::symmetric::FlatOffset;
use symmem::{Algorithm, Collective, CommConfig, Dtype, Graph, GraphExec, Op};

/// Room for one message and a guard.
const PITCH_BYTES: u64 = 64 << 10;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("graphs::nodes_are_those_of_the_plan", 2, nodes_are_those_of_the_plan),
        Case::new("graphs::nothing_captured_for_a_count_of_0", 2, nothing_for_a_count_of_0),
        Case::new("graphs::replayed_with_new_data", 2, replayed_with_new_data),
        Case::new("graphs::three_in_one_graph", 2, three_in_one_graph),
        Case::new("graphs::eager_and_replay_mixed", 2, eager_and_replay_mixed),
        Case::new("graphs::two_graphs_take_turns", 2, two_graphs_take_turns),
        Case::new("graphs::window_dropped_after_capture", 2, window_dropped_after_capture),
        Case::new("graphs::windows_live_as_long_as_their_graph", 2, windows_live_as_long_as_their_graph),
        Case::new("graphs::a_launch_outlives_its_graph", 2, a_launch_outlives_its_graph),
    ]
}

/// Kernels of one operation.
fn kernels_of(algorithm: Algorithm) -> u32 {
    if algorithm == Algorithm::Ce { 2 } else { 1 }
}

fn rig_for(context: &Context, algorithm: Option<Algorithm>) -> Result<Rig> {
    let machine = context.machine()?;
    let n_ranks = machine.ranks_max().min(3);
    Rig::with(&machine, n_ranks, &CommConfig { algorithm, ..unchecked() })
}

fn message(collective: Collective, count: u64, slot: u64, in_place: bool) -> Operation {
    let offset = GUARD_BYTES + slot * PITCH_BYTES;
    Operation {
        collective,
        dtype: Dtype::F32,
        op: Op::Sum,
        count,
        input: Place { window: 0, offset },
        output: Place { window: 1, offset },
        in_place,
        values: Values::Plain,
    }
}

/// Captures the messages on each rank; gives each rank's graph, ready to launch, and what it consists of.
fn capture(rig: &mut Rig, field: &Field, messages: &[Operation]) -> Result<Vec<(GraphExec, GraphFacts)>> {
    let mut graphs = Vec::new();
    rig.each(|comm, stream| {
        let work = || messages.iter().try_for_each(|message| field.launch_on(comm, stream, message));
        let graph = stream.capture(work)?;
        graphs.push((graph.instantiate()?, graph.facts()?));
        Ok(())
    })?;
    Ok(graphs)
}

fn replay(rig: &mut Rig, graphs: &[(GraphExec, GraphFacts)]) -> Result<()> {
    rig.each(|comm, stream| graphs[comm.rank() as usize].0.launch(stream))
}

/// One kernel node each, but for copies, which stand between two.
fn nodes_are_those_of_the_plan(context: &Context) -> Result<()> {
    for (collective, algorithm) in kinds() {
        let mut rig = rig_for(context, Some(algorithm))?;
        let field = Field::new(&rig, PITCH_BYTES as usize, 20)?;
        for (count, in_place) in [(1, false), (1000, false), (1000, true)] {
            let op = collective.reduces().then_some(Op::Sum);
            let plan = rig.comms[0].plan(collective, count, Dtype::F32, op)?;
            let n_kernels = kernels_of(algorithm);
            let n_copies = if algorithm == Algorithm::Ce { rig.n_ranks() - u32::from(in_place) } else { 0 };
            let expected = GraphFacts { n_nodes: n_kernels + n_copies, n_kernel_nodes: n_kernels };
            for (_, facts) in capture(&mut rig, &field, &[message(collective, count, 0, in_place)])? {
                let planned = plan.nodes(rig.n_ranks(), in_place);
                ensure!(
                    (facts, planned) == (expected, expected),
                    "{collective} {algorithm} × {count}: {facts:?}, {planned:?}"
                );
            }
        }
    }
    Ok(())
}

fn nothing_for_a_count_of_0(context: &Context) -> Result<()> {
    let mut rig = rig_for(context, None)?;
    let field = Field::new(&rig, PITCH_BYTES as usize, 21)?;
    for collective in Collective::ALL {
        for (_, facts) in capture(&mut rig, &field, &[message(*collective, 0, 0, false)])? {
            ensure!(facts.n_nodes == 0, "{collective}: {facts:?}");
        }
    }
    Ok(())
}

/// An epoch that the graph had frozen would show at the second replay.
fn replayed_with_new_data(context: &Context) -> Result<()> {
    let mut random = Random::new(22);
    for (collective, algorithm) in kinds() {
        for in_place in [false, true] {
            let mut rig = rig_for(context, Some(algorithm))?;
            let mut field = Field::new(&rig, PITCH_BYTES as usize, 23)?;
            let message = message(collective, 701, 0, in_place);
            let graphs = capture(&mut rig, &field, std::slice::from_ref(&message))?;
            for round in 0..context.rounds(12, 1000) {
                field.stage(&message, &mut random)?;
                replay(&mut rig, &graphs)?;
                rig.synchronize()?;
                field.verify().with_context(|| {
                    format!("{collective} {algorithm}, in place: {in_place}, replay {round}")
                })?;
            }
        }
    }
    Ok(())
}

fn three_in_one_graph(context: &Context) -> Result<()> {
    let mut random = Random::new(24);
    for (collective, algorithm) in kinds() {
        let mut rig = rig_for(context, Some(algorithm))?;
        let mut field = Field::new(&rig, 3 * PITCH_BYTES as usize, 25)?;
        let messages = [(900, 0, false), (3, 1, true), (2000, 2, false)]
            .map(|(n, slot, is)| message(collective, n, slot, is));
        let graphs = capture(&mut rig, &field, &messages)?;
        let n_kernels = 3 * kernels_of(algorithm);
        ensure!(graphs.iter().all(|(_, facts)| facts.n_kernel_nodes == n_kernels), "{graphs:?}");
        for round in 0..context.rounds(6, 200) {
            messages.iter().try_for_each(|message| field.stage(message, &mut random))?;
            replay(&mut rig, &graphs)?;
            rig.synchronize()?;
            field.verify().with_context(|| format!("{collective} {algorithm}, replay {round}"))?;
        }
    }
    Ok(())
}

fn eager_and_replay_mixed(context: &Context) -> Result<()> {
    let mut random = Random::new(26);
    for (collective, algorithm) in kinds() {
        let mut rig = rig_for(context, Some(algorithm))?;
        let mut field = Field::new(&rig, 3 * PITCH_BYTES as usize, 27)?;
        let captured = message(collective, 700, 0, false);
        let graphs = capture(&mut rig, &field, std::slice::from_ref(&captured))?;
        for round in 0..context.rounds(8, 300) {
            // Other sizes, hence other numbers of blocks, and nothing waits between them: one stream orders all.
            let eager = [
                message(collective, 1 + random.bits() % 3000, 1, false),
                message(collective, 1 + random.bits() % 8, 2, true),
            ];
            field.stage(&captured, &mut random)?;
            eager.iter().try_for_each(|message| field.stage(message, &mut random))?;
            field.launch(&mut rig, &eager[0])?;
            replay(&mut rig, &graphs)?;
            field.launch(&mut rig, &eager[1])?;
            rig.synchronize()?;
            field.verify().with_context(|| format!("{collective} {algorithm}, round {round}"))?;
        }
    }
    Ok(())
}

fn two_graphs_take_turns(context: &Context) -> Result<()> {
    let mut random = Random::new(28);
    let mut rig = rig_for(context, Some(Algorithm::Ll))?;
    let mut field = Field::new(&rig, 2 * PITCH_BYTES as usize, 29)?;
    let messages =
        [message(Collective::AllReduce, 1500, 0, false), message(Collective::AllGather, 5, 1, false)];
    let graphs = [capture(&mut rig, &field, &messages[..1])?, capture(&mut rig, &field, &messages[1..])?];
    for round in 0..context.rounds(30, 500) {
        let turn = random.below(2);
        field.stage(&messages[turn], &mut random)?;
        replay(&mut rig, &graphs[turn])?;
        rig.synchronize()?;
        field.verify().with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

/// The graph's window is dropped and more memory is allocated: the replay still has its own.
fn window_dropped_after_capture(context: &Context) -> Result<()> {
    const COUNT: usize = 300;
    let mut rig = rig_for(context, None)?;
    let windows = rig.alloc::<f32>(COUNT)?;
    let addresses: Vec<u64> = windows.iter().map(symmem::Window::address).collect();
    let mut graphs = Vec::new();
    rig.each(|comm, stream| {
        let at = addresses[comm.rank() as usize];
        let work = || comm.all_reduce_at(at, at, COUNT as u64, Dtype::F32, Op::Sum, stream);
        graphs.push(stream.capture(work)?.instantiate()?);
        Ok(())
    })?;
    let flat = windows[0].flat_offset();
    drop(windows);
    let others = (0..3).map(|_| rig.alloc::<f32>(COUNT)).collect::<Result<Vec<_>>>()?;
    ensure!(others.iter().flatten().all(|other| other.flat_offset() != flat), "the offset was given away");
    for round in 1..=3 {
        rig.each(|comm, _| {
            let (device, values) = (comm.device(), [round as f32 * (comm.rank() + 1) as f32; COUNT]);
            let (backend, at) = (seam(device.machine()), addresses[comm.rank() as usize]);
            backend.write(device.index(), at, bytemuck::cast_slice(&values))
        })?;
        rig.each(|comm, stream| graphs[comm.rank() as usize].launch(stream))?;
        rig.synchronize()?;
        let sum = (1..=rig.n_ranks()).map(|one| round as f32 * one as f32).sum::<f32>();
        for comm in &rig.comms {
            let (device, mut found) = (comm.device(), [0f32; COUNT]);
            let (backend, at) = (seam(device.machine()), addresses[comm.rank() as usize]);
            backend.read(device.index(), at, bytemuck::cast_slice_mut(&mut found))?;
            ensure!(found == [sum; COUNT], "rank {}, round {round}: {:?}", comm.rank(), &found[..4]);
        }
    }
    Ok(())
}

/// An all-reduce of a window, captured on each rank; the windows are dropped.
fn captured_alone(rig: &mut Rig, count: usize) -> Result<(Vec<Graph>, FlatOffset)> {
    let mut windows = rig.alloc::<f32>(count)?;
    let mut graphs = Vec::new();
    rig.each(|comm, stream| {
        let window = &mut windows[comm.rank() as usize];
        graphs.push(stream.capture(|| comm.all_reduce_in_place(window, Op::Sum, stream))?);
        Ok(())
    })?;
    Ok((graphs, windows[0].flat_offset()))
}

/// Where the next window goes.
fn next_place(rig: &Rig) -> Result<FlatOffset> {
    Ok(rig.alloc::<f32>(1)?[0].flat_offset())
}

/// As long as a graph or an executable one is there, on any rank; no longer.
fn windows_live_as_long_as_their_graph(context: &Context) -> Result<()> {
    let mut rig = rig_for(context, None)?;
    let before = context.live();
    let (graphs, flat) = captured_alone(&mut rig, 100)?;
    ensure!(next_place(&rig)? != flat, "the graphs have it");
    let mut execs = graphs.iter().map(Graph::instantiate).collect::<symmem::Result<Vec<_>>>()?;
    drop(graphs);
    ensure!(next_place(&rig)? != flat, "the executable graphs have it");
    let last = execs.pop();
    drop(execs);
    ensure!(next_place(&rig)? != flat, "one rank's executable graph has it");
    drop(last);
    // The driver gives a graph's objects back on a thread of its own.
    let freed =
        (0..1000).map(|_| next_place(&rig)).find(|place| !matches!(place, Ok(place) if *place != flat));
    ensure!(freed.transpose()? == Some(flat), "the place comes back when the graphs have gone");
    drop(rig.alloc::<f32>(1)?);
    rig.alloc::<f32>(1)?;
    let after = context.live().map(|live| live.mappings);
    ensure!(after <= before.map(|live| live.mappings + rig.comms.len()), "{before:?} became {after:?}");
    Ok(())
}

/// The graph goes while its launch waits for a peer: what the launch uses stays.
fn a_launch_outlives_its_graph(context: &Context) -> Result<()> {
    for count in [100, 1 << 18] {
        let mut rig = rig_for(context, None)?;
        let (graphs, flat) = captured_alone(&mut rig, count)?;
        let mut execs = graphs.iter().map(Graph::instantiate).collect::<symmem::Result<Vec<_>>>()?;
        drop(graphs);
        let last = execs.pop().context("there are ranks")?;
        for (exec, stream) in execs.into_iter().zip(&rig.streams) {
            exec.launch(stream)?;
        }
        ensure!(next_place(&rig)? != flat, "launches have it");
        last.launch(&rig.streams[rig.comms.len() - 1])?;
        drop(last);
        drop(rig.alloc::<f32>(1)?);
        rig.synchronize()?;
    }
    Ok(())
}
