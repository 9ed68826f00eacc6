//! Whatever order things are dropped in, nothing is left behind and nothing hangs.

use crate::harness::{Case, Context};
use crate::random::Random;
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Context as _, Result};
use symmem::{Comm, GraphExec, Op, Stream, Window};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("lifetimes::random_drop_orders", 2, random_drop_orders),
        Case::new("lifetimes::communicators_again_and_again", 2, again_and_again),
        Case::new("lifetimes::windows_outlive_their_communicator", 2, windows_outlive),
    ]
}

/// Something that lives.
enum Live {
    Comm(Comm),
    Window(Window<f32>),
    Stream(Stream),
    Graph(GraphExec),
    Memory(UserMemory),
}

fn random_drop_orders(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    for seed in 0..context.rounds(50, 1000) as u64 {
        let mut random = Random::new(seed);
        let n_ranks = 2 + random.below(machine.backend().device_count().min(3) as usize - 1) as u32;
        let mut live =
            make(Rig::new(&machine, n_ranks)?, &mut random).with_context(|| format!("seed {seed}"))?;
        random.shuffle(&mut live);
        for one in live {
            match one {
                Live::Comm(comm) => drop(comm),
                Live::Window(window) => drop(window),
                Live::Stream(stream) => drop(stream),
                Live::Graph(graph) => drop(graph),
                Live::Memory(memory) => drop(memory),
            }
        }
        machine.take_deferred().with_context(|| format!("seed {seed}"))?;
        context.finish().with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

/// A communicator with windows of both kinds, dropped ones among them, operations done or in flight, and graphs.
fn make(mut rig: Rig, random: &mut Random) -> Result<Vec<Live>> {
    let devices: Vec<_> = rig.comms.iter().map(|comm| comm.device().clone()).collect();
    let mut live = Vec::new();
    if random.below(2) == 0 {
        let memory = UserMemory::on_each(&devices, 1 << 20)?;
        let addresses: Vec<u64> = memory.iter().map(UserMemory::address).collect();
        for window in rig.register(&addresses, &vec![100; addresses.len()])? {
            live.push(Live::Window(window?));
        }
        live.extend(memory.into_iter().map(Live::Memory));
    }
    for _ in 0..random.below(3) {
        let windows = rig.alloc::<f32>(1 + random.below(1000))?;
        if random.below(2) == 0 {
            live.extend(windows.into_iter().map(Live::Window));
        }
    }
    let mut data = rig.alloc::<f32>(64)?;
    if random.below(2) == 0 {
        rig.each(|comm, stream| {
            let rank = comm.rank() as usize;
            let graph = stream.capture(|| comm.all_reduce_in_place(&mut data[rank], Op::Sum, stream))?;
            live.push(Live::Graph(graph.instantiate()?));
            Ok(())
        })?;
    }
    if random.below(2) == 0 {
        rig.each(|comm, stream| comm.all_reduce_in_place(&mut data[comm.rank() as usize], Op::Sum, stream))?;
    }
    if random.below(2) == 0 {
        rig.synchronize()?;
    }
    live.extend(data.into_iter().map(Live::Window));
    live.extend(rig.comms.into_iter().map(Live::Comm));
    live.extend(rig.streams.into_iter().map(Live::Stream));
    Ok(live)
}

fn again_and_again(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    for _ in 0..context.rounds(10, 200) {
        let mut rig = Rig::new(&machine, 2)?;
        let mut data = rig.alloc::<f32>(64)?;
        rig.each(|comm, stream| comm.all_reduce_in_place(&mut data[comm.rank() as usize], Op::Sum, stream))?;
        rig.synchronize()?;
    }
    Ok(())
}

/// A window keeps its memory: it can be read when its communicator has gone.
fn windows_outlive(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let mut data = rig.alloc::<f32>(64)?;
    for window in &mut data {
        window.write(0, &[1.5; 64])?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut data[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    drop(rig);
    for window in &data {
        anyhow::ensure!(window.to_vec()? == [3.0; 64]);
    }
    Ok(())
}
