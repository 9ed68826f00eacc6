//! Whatever order things are dropped in, nothing is left behind and nothing hangs.

use crate::expect::{expect, kind};
use crate::harness::{Case, Context, RunsOn};
use crate::random::Random;
use crate::rig::{Captured, Rig, replay};
use crate::user_memory::UserMemory;
use anyhow::{Context as _, Result, ensure};
use symmem::{Comm, Event, Graph, GraphExec, Op, Stream, Window};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("lifetimes::random_drop_orders", 2, random_drop_orders),
        Case::new("lifetimes::communicators_again_and_again", 2, again_and_again),
        Case::new("lifetimes::windows_outlive_their_communicator", 2, windows_outlive),
        Case::new("lifetimes::graphs_outlive_ranks_that_were_made_one_by_one", 2, graphs_outlive),
        Case::new("lifetimes::windows_dropped_in_different_orders", 2, different_orders),
        Case::new("lifetimes::window_dropped_under_an_operation", 2, dropped_under_an_operation),
        Case::new("lifetimes::registering_while_a_peer_works", 2, registering_while_a_peer_works),
        Case::new("lifetimes::communicator_dropped_with_work_in_flight", 2, dropped_in_flight),
        Case::new("lifetimes::dropped_while_unwinding", 2, dropped_while_unwinding),
        // On GPUs the driver itself waits for the device where modules and pinned memory are freed.
        Case::new("lifetimes::what_does_not_end_is_not_unmapped", 2, what_does_not_end_is_not_unmapped)
            .runs_on(RunsOn::Sim),
    ]
}

/// Something that lives.
enum Live {
    Comm(Box<Comm>),
    Window(Window<f32>),
    Stream(Stream),
    Graph(Graph),
    Exec(GraphExec),
    Memory(UserMemory),
}

fn random_drop_orders(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    for seed in 0..context.rounds(50, 1000) as u64 {
        let mut random = Random::new(seed);
        let n_ranks = 2 + random.below(machine.device_count().min(3) as usize - 1) as u32;
        let rig = Rig::new(&machine, n_ranks)?;
        let mut live = make(rig, &mut random, true).with_context(|| format!("seed {seed}"))?;
        random.shuffle(&mut live);
        for one in live {
            match one {
                Live::Comm(comm) => drop(comm),
                Live::Window(window) => drop(window),
                Live::Stream(stream) => stream.synchronize()?,
                Live::Graph(graph) => drop(graph),
                Live::Exec(exec) => drop(exec),
                Live::Memory(memory) => drop(memory),
            }
        }
        machine.take_deferred().with_context(|| format!("seed {seed}"))?;
        context.finish().with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

/// A communicator with windows of both kinds, dropped ones among them, operations done or in flight, and graphs.
///
/// A graph that was launched goes with its stream's work: a simulated machine works while the host waits for it.
fn make(mut rig: Rig, random: &mut Random, replays: bool) -> Result<Vec<Live>> {
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
            live.push(Live::Exec(graph.instantiate()?));
            live.push(Live::Graph(graph));
            Ok(())
        })?;
        if replays && random.below(2) == 0 {
            let execs =
                live.iter().filter_map(|one| if let Live::Exec(exec) = one { Some(exec) } else { None });
            execs.zip(&rig.streams).try_for_each(|(exec, stream)| exec.launch(stream))?;
        }
    }
    if random.below(2) == 0 {
        rig.each(|comm, stream| comm.all_reduce_in_place(&mut data[comm.rank() as usize], Op::Sum, stream))?;
    }
    if random.below(2) == 0 {
        rig.synchronize()?;
    }
    live.extend(data.into_iter().map(Live::Window));
    live.extend(rig.comms.into_iter().map(Box::new).map(Live::Comm));
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
        ensure!(window.to_vec()? == [3.0; 64]);
    }
    Ok(())
}

/// Each rank drops its windows in an order of its own while others are registered: no place is given away that any rank
/// still uses, and what is left works.
fn different_orders(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    for seed in 0..context.rounds(5, 200) as u64 {
        let mut random = Random::new(seed);
        let mut rig = Rig::new(&machine, machine.device_count().min(3))?;
        let mut held: Vec<Vec<Window<f32>>> = rig.comms.iter().map(|_| Vec::new()).collect();
        for _ in 0..12 {
            let new = rig.alloc::<f32>(1 + random.below(1000))?;
            let flat = new[0].flat_offset();
            ensure!(
                held.iter().flatten().all(|window| window.flat_offset() != flat),
                "seed {seed}: {flat} is in use"
            );
            held.iter_mut().zip(new).for_each(|(held, new)| held.push(new));
            for held in &mut held {
                for _ in 0..random.below(3).min(held.len()) {
                    held.swap_remove(random.below(held.len()));
                }
            }
        }
        let mut data = rig.alloc::<f32>(64)?;
        rig.each(|comm, stream| comm.all_reduce_in_place(&mut data[comm.rank() as usize], Op::Sum, stream))?;
        rig.synchronize()?;
    }
    Ok(())
}

/// All handles go while the operation waits for its last rank: it ends well, and only then is memory unmapped.
fn dropped_under_an_operation(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    for count in [64, 1 << 18] {
        let mut data = rig.alloc::<f32>(count)?;
        let flat = data[0].flat_offset();
        let streams = rig.streams.clone();
        rig.comms[0].all_reduce_in_place(&mut data[0], Op::Sum, &streams[0])?;
        drop(data.remove(0));
        let more = rig.alloc::<f32>(1)?;
        ensure!(more[0].flat_offset() != flat, "the offset was given away while rank 1 had its window");
        rig.comms[1].all_reduce_in_place(&mut data[0], Op::Sum, &streams[1])?;
        drop(data);
        let other = rig.alloc::<f32>(1)?;
        rig.synchronize()?;
        drop((more, other));
    }
    Ok(())
}

/// A registration does not wait for a rank whose kernel waits for a peer.
fn registering_while_a_peer_works(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let mut rig = Rig::new(&machine, machine.device_count().min(3))?;
    for count in [64, 1 << 18] {
        let mut data = rig.alloc::<f32>(count)?;
        for window in &mut data {
            window.write(0, &vec![1.0; count])?;
        }
        let (last, streams) = (data.len() - 1, rig.streams.clone());
        for rank in 0..last {
            rig.comms[rank].all_reduce_in_place(&mut data[rank], Op::Sum, &streams[rank])?;
        }
        let more = rig.alloc::<f32>(1000)?;
        rig.comms[last].all_reduce_in_place(&mut data[last], Op::Sum, &streams[last])?;
        rig.synchronize()?;
        ensure!(
            data.iter()
                .all(|window| window.to_vec().is_ok_and(|found| found == vec![last as f32 + 1.0; count]))
        );
        drop(more);
    }
    Ok(())
}

/// Operations and replays go on while the communicator is dropped; what they use is there until they are done.
fn dropped_in_flight(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    for seed in 0..context.rounds(10, 200) as u64 {
        let mut random = Random::new(seed);
        let mut rig = Rig::new(&machine, 2)?;
        let mut data = rig.alloc::<f32>(1 + random.below(5000))?;
        let mut graphs = Vec::new();
        rig.each(|comm, stream| {
            let window = &mut data[comm.rank() as usize];
            let graph = stream.capture(|| comm.all_reduce_in_place(&mut *window, Op::Sum, stream))?;
            graphs.push(graph.instantiate()?);
            comm.all_reduce_in_place(window, Op::Sum, stream)
        })?;
        graphs.iter().zip(&rig.streams).try_for_each(|(graph, stream)| graph.launch(stream))?;
        drop(data);
        let Rig { mut comms, streams } = rig;
        random.shuffle(&mut comms);
        drop(comms);
        if random.below(2) == 0 {
            // A graph may be launched as long as all ranks' graphs live.
            graphs.iter().zip(&streams).try_for_each(|(graph, stream)| graph.launch(stream))?;
        }
        drop(graphs);
        streams.iter().try_for_each(Stream::synchronize)?;
        machine.take_deferred().with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

/// A panic with windows, graphs and operations in flight is a panic, not an abort, and leaves nothing behind.
fn dropped_while_unwinding(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    for seed in 0..context.rounds(10, 200) as u64 {
        let mut random = Random::new(seed);
        let live = make(Rig::new(&machine, 2)?, &mut random, false)?;
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _live = live;
            // Unwinds without the message that a panic would print.
            std::panic::resume_unwind(Box::new("unwinding"));
        }));
        ensure!(unwound.is_err_and(|payload| payload.is::<&str>()), "seed {seed}");
        machine.take_deferred().with_context(|| format!("seed {seed}"))?;
        context.finish().with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

/// An operation cannot even start when its communicator is dropped: the destructor gives up in time and says so, and when
/// the operation runs at last, on all ranks' memory, everything is still there.
fn what_does_not_end_is_not_unmapped(context: &Context) -> Result<()> {
    // What waits here is no deadlock: its peer comes when the destructors have returned.
    let machine = context.machine_to_leave(|sim| sim.stall_grace_ms = 60_000)?;
    let (mut rig, mut before) = (Rig::new(&machine, 2)?, Rig::new(&machine, 2)?);
    let (mut data, mut blocked) = (rig.alloc::<f32>(1 << 18)?, before.alloc::<f32>(64)?);
    // Rank 0 comes behind an operation of another communicator that waits for its rank 1.
    before.comms[0].all_reduce_in_place(&mut blocked[0], Op::Sum, &before.streams[0])?;
    let event = Event::new(rig.comms[0].device())?;
    event.record(&before.streams[0])?;
    rig.streams[0].wait_event(&event)?;
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut data[comm.rank() as usize], Op::Sum, stream))?;
    let Rig { comms, streams } = rig;
    drop((data, comms));
    expect(
        "what the destructors say",
        machine.take_deferred(),
        kind!(Deadline),
        &["operations of rank 0", "2000 ms"],
    )?;
    before.comms[1].all_reduce_in_place(&mut blocked[1], Op::Sum, &before.streams[1])?;
    before.synchronize()?;
    streams.iter().try_for_each(Stream::synchronize)?;
    Ok(())
}

/// As in processes of their own, each rank has mapped its peer's memory itself.
fn graphs_outlive(context: &Context) -> Result<()> {
    let (machine, id) = (context.machine()?, symmem::UniqueId::new()?);
    let captured = |rank: u32| -> Result<Captured> {
        let device = machine.device(rank)?;
        let mut comm = Comm::init_rank(&device, 2, rank, &id)?;
        let (stream, mut window) = (Stream::new(&device)?, comm.alloc::<f32>(64)?.wait()?);
        let graph = stream.capture(|| comm.all_reduce_in_place(&mut window, Op::Sum, &stream))?;
        window.write(0, &[1.0 + rank as f32; 64])?;
        Ok((graph.instantiate()?, window, stream))
    };
    for window in replay(2, captured)? {
        ensure!(window.to_vec()? == [3.0; 64]);
    }
    Ok(())
}
