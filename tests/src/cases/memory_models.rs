//! All kernels under the memory model of the simulated machine: no race, and right results in weak memory.

use crate::field::{Field, Operation};
use crate::harness::{Case, Context, RunsOn};
use crate::random::{Random, Values};
use crate::rig::Rig;
use anyhow::{Context as _, Result};
use symmem::sim::ProbeKind;
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};

const REPLAYS: usize = 3;

pub(super) fn cases() -> Vec<Case> {
    let cases = [
        Case::new("memory_models::no_kernel_races", 4, |context| all_kernels(context, ProbeKind::Races)),
        Case::new("memory_models::weak_memory", 4, |context| {
            all_kernels(context, ProbeKind::Weak { races: true })
        }),
    ];
    cases.map(|case| case.runs_on(RunsOn::Sim)).into()
}

/// The sums of a switch have an order of its own: with other values, bits of its own.
fn values_for(algorithm: Algorithm) -> Values {
    if algorithm.multicast().is_some() { Values::Whole } else { Values::Special }
}

/// Every algorithm, eager and in a graph, at 2 to 4 ranks.
fn all_kernels(context: &Context, probe: ProbeKind) -> Result<()> {
    for n_ranks in 2..=4 {
        for seed in 0..context.rounds(2, 200) as u64 {
            for algorithm in Algorithm::ALL {
                let machine = context.machine_with(|sim| {
                    (sim.seed, sim.probe, sim.n_devices) = (seed, probe, n_ranks);
                })?;
                let config = CommConfig { algorithm: Some(*algorithm), ..CommConfig::default() };
                let mut rig = Rig::with(&machine, n_ranks, &config)?;
                work(&mut rig, seed, values_for(*algorithm))
                    .with_context(|| format!("{algorithm}, {n_ranks} ranks, seed {seed}"))?;
            }
            context.forget_machines()?;
        }
    }
    Ok(())
}

/// Odd and even sizes, of one block and of several, one behind another.
fn work(rig: &mut Rig, seed: u64, values: Values) -> Result<()> {
    let mut field = Field::new(rig, 32 << 10, 60)?;
    let mut random = Random::new(seed);
    for (collective, count) in [
        (Collective::ReduceScatter, 3),
        (Collective::ReduceScatter, 257),
        (Collective::AllReduce, 1),
        (Collective::AllReduce, 1501),
        (Collective::AllGather, 3),
        (Collective::AllGather, 777),
        (Collective::Broadcast, 5),
        (Collective::Broadcast, 901),
        (Collective::AllToAll, 2),
        (Collective::AllToAll, 303),
        (Collective::Broadcast, 6),
        (Collective::AllReduce, 2),
    ] {
        let operation = Operation { values, ..Operation::new(collective, Dtype::F16, Op::Sum, count) };
        field.run(rig, &operation, &mut random).with_context(|| format!("{operation:?}"))?;
    }
    replay(rig, &field, values)
}

/// Two operations in a graph, replayed without a wait of the host.
fn replay(rig: &mut Rig, field: &Field, values: Values) -> Result<()> {
    let mut graphs = Vec::new();
    rig.each(|comm, stream| {
        let operations = [(Collective::AllReduce, 300), (Collective::AllGather, 5)]
            .map(|(what, count)| Operation { values, ..Operation::new(what, Dtype::F16, Op::Sum, count) });
        let work = || operations.iter().try_for_each(|operation| field.launch_on(comm, stream, operation));
        graphs.push(stream.capture(work)?.instantiate()?);
        Ok(())
    })?;
    for _ in 0..REPLAYS {
        rig.each(|comm, stream| graphs[comm.rank() as usize].launch(stream))?;
    }
    rig.each(|comm, stream| comm.synchronize(stream))
}
