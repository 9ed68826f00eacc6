//! Kernels that are loaded after init.

use crate::expect::{expect, kind};
use crate::harness::{Case, Context, RunsOn};
use crate::rig::{Rig, every_op, unchecked};
use anyhow::{Result, ensure};
use symmem::{Collective, CommConfig, Dtype, Op, Window};

const COUNT: usize = 300;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("prepare::an_operation_that_is_not_loaded_says_what_to_do", 2, not_loaded),
        Case::new("prepare::every_pair_can_be_loaded_later", 2, every_pair),
        Case::new("prepare::twice_loads_once", 2, twice).runs_on(RunsOn::Sim),
        Case::new("prepare::operations_are_refused_until_it_has_ended", 2, refused_meanwhile),
        Case::new("prepare::not_while_a_stream_is_captured", 1, in_capture),
        Case::new("prepare::ranks_that_ask_for_different_kernels", 2, different),
        Case::new("prepare::ranks_that_load_different_kernels_at_init", 2, different_at_init),
    ]
}

fn reduced(rig: &mut Rig, windows: &mut [Window<f32>], op: Op) -> Result<Vec<f32>> {
    for (rank, window) in windows.iter_mut().enumerate() {
        window.write(0, &[rank as f32 + 2.0; COUNT])?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut windows[comm.rank() as usize], op, stream))?;
    rig.synchronize()?;
    Ok(windows[0].to_vec()?)
}

fn not_loaded(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    let (comm, stream) = (&mut rig.comms[0], &rig.streams[0]);
    let refused = comm.all_reduce_in_place(&mut windows[0], Op::Max, stream);
    expect("max", refused, kind!(NotPrepared), &["f32 max", "f32 sum", "Comm::prepare", "SYMMEM_OPS"])?;
    let plan = comm.plan(Collective::AllReduce, 8, Dtype::F32, Some(Op::Max));
    expect("a plan of max", plan, kind!(NotPrepared), &["f32 max"])?;
    let text = comm.explain(Collective::AllReduce, 8, Dtype::F32, Some(Op::Max));
    ensure!(text.contains("Comm::prepare"), "{text}");
    // The communicator is as good as before.
    let sum = reduced(&mut rig, &mut windows, Op::Sum)?;
    ensure!(sum == [5.0; COUNT], "{:?}", &sum[..4]);
    Ok(())
}

fn every_pair(context: &Context) -> Result<()> {
    let config = CommConfig { dtypes: vec![], ops: vec![], ..CommConfig::default() };
    let mut rig = Rig::with(&context.machine()?, 2, &config)?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    for op in Op::ALL {
        rig.prepare(Dtype::ALL, &[*op]).into_iter().collect::<symmem::Result<()>>()?;
        let expected = match op {
            Op::Sum => 5.0,
            Op::Prod => 6.0,
            Op::Min => 2.0,
            Op::Max => 3.0,
            Op::Avg => 2.5,
        };
        let found = reduced(&mut rig, &mut windows, *op)?;
        ensure!(found == [expected; COUNT], "{op}: {:?}", &found[..4]);
        for dtype in Dtype::ALL {
            rig.comms[1].plan(Collective::AllReduce, 1, *dtype, Some(*op))?;
        }
    }
    Ok(())
}

fn twice(context: &Context) -> Result<()> {
    let (machine, faulty) = context.faulty_machine(|_| {})?;
    let rig = Rig::with(&machine, 2, &every_op())?;
    faulty.watch().arm(crate::faulty::Fault {
        call: Some("module_load"),
        device: None,
        n_before: 0,
        error: crate::faulty::Fault::out_of_memory(),
    });
    for prepared in rig.prepare(&[Dtype::F32, Dtype::F32], Op::ALL) {
        prepared?;
    }
    ensure!(faulty.watch().disarm().is_none(), "a module was loaded again");
    Ok(())
}

fn refused_meanwhile(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    // Rank 1 has not asked, so the kernels cannot be there.
    let first = rig.comms[0].prepare(&[Dtype::F32], &[Op::Max])?;
    let refused = rig.comms[0].all_reduce_in_place(&mut windows[0], Op::Sum, &rig.streams[0]);
    expect("an operation meanwhile", refused, kind!(NotPrepared), &["wait", "Comm::prepare"])?;
    ensure!(!first.is_done(), "it has ended without rank 1");
    rig.comms[1].prepare(&[Dtype::F32], &[Op::Max])?.wait()?;
    first.wait()?;
    let max = reduced(&mut rig, &mut windows, Op::Max)?;
    ensure!(max == [3.0; COUNT], "{:?}", &max[..4]);
    Ok(())
}

fn in_capture(context: &Context) -> Result<()> {
    let mut rig = Rig::with(&context.machine()?, 1, &unchecked())?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    let (comm, stream) = (&mut rig.comms[0], rig.streams[0].clone());
    let mut refused = None;
    let graph = stream.capture(|| {
        comm.all_reduce_in_place(&mut windows[0], Op::Sum, &stream)?;
        refused = Some(comm.prepare(&[Dtype::F32], &[Op::Max]).map(drop));
        comm.all_reduce_in_place(&mut windows[0], Op::Sum, &stream)
    })?;
    let Some(refused) = refused else { anyhow::bail!("the capture did not run") };
    expect("prepare in a capture", refused, kind!(Capture), &["kernels", "before the capture"])?;
    ensure!(graph.facts()?.n_kernel_nodes == 2);
    Ok(())
}

fn different(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    let ops = [Op::Max, Op::Min];
    let asked: Vec<_> = rig
        .comms
        .iter()
        .map(|comm| comm.prepare(&[Dtype::F32], &[ops[comm.rank() as usize]]))
        .collect::<symmem::Result<_>>()?;
    for prepared in asked {
        expect("different kernels", prepared.wait(), kind!(Mismatch), &["f32 max", "f32 min", "rank 1"])?;
    }
    let sum = reduced(&mut rig, &mut windows, Op::Sum)?;
    ensure!(sum == [5.0; COUNT], "{:?}", &sum[..4]);
    Ok(())
}

/// Each rank in a thread, with settings of its own.
fn different_at_init(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let id = symmem::UniqueId::new()?;
    let made = std::thread::scope(|scope| {
        let start = |rank: u32| {
            let (machine, id) = (&machine, &id);
            let config = CommConfig { ops: vec![Op::ALL[rank as usize]], ..CommConfig::default() };
            scope.spawn(move || {
                let device = machine.device(rank)?;
                symmem::Comm::init_rank_with(&device, 2, rank, id, &config).map(drop)
            })
        };
        let threads = [0, 1].map(start);
        threads.map(|thread| thread.join().expect("no panic"))
    });
    for made in made {
        expect(
            "different kernels",
            made,
            kind!(Mismatch),
            &["the kernels to prepare", "f32 sum", "f32 prod"],
        )?;
    }
    Ok(())
}
