//! Kernels that do a collective again and again: the results are those of as many calls, the words of the protocols go
//! on from loops to calls and back, and what has no loop says so.

use crate::expect::{expect, kind};
use crate::field::{Field, Operation};
use crate::harness::{Case, Context, RunsOn};
use crate::random::Random;
use crate::rig::Rig;
use anyhow::{Context as _, Result};
use std::num::NonZeroU32;
use symmem::sim::ProbeKind;
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};
use symmem_device::kernels::LOOPS;

/// How often one launch does a collective.
const REPEATS: [u32; 3] = [1, 2, 5];
/// Elements of a message of one block and one round, and of one that takes several of either.
const COUNTS: [u64; 2] = [5, 9001];
/// Elements of a message of two blocks where every access is looked at.
const PROBED_COUNT: u64 = 1001;

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = LOOPS
        .iter()
        .flat_map(|spec| {
            let kind = (spec.kernel().collective, spec.kernel().algorithm);
            let case = |what: &str, run: fn(&Context, (Collective, Algorithm)) -> Result<()>| {
                Case::new(format!("loops::{what}_{}_{}", kind.0, kind.1), 2, move |context| {
                    run(context, kind)
                })
            };
            [
                case("as_many_calls", as_many_calls),
                case("under_the_memory_model", under_the_memory_model).runs_on(RunsOn::Sim),
            ]
        })
        .collect();
    cases.push(Case::new("loops::what_there_is_none_of_is_refused", 2, refused));
    cases
}

/// A rig that has loops.
fn rig_for(context: &Context, config: &CommConfig, probe: ProbeKind) -> Result<Rig> {
    let machine = context.machine_with(|sim| sim.probe = probe)?;
    let rig = Rig::with(&machine, machine.ranks_max().min(3), config)?;
    let asked = rig.comms.iter().map(symmem::Comm::prepare_loops).collect::<symmem::Result<Vec<_>>>()?;
    asked.into_iter().try_for_each(symmem::Preparation::wait)?;
    Ok(rig)
}

/// Runs an operation so many times in one launch.
fn run(
    rig: &mut Rig,
    field: &mut Field,
    operation: &Operation,
    repeats: u32,
    random: &mut Random,
) -> Result<()> {
    field.stage_times(operation, repeats, random)?;
    rig.comms.iter_mut().for_each(|comm| comm.repeat(NonZeroU32::new(repeats)));
    field.launch(rig, operation)?;
    rig.comms.iter_mut().for_each(|comm| comm.repeat(None));
    rig.synchronize()?;
    field.verify().with_context(|| format!("{repeats} times {operation:?}"))
}

fn as_many_calls(context: &Context, (collective, algorithm): (Collective, Algorithm)) -> Result<()> {
    let mut random = Random::new(91);
    for ctas in [None, Some(3)] {
        let config = CommConfig { algorithm: Some(algorithm), ctas, ..CommConfig::default() };
        let mut rig = rig_for(context, &config, ProbeKind::None)?;
        let mut field = Field::new(&rig, 4096 + 4 * COUNTS[1] as usize * rig.comms.len(), 90)?;
        for (count, in_place) in COUNTS.into_iter().flat_map(|count| [(count, false), (count, true)]) {
            let operation = Operation { in_place, ..Operation::new(collective, Dtype::F32, Op::Sum, count) };
            for repeats in REPEATS {
                run(&mut rig, &mut field, &operation, repeats, &mut random)?;
                field.run(&mut rig, &operation, &mut random).context("a call behind a loop")?;
            }
        }
    }
    Ok(())
}

/// No turn of a loop races with the next, and none takes what the one before left for its own.
fn under_the_memory_model(context: &Context, (collective, algorithm): (Collective, Algorithm)) -> Result<()> {
    let mut random = Random::new(93);
    let config = CommConfig { algorithm: Some(algorithm), ctas: Some(2), ..CommConfig::default() };
    let mut rig = rig_for(context, &config, ProbeKind::Weak { races: true })?;
    let mut field = Field::new(&rig, 4096 + 4 * PROBED_COUNT as usize * rig.comms.len(), 92)?;
    for in_place in [false, true] {
        let operation =
            Operation { in_place, ..Operation::new(collective, Dtype::F32, Op::Sum, PROBED_COUNT) };
        run(&mut rig, &mut field, &operation, 5, &mut random)?;
    }
    Ok(())
}

fn refused(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let data = rig.alloc::<f32>(64)?;
    let streams = rig.streams.clone();
    let address = data[0].address();
    let comm = &mut rig.comms[0];
    comm.repeat(NonZeroU32::new(2));
    let early = comm.all_reduce_at(address, address, 8, Dtype::F32, Op::Sum, &streams[0]);
    expect("before it is loaded", early, kind!(NotPrepared), &["loops", "Comm::prepare_loops"])?;
    let other = comm.all_reduce_at(address, address, 8, Dtype::Bf16, Op::Sum, &streams[0]);
    expect("of another type", other, kind!(Unsupported), &["bf16_sum", "f32 sum"])?;
    comm.prefer(Some(Algorithm::Ce), None);
    let copied = comm.all_gather_at(address, address + 64, 8, Dtype::F32, &streams[0]);
    expect("by copy engines", copied, kind!(Unsupported), &["all_gather_ce", "copy engines"])?;
    comm.prefer(None, None);
    comm.repeat(None);
    // What was refused has left nothing behind.
    rig.each(|comm, stream| {
        let address = data[comm.rank() as usize].address();
        comm.all_reduce_at(address, address, 8, Dtype::F32, Op::Sum, stream)
    })?;
    rig.synchronize()
}
