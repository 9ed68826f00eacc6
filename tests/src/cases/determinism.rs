//! A run of the simulated machine is a function of its seed; results do not depend on it.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context, RunsOn};
use crate::random::{Random, Values};
use crate::rig::Rig;
use anyhow::{Context as _, Result, ensure};
use symmem::backend::WorkCounters;
use symmem::sim::{ProbeKind, ScheduleKind};
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};

pub(super) fn cases() -> Vec<Case> {
    let cases = [
        Case::new("determinism::a_seed_is_a_run", 3, a_seed_is_a_run),
        Case::new("determinism::results_under_many_seeds", 3, results_under_many_seeds),
    ];
    cases.map(|case| case.runs_on(RunsOn::Sim)).into()
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
            let place = |window| Place { window, offset: GUARD_BYTES };
            let operation = Operation {
                collective,
                dtype: Dtype::F16,
                op: Op::Sum,
                count,
                input: place(0),
                output: place(1),
                in_place: false,
                values: Values::Special,
            };
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
