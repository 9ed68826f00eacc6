//! Results do not depend on the order of threads, nor on the algorithm; a run of the simulated machine is a function of
//! its seed.

use crate::field::{Field, Operation};
use crate::harness::{Case, Context, RunsOn};
use crate::random::{Random, Values};
use crate::rig::{Rig, every_op, kinds};
use anyhow::{Context as _, Result, ensure};
use symmem::backend::WorkCounters;
use symmem::sim::{ProbeKind, ScheduleKind};
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};
use symmem_device::kernels::find;

/// Elements of the messages of which all algorithms must make the same bits.
const COUNTS: [u64; 8] = [1, 2, 3, 8, 9, 127, 129, 1025];

pub(super) fn cases() -> Vec<Case> {
    let of_sim = [
        Case::new("determinism::a_seed_is_a_run", 3, a_seed_is_a_run),
        Case::new("determinism::results_under_many_seeds", 3, results_under_many_seeds),
    ];
    let mut cases: Vec<Case> = of_sim.map(|case| case.runs_on(RunsOn::Sim)).into();
    cases.push(Case::new("determinism::a_hundred_runs_give_the_same_bits", 2, a_hundred_runs).may_share());
    cases.extend(Collective::ALL.iter().map(|collective| {
        let name = format!("determinism::algorithms_of_{collective}_give_the_same_bits");
        Case::new(name, 2, |context| same_bits(context, *collective)).may_share()
    }));
    cases
}

fn special(operation: Operation) -> Operation {
    Operation { values: Values::Special, ..operation }
}

/// The same inputs a hundred times, under whatever order the threads then take.
fn a_hundred_runs(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let ranks = machine.ranks_max().min(3);
    for (collective, algorithm) in kinds() {
        let config = CommConfig { algorithm: Some(algorithm), ..CommConfig::default() };
        let mut rig = Rig::with(&machine, ranks, &config)?;
        let mut field = Field::new(&rig, 32 << 10, 54)?;
        let count = if context.is_sim() { 129 } else { 1501 };
        let operation = special(Operation::new(collective, Dtype::F32, Op::Sum, count));
        field.stage(&operation, &mut Random::new(55))?;
        let mut first = None;
        for run in 0..100 {
            field.poison(&operation)?;
            field.launch(&mut rig, &operation)?;
            rig.synchronize()?;
            let found = field.outputs(&operation)?;
            let first = first.get_or_insert_with(|| found.clone());
            ensure!(*first == found, "{collective} {algorithm}: run {run} gave other bits than the first");
        }
    }
    Ok(())
}

/// Whatever the values, and whether or not a reference knows them. An algorithm that has no kernels for a type has no
/// say in it.
fn same_bits(context: &Context, collective: Collective) -> Result<()> {
    let machine = context.machine()?;
    let ranks = machine.ranks_max().min(3);
    let algorithms: Vec<_> =
        kinds().into_iter().filter(|kind| kind.0 == collective).map(|kind| kind.1).collect();
    for dtype in Dtype::ALL {
        let mut results: Vec<(Algorithm, Vec<Vec<u8>>)> = Vec::new();
        let config = CommConfig { dtypes: vec![*dtype], ..every_op() };
        let mut rig = Rig::with(&machine, ranks, &config)?;
        let mut field = Field::new(&rig, 32 << 10, 56)?;
        for algorithm in &algorithms {
            if find(collective, *algorithm, *dtype, Some(Op::Sum)).is_none() {
                continue;
            }
            rig.comms.iter_mut().for_each(|comm| comm.prefer(Some(*algorithm), None));
            let (mut random, mut found) = (Random::new(57), Vec::new());
            for (at, count) in COUNTS.into_iter().enumerate() {
                let operation =
                    special(Operation::new(collective, *dtype, Op::ALL[at % Op::ALL.len()], count));
                field.stage(&operation, &mut random)?;
                field.launch(&mut rig, &operation)?;
                rig.synchronize()?;
                found.extend(field.outputs(&operation)?);
            }
            results.push((*algorithm, found));
        }
        for (algorithm, found) in &results {
            let (first, bits) = &results[0];
            ensure!(found == bits, "{dtype}: {algorithm} and {first} differ");
        }
    }
    Ok(())
}

/// A few operations of every kind on three ranks, checked against the reference; gives the work that they took.
fn work(context: &Context, seed: u64, schedule: ScheduleKind) -> Result<WorkCounters> {
    let machine = context.machine_with(|sim| {
        sim.seed = seed;
        sim.schedule = schedule;
        sim.probe = ProbeKind::Hops;
    })?;
    for algorithm in Algorithm::ALL {
        let config = CommConfig { algorithm: Some(*algorithm), ..CommConfig::default() };
        let mut rig = Rig::with(&machine, 3, &config)?;
        let mut field = Field::new(&rig, 32 << 10, 50)?;
        let mut random = Random::new(51);
        for (collective, count) in [
            (Collective::AllReduce, 1),
            (Collective::AllReduce, 1501),
            (Collective::AllGather, 3),
            (Collective::AllGather, 777),
            (Collective::ReduceScatter, 501),
            (Collective::AllReduce, 2),
        ] {
            // The sums of a switch have an order of its own, by the seed.
            let values = if algorithm.multicast().is_some() { Values::Whole } else { Values::Special };
            let operation = Operation { values, ..Operation::new(collective, Dtype::F16, Op::Sum, count) };
            field.run(&mut rig, &operation, &mut random).with_context(|| format!("{operation:?}"))?;
        }
    }
    machine.counters().context("the simulated machine counts")
}

fn a_seed_is_a_run(context: &Context) -> Result<()> {
    let mut counters = Vec::new();
    for (seed, schedule) in
        [(1, ScheduleKind::Random), (2, ScheduleKind::Random), (3, ScheduleKind::RoundRobin)]
    {
        let (first, second) =
            (work(context, seed, schedule.clone())?, work(context, seed, schedule.clone())?);
        ensure!(first == second, "seed {seed}: {first:?}, then {second:?}");
        ensure!(first.instructions > 0 && first.link_bytes > 0 && first.hops > 0, "{first:?}");
        counters.push(first);
    }
    ensure!(counters[0].instructions != counters[1].instructions, "the seed changes nothing: {counters:?}");
    ensure!(counters[0].link_bytes == counters[1].link_bytes, "data moved differs: {counters:?}");
    Ok(())
}

fn results_under_many_seeds(context: &Context) -> Result<()> {
    for seed in 0..context.rounds(20, 500) as u64 {
        work(context, seed, ScheduleKind::Random).with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}
