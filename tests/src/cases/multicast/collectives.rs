//! Collectives by multicast: right on all ranks, the same bits on all, sums within their bound, and unicast wherever a
//! window has none.

use crate::faulty::Fault;
use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context, RunsOn};
use crate::pairwise;
use crate::random::{Random, Values};
use crate::rig::{Rig, multicast_kinds};
use anyhow::{Context as _, Result, ensure};
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op, Window};
use symmem_device::kernels::find;

/// Ranks, and the blocks of their launches; `None` is the plan's choice.
const TEAMS: [(u32, Option<u32>); 4] = [(2, None), (3, Some(1)), (4, Some(3)), (8, Some(2))];
const COUNTS: [u64; 9] = [0, 1, 3, 8, 9, 127, 129, 1000, 4097];
/// Elements in front of input and output: what multimem reaches lies at multiples of 16 bytes of both.
const SKIPS: [u64; 4] = [0, 1, 4, 5];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (collective, algorithm) in multicast_kinds() {
        for (n_ranks, ctas) in TEAMS {
            let name = format!("multicast::{collective}_{algorithm}_ranks_{n_ranks}");
            cases.push(Case::new(name, n_ranks, move |context| {
                is_right(context, (n_ranks, ctas), collective, algorithm)
            }));
        }
        let name = format!("multicast::{collective}_{algorithm}_replayed");
        cases.push(Case::new(name, 3, move |context| replayed(context, collective, algorithm)));
    }
    cases.push(Case::new("multicast::sums_lie_within_their_bound", 4, sums_lie_within_their_bound));
    cases.push(Case::new("multicast::windows_without_it_go_unicast", 3, windows_without_it));
    cases.into_iter().map(|case| case.runs_on(RunsOn::SimMulticast)).collect()
}

/// Values of which a sum has the same bits in any order, where the order is the switch's.
fn values_for(algorithm: Algorithm) -> Values {
    match algorithm {
        Algorithm::Mc | Algorithm::LdMc => Values::Whole,
        _ => Values::Special,
    }
}

/// Types and operations that the table has for it.
fn types_of(collective: Collective, algorithm: Algorithm) -> Vec<(Dtype, Op)> {
    let ops = if collective.reduces() { Op::ALL } else { &[Op::Sum] };
    let all = Dtype::ALL.iter().flat_map(|dtype| ops.iter().map(move |op| (*dtype, *op)));
    let exists = |&(dtype, op): &(Dtype, Op)| {
        find(collective, algorithm, dtype, collective.reduces().then_some(op)).is_some()
    };
    all.filter(exists).collect()
}

/// Every pair of values of type with operation, count, offsets and place.
fn is_right(
    context: &Context,
    (n_ranks, ctas): (u32, Option<u32>),
    collective: Collective,
    algorithm: Algorithm,
) -> Result<()> {
    let config = CommConfig { algorithm: Some(algorithm), ctas, ..CommConfig::default() };
    let mut rig = Rig::with(&context.machine()?, n_ranks, &config)?;
    let mut field = Field::new(&rig, (64 << 10) * n_ranks as usize, 70)?;
    let mut random = Random::new(71);
    let types = types_of(collective, algorithm);
    let sizes = [types.len(), COUNTS.len(), SKIPS.len(), SKIPS.len(), 2];
    for row in pairwise::cover(&sizes, n_ranks.into(), |_| true) {
        let (dtype, op) = types[row[0]];
        let place = |window, skip: u64| Place { window, offset: GUARD_BYTES + skip * dtype.bytes() };
        let operation = Operation {
            collective,
            dtype,
            op,
            count: COUNTS[row[1]],
            input: place(0, SKIPS[row[2]]),
            output: place(1, SKIPS[row[3]]),
            in_place: row[4] == 1,
            values: values_for(algorithm),
        };
        run(&mut rig, &mut field, &operation, algorithm, &mut random)
            .with_context(|| format!("{operation:?}"))?;
    }
    Ok(())
}

fn run(
    rig: &mut Rig,
    field: &mut Field,
    operation: &Operation,
    algorithm: Algorithm,
    random: &mut Random,
) -> Result<()> {
    let op = operation.collective.reduces().then_some(operation.op);
    if op.is_some() {
        rig.prepare(&[operation.dtype], &[operation.op]).into_iter().collect::<symmem::Result<()>>()?;
    }
    let plan = rig.comms[0].plan(operation.collective, operation.count, operation.dtype, op)?;
    ensure!(plan.kernel.algorithm == algorithm, "{} ran instead", plan.kernel.name);
    field.run(rig, operation, random)
}

/// Captured once, replayed with new data.
fn replayed(context: &Context, collective: Collective, algorithm: Algorithm) -> Result<()> {
    let config = CommConfig { algorithm: Some(algorithm), ..CommConfig::default() };
    let mut rig = Rig::with(&context.machine()?, 3, &config)?;
    let mut field = Field::new(&rig, 64 << 10, 72)?;
    let mut random = Random::new(73);
    let operation =
        Operation { values: values_for(algorithm), ..Operation::new(collective, Dtype::F32, Op::Sum, 1001) };
    let mut graphs = Vec::new();
    rig.each(|comm, stream| {
        let graph = stream.capture(|| field.launch_on(comm, stream, &operation))?;
        graphs.push(graph.instantiate()?);
        Ok(())
    })?;
    for round in 0..context.rounds(12, 500) {
        field.stage(&operation, &mut random)?;
        rig.each(|comm, stream| graphs[comm.rank() as usize].launch(stream))?;
        rig.synchronize()?;
        field.verify().with_context(|| format!("replay {round}"))?;
    }
    Ok(())
}

/// The order of a sum is the switch's: whichever it is, the result lies no further from the exact sum than the roundings
/// of n − 1 additions in f32 and of one to the type allow, and all ranks get the same bits.
fn sums_lie_within_their_bound(context: &Context) -> Result<()> {
    const COUNT: usize = 1500;
    for seed in 0..context.rounds(4, 100) as u64 {
        let machine = context.machine_with(|sim| (sim.seed, sim.n_devices) = (seed, 4))?;
        let config = CommConfig { algorithm: Some(Algorithm::Mc), ..CommConfig::default() };
        let mut rig = Rig::with(&machine, 4, &config)?;
        let mut windows = rig.alloc::<f32>(COUNT)?;
        let mut random = Random::new(seed);
        let inputs: Vec<Vec<f32>> = (0..4).map(|_| plain(&mut random, COUNT)).collect();
        for (window, input) in windows.iter_mut().zip(&inputs) {
            window.write(0, input)?;
        }
        rig.each(|comm, stream| {
            comm.all_reduce_in_place(&mut windows[comm.rank() as usize], Op::Sum, stream)
        })?;
        rig.synchronize()?;
        let results = windows.iter().map(Window::to_vec).collect::<symmem::Result<Vec<_>>>()?;
        ensure!(results.iter().all(|result| same_bits(result, &results[0])), "ranks differ");
        for at in 0..COUNT {
            let exact: f64 = inputs.iter().map(|input| f64::from(input[at])).sum();
            let sizes: f64 = inputs.iter().map(|input| f64::from(input[at].abs())).sum();
            // Each of the additions rounds a partial sum, none of which is larger than the sum of all sizes.
            let bound = 3.0 * sizes * f64::from(f32::EPSILON) / 2.0;
            let error = (f64::from(results[0][at]) - exact).abs();
            ensure!(error <= bound, "seed {seed}, element {at}: off by {error}, allowed {bound}");
        }
    }
    Ok(())
}

fn plain(random: &mut Random, count: usize) -> Vec<f32> {
    let bytes = random.elements(Dtype::F32, Values::Plain, count);
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("4 bytes"))).collect()
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// A window that could not be bound beside one that was: memory that is not bound faults under multimem, so a right
/// result is one without it.
fn windows_without_it(context: &Context) -> Result<()> {
    const COUNT: usize = 1024;
    let (machine, faulty) = context.faulty_machine(|config| config.n_devices = 3)?;
    let config = CommConfig { algorithm: Some(Algorithm::Mc), ..CommConfig::default() };
    let mut rig = Rig::with(&machine, 3, &config)?;
    let error = Fault::out_of_memory();
    faulty.watch().arm(Fault { call: Some("multicast_bind"), device: Some(1), n_before: 0, error });
    let mut without = rig.alloc::<f32>(COUNT)?;
    ensure!(faulty.watch().disarm().is_some(), "nothing was bound");
    let mut with = rig.alloc::<f32>(COUNT)?;
    ensure!(without.iter().all(|window| window.multicast_address().is_none()));
    ensure!(with.iter().all(|window| window.multicast_address().is_some()));
    let plan = rig.comms[0].plan(Collective::AllReduce, COUNT as u64, Dtype::F32, Some(Op::Sum))?;
    ensure!(plan.kernel.algorithm == Algorithm::Mc, "{}", plan.kernel.name);
    let mut value = 1.0;
    for to_those_without in [true, false, true, false] {
        let (inputs, outputs) =
            if to_those_without { (&mut with, &mut without) } else { (&mut without, &mut with) };
        for window in &mut *inputs {
            window.write(0, &[value; COUNT])?;
        }
        rig.each(|comm, stream| {
            let rank = comm.rank() as usize;
            comm.all_reduce(&inputs[rank], &mut outputs[rank], Op::Sum, stream)?;
            // In place where there is multicast or not: both follow on one communicator.
            comm.all_reduce_in_place(&mut inputs[rank], Op::Sum, stream)
        })?;
        rig.synchronize()?;
        for window in inputs.iter().chain(&*outputs) {
            ensure!(window.to_vec()? == [3.0 * value; COUNT], "wrong sums");
        }
        value += 1.0;
    }
    Ok(())
}
