//! A rank that launches around the moment at which the others give up: whatever it meets, a rank that was told that all
//! went well has the right result.

use crate::field::Operation;
use crate::harness::{Case, Context, RunsOn};
use crate::rig::Rig;
use crate::seam::seam;
use anyhow::{Context as _, Result, ensure};
use std::mem::offset_of;
use symmem::backend::{FunctionHandle, LaunchShape};
use symmem::{Algorithm, Collective, Comm, CommConfig, Dtype, Op, Stream, Window};
use symmem_device::abi::DevBaseHeader;

const COUNT: usize = 40;
/// Bound of every wait on the device: less than can be asked for, so that a run is short.
const TIMEOUT_NS: u64 = 20_000;
/// No rank waits longer: a look at the clock is some polls away.
const SLEEP_MAX_NS: u32 = 500_000;
/// Where the search for the moment ends.
const NEAR_NS: u32 = 64;
/// Tried around it, in nanoseconds.
const AROUND: [i32; 14] = [-1200, -400, -200, -100, -50, -25, 25, 50, 100, 150, 200, 300, 600, 1200];
/// What an output holds before.
const NOTHING: f32 = -7.0;

/// Sleeps for a time, then writes one value to all elements: an input that comes late.
const SLEEPER: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry sleeper(.param .align 8 .b8 sleeper_param_0[24])
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.b64 %rd1, [sleeper_param_0];
    ld.param.b32 %r1, [sleeper_param_0+8];
    ld.param.b32 %r2, [sleeper_param_0+12];
    ld.param.b32 %r3, [sleeper_param_0+16];
    nanosleep.u32 %r2;
$L1:
    st.global.b32 [%rd1], %r3;
    add.s64 %rd1, %rd1, 4;
    sub.s32 %r1, %r1, 1;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $L1;
    ret;
}
";

pub(super) fn cases() -> Vec<Case> {
    let table = [
        (Collective::AllReduce, Algorithm::Ll),
        (Collective::AllReduce, Algorithm::TwoShotLdSt),
        (Collective::AllGather, Algorithm::Ll),
        (Collective::AllGather, Algorithm::St),
        (Collective::AllReduce, Algorithm::SentinelTwoShot),
        (Collective::AllReduce, Algorithm::TwoShotPush),
        (Collective::ReduceScatter, Algorithm::Ll128),
        (Collective::ReduceScatter, Algorithm::Push),
        (Collective::Broadcast, Algorithm::Ll),
    ];
    let case = |(collective, algorithm): (Collective, Algorithm)| {
        let run = move |context: &Context| {
            (0..context.rounds(1, 12) as u64).try_for_each(|seed| sweep(context, seed, collective, algorithm))
        };
        Case::new(format!("late_launches::{collective}_{algorithm}"), 3, run).runs_on(RunsOn::Sim)
    };
    table.map(case).into()
}

/// What a rank was told, and whether it has the right result.
#[derive(Clone, Copy, Debug)]
struct Told {
    is_well: bool,
    is_right: bool,
}

/// Finds the shortest sleep with which somebody gives up, then tries many around it.
fn sweep(context: &Context, seed: u64, collective: Collective, algorithm: Algorithm) -> Result<()> {
    let scene = |sleep_ns: u32| run(context, seed, collective, algorithm, sleep_ns);
    let all_well = |told: &[Told]| told.iter().all(|told| told.is_well);
    let (mut well, mut late) = (0, SLEEP_MAX_NS);
    ensure!(all_well(&scene(well)?) && !all_well(&scene(late)?), "somewhere between, somebody gives up");
    while late - well > NEAR_NS {
        let middle = well.midpoint(late);
        if all_well(&scene(middle)?) { well = middle } else { late = middle }
    }
    for distance in AROUND {
        let sleep_ns = late.saturating_add_signed(distance);
        let told = scene(sleep_ns)?;
        let is_silent = told.iter().any(|told| told.is_well && !told.is_right);
        ensure!(
            !is_silent,
            "seed {seed}, asleep for {sleep_ns} ns: a wrong result, and not a word: {told:?}"
        );
    }
    Ok(())
}

/// An operation or two on each rank; the last rank comes so late to the first, as does its input.
fn run(
    context: &Context,
    seed: u64,
    collective: Collective,
    algorithm: Algorithm,
    sleep_ns: u32,
) -> Result<Vec<Told>> {
    let machine = context.machine_with(|sim| {
        // The clock goes by what is run alone, so that a few nanoseconds make a difference.
        sim.stall_polls = u32::MAX;
        sim.seed = seed;
    })?;
    let (n_ranks, n_operations) = (3 - seed as u32 % 2, 1 + seed / 2 % 2);
    let config = CommConfig { algorithm: Some(algorithm), ctas: Some(1), ..CommConfig::default() };
    let mut rig = Rig::with(&machine, n_ranks, &config)?;
    for comm in &rig.comms {
        let address = comm.space().address(comm.rank(), Default::default());
        let field = address + offset_of!(DevBaseHeader, timeout_ns) as u64;
        seam(&machine).write(comm.device().index(), field, &TIMEOUT_NS.to_le_bytes())?;
    }
    let operation = Operation::new(collective, Dtype::F32, Op::Sum, COUNT as u64);
    let [input_len, output_len] =
        [operation.input_bytes(n_ranks), operation.output_bytes(n_ranks)].map(|bytes| bytes as usize / 4);
    let (mut inputs, mut outputs) = (rig.alloc::<f32>(input_len)?, rig.alloc::<f32>(output_len)?);
    for (input, output) in inputs.iter_mut().zip(&mut outputs) {
        input.write(0, &vec![1.0; input_len])?;
        output.write(0, &vec![NOTHING; output.len()])?;
    }
    let last = n_ranks as usize - 1;
    inputs[last].write(0, &vec![1000.0; input_len])?;
    let module = seam(&machine).module_load(n_ranks - 1, SLEEPER, "sleeper")?;
    let sleeper = seam(&machine).function(module, "sleeper")?;
    sleep(&rig.comms[last], &rig.streams[last], sleeper, &inputs[last], sleep_ns)?;
    for _ in 0..n_operations {
        rig.each(|comm, stream| {
            let rank = comm.rank() as usize;
            operation.enqueue(comm, (inputs[rank].address(), outputs[rank].address()), stream)
        })?;
    }
    let told = rig.comms.iter_mut().zip(&rig.streams).zip(&outputs).map(|((comm, stream), output)| {
        let is_well = comm.synchronize(stream).and_then(|()| comm.check()).is_ok();
        Ok(Told { is_well, is_right: is_right(collective, n_ranks, &output.to_vec()?) })
    });
    let told = told.collect::<Result<Vec<_>>>()?;
    drop((inputs, outputs, rig));
    seam(&machine).module_unload(module)?;
    drop(machine);
    context.forget_machines().context("what a run leaves")?;
    Ok(told)
}

fn sleep(
    comm: &Comm,
    stream: &Stream,
    sleeper: FunctionHandle,
    input: &Window<f32>,
    sleep_ns: u32,
) -> Result<()> {
    let words = [input.len() as u32, sleep_ns, 1.0f32.to_bits(), 0];
    let argument = [&input.address().to_le_bytes()[..], bytemuck::bytes_of(&words)].concat();
    let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
    Ok(seam(comm.device().machine()).launch(stream.handle(), sleeper, shape, &argument)?)
}

/// Every input is of ones.
fn is_right(collective: Collective, n_ranks: u32, output: &[f32]) -> bool {
    let expected = if collective.reduces() { n_ranks as f32 } else { 1.0 };
    output.iter().all(|value| *value == expected)
}
