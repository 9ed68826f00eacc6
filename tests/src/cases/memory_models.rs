//! All kernels under the memory model of the simulated machine: no race, and right results in weak memory.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context, Host, RunsOn};
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
        Case::new("memory_models::sentinel_tiles_and_notes", 5, sentinel_tiles_and_notes),
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

/// From three ranks on an epoch of sentinel slots is shorter; from nine on it is no longer than the smallest block.
fn sentinel_tiles_and_notes(context: &Context) -> Result<()> {
    for n_ranks in [3, 5, 9] {
        for seed in 0..context.rounds(1, 20) as u64 {
            let machine = context.machine_with(|sim| {
                (sim.seed, sim.n_devices) = (seed, n_ranks);
                sim.probe = ProbeKind::Weak { races: true };
            })?;
            tiles_and_notes(&machine, n_ranks, seed)
                .with_context(|| format!("{n_ranks} ranks, seed {seed}"))?;
            context.forget_machines()?;
        }
    }
    Ok(())
}

/// Messages of several epochs of several tiles and of one slot, one behind another without a wait of the host, of words
/// that sentinel slots cannot hold as they are.
fn tiles_and_notes(machine: &Host, n_ranks: u32, seed: u64) -> Result<()> {
    const COUNTS: [u64; 8] = [2501, 1, 1100, 3, 2501, 1, 1100, 3];
    const KINDS: [(Collective, Algorithm); 4] = [
        (Collective::AllGather, Algorithm::Sentinel),
        (Collective::AllReduce, Algorithm::Sentinel),
        (Collective::AllReduce, Algorithm::SentinelTwoShot),
        (Collective::ReduceScatter, Algorithm::Sentinel),
    ];
    let config = CommConfig { threads: Some(32), check: Some(false), ..CommConfig::default() };
    let mut rig = Rig::with(machine, n_ranks, &config)?;
    let pitch_bytes = u64::from(n_ranks) * (10 << 10);
    let field_bytes = GUARD_BYTES + COUNTS.len() as u64 * pitch_bytes;
    let (mut field, mut random) = (Field::new(&rig, field_bytes as usize, 61)?, Random::new(seed));
    let mut messages = Vec::new();
    for (at, count) in (0..).zip(COUNTS) {
        // Gathered words alone have notes.
        let (collective, algorithm) = if at % 2 == 0 { KINDS[0] } else { *random.choose(&KINDS) };
        let offset = GUARD_BYTES + at * pitch_bytes + 4 * random.below(4) as u64;
        let [input, output] = [0, 1].map(|window| Place { window, offset });
        let values = *random.choose(&[Values::Poison, Values::Ones]);
        let in_place = random.below(2) == 0;
        let plain = Operation::new(collective, Dtype::F32, Op::Sum, count);
        messages.push((algorithm, Operation { input, output, values, in_place, ..plain }));
    }
    messages.iter().try_for_each(|(_, message)| field.stage(message, &mut random))?;
    for (algorithm, message) in &messages {
        rig.comms.iter_mut().for_each(|comm| comm.prefer(Some(*algorithm), Some(1)));
        field.launch(&mut rig, message)?;
    }
    rig.synchronize()?;
    field.verify().with_context(|| format!("{messages:?}"))
}
