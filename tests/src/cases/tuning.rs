//! The table of what was measured: one for all ranks.

use crate::expect::{expect, kind};
use crate::harness::{Case, Context};
use crate::rig::Rig;
use anyhow::{Result, ensure};
use symmem::{Algorithm, Collective, Comm, CommConfig, Dtype, Op, TuningTable};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("tuning::rank_0s_table_holds", 2, rank_0s),
        Case::new("tuning::a_row_of_ones_own_goes_before_the_builds", 2, own_row),
        Case::new("tuning::a_table_that_is_none_is_named", 1, none),
    ]
}

/// A table with one row for all-reduces of floats by two ranks.
fn always(sm: u32, algorithm: Algorithm) -> Result<TuningTable> {
    Ok(TuningTable::parse(&format!("{sm} 2 unicast all_reduce float more:{algorithm}"))?)
}

/// What a communicator takes for a few floats, and says of it.
fn chosen(comm: &Comm) -> Result<(Algorithm, String)> {
    let plan = comm.plan(Collective::AllReduce, 5, Dtype::F32, Some(Op::Sum))?;
    Ok((plan.kernel.algorithm, comm.explain(Collective::AllReduce, 5, Dtype::F32, Some(Op::Sum))))
}

/// Each rank in a thread, with a table of its own.
fn rank_0s(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let id = symmem::UniqueId::new()?;
    let algorithms = [Algorithm::TwoShotLdSt, Algorithm::Sentinel];
    let found = std::thread::scope(|scope| {
        let threads = [0, 1].map(|rank: u32| {
            let (machine, id) = (&machine, &id);
            scope.spawn(move || -> Result<_> {
                let device = machine.device(rank)?;
                let tuning = Some(always(device.facts()?.sm, algorithms[rank as usize])?);
                let config = CommConfig { tuning, ..CommConfig::default() };
                chosen(&Comm::init_rank_with(&device, 2, rank, id, &config)?)
            })
        });
        threads.map(|thread| thread.join().expect("no panic"))
    });
    for (rank, found) in found.into_iter().enumerate() {
        let (algorithm, text) = found?;
        ensure!(algorithm == algorithms[0], "rank {rank} takes {algorithm}");
        ensure!(
            text.contains("measured") && text.contains("`") && text.contains("more:two_shot_ld_st"),
            "{text}"
        );
    }
    Ok(())
}

fn own_row(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let sm = machine.device(0)?.facts()?.sm;
    for algorithm in [Algorithm::LlTwoShot, Algorithm::Ll] {
        let tuning = Some(always(sm, algorithm)?);
        let rig = Rig::with(&machine, 2, &CommConfig { tuning, ..CommConfig::default() })?;
        for comm in &rig.comms {
            ensure!(chosen(comm)?.0 == algorithm, "{:?}", chosen(comm)?);
        }
    }
    Ok(())
}

fn none(_: &Context) -> Result<()> {
    let set = |name: &'static str| (name == "SYMMEM_TUNING").then(|| "/no/such/table".to_owned());
    expect(
        "no such file",
        CommConfig::from_variables(set),
        kind!(InvalidArgument),
        &["SYMMEM_TUNING", "/no/such/table"],
    )?;
    let table = TuningTable::parse("90 2 unicast all_reduce float 1K:ll");
    expect("a table without an end", table, kind!(InvalidArgument), &["line 1", "more"])
}
