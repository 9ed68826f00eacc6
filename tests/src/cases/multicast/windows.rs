//! Windows that have multicast: data reaches all ranks, and sums come from all.

use super::kernels::run;
use crate::harness::{Case, Context, RunsOn};
use crate::processes::{Place, Program, Ranks};
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Context as _, Result, ensure};
use symmem::{Comm, CommConfig, Op, Stream, UniqueId, Window};

pub(crate) const PROGRAMS: &[(&str, Program)] =
    &[("multicast", in_a_process), ("multicast_off_on_one", off_on_one)];

/// Bytes of an allocation on most devices; the simulated machine's granule.
const GRAIN: u64 = 2 << 20;
const COUNT: usize = 1024;

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Context) -> Result<()>| {
        Case::new(format!("multicast::{name}"), 4, run).runs_on(RunsOn::SimMulticast)
    };
    let reaches = |n_ranks: u32| {
        let run = move |context: &Context| reaches_every_rank(context, n_ranks);
        Case::new(format!("multicast::reaches_{n_ranks}_ranks"), n_ranks, run).runs_on(RunsOn::SimMulticast)
    };
    let more = [
        case("collectives_beside_it", collectives_beside_it),
        case("windows_of_one_allocation_share_a_binding", windows_share_a_binding),
        case("segments_and_different_lengths", segments_and_different_lengths),
        case("bindings_come_and_go", bindings_come_and_go),
        case("a_window_outlives_its_communicator", a_window_outlives_its_communicator),
        case("ranks_in_processes", ranks_in_processes),
        case("off_in_one_of_the_processes", off_in_one_of_the_processes),
    ];
    [2, 3, 4, 8].map(reaches).into_iter().chain(more).collect()
}

/// The window's multicast address on each rank of one process: one for all.
pub(super) fn address(windows: &[Window<f32>]) -> Result<u64> {
    let addresses: Vec<_> = windows.iter().map(Window::multicast_address).collect();
    ensure!(addresses.iter().all(|address| *address == addresses[0]), "{addresses:x?}");
    addresses[0].context("the window has no multicast")
}

/// A store by each rank reaches all; the sum of what each rank has comes to each.
pub(super) fn works(comms: &[Comm], windows: &mut [Window<f32>]) -> Result<()> {
    let mc = address(windows)?;
    for (rank, comm) in comms.iter().enumerate() {
        let first = 16 * rank;
        run(comm.device(), "store", [mc + 4 * first as u64, 1000 * (rank as u64 + 1)])?;
        run(comm.device(), "add", [mc + 4 * first as u64, 5])?;
        for window in &*windows {
            let mut found = [0.0; 4];
            window.read(first, &mut found)?;
            let base = 1000 * (rank as u32 + 1);
            let expected = [base + 5, base + 1, base + 2, base + 3];
            ensure!(found.map(f32::to_bits) == expected, "rank {rank} stored {expected:?}: {found:?}");
        }
    }
    let n_ranks = comms.len() as u32;
    for (rank, window) in (1..).zip(&mut *windows) {
        window.write(COUNT / 2, &[rank as f32])?;
    }
    let expected = (n_ranks * (n_ranks + 1) / 2) as f32;
    for (comm, window) in comms.iter().zip(&*windows) {
        let out = window.address() + 4 * (COUNT as u64 - 1);
        run(comm.device(), "sum", [mc + 2 * COUNT as u64, out])?;
        let mut sum = [0.0];
        window.read(COUNT - 1, &mut sum)?;
        ensure!(sum == [expected], "rank {}: {sum:?}", comm.rank());
    }
    Ok(())
}

fn reaches_every_rank(context: &Context, n_ranks: u32) -> Result<()> {
    let rig = Rig::new(&context.machine()?, n_ranks)?;
    for count in [COUNT, 2_000_000] {
        let mut windows = rig.alloc::<f32>(count)?;
        for (comm, window) in rig.comms.iter().zip(&windows) {
            let base = comm.multicast_base().context("the communicator has no multicast")?;
            ensure!(window.multicast_address() == Some(base + window.flat_offset().bytes));
            ensure!(comm.describe().contains("multicast space") && comm.describe().contains(", mc"));
        }
        works(&rig.comms, &mut windows)?;
    }
    Ok(())
}

/// Collectives by unicast work on the same windows.
fn collectives_beside_it(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 3)?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    for round in 0..3 {
        works(&rig.comms, &mut windows)?;
        for (rank, window) in windows.iter_mut().enumerate() {
            window.write(0, &[(rank + round) as f32; COUNT])?;
        }
        rig.each(|comm, stream| {
            comm.all_reduce_in_place(&mut windows[comm.rank() as usize], Op::Sum, stream)
        })?;
        rig.synchronize()?;
        ensure!(windows[1].to_vec()? == [3.0 + 3.0 * round as f32; COUNT]);
    }
    Ok(())
}

fn registered(rig: &Rig, memory: &[UserMemory], offset: u64, count: usize) -> Result<Vec<Window<f32>>> {
    let addresses: Vec<u64> = memory.iter().map(|memory| memory.address() + offset).collect();
    let windows = rig.register(&addresses, &vec![count; memory.len()])?;
    Ok(windows.into_iter().collect::<symmem::Result<_>>()?)
}

/// The binding belongs to the mapping: it stays until the last of its windows has gone.
fn windows_share_a_binding(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let rig = Rig::new(&machine, 2)?;
    let memory = UserMemory::on_each(&machine.devices(2)?, GRAIN)?;
    let bound = || context.live().map(|live| live.multicast_bindings);
    let before = bound();
    let mut first = registered(&rig, &memory, 0, COUNT)?;
    let mut second = registered(&rig, &memory, 8192, COUNT)?;
    ensure!(address(&second)? == address(&first)? + 8192);
    ensure!(bound() == before.map(|before| before + 2), "one binding for each rank");
    works(&rig.comms, &mut first)?;
    drop(first);
    works(&rig.comms, &mut second)?;
    let ends = rig.comms.iter().zip(second).map(|(comm, window)| comm.deregister(window));
    for end in ends.collect::<symmem::Result<Vec<_>>>()? {
        ensure!(end.wait()?, "the memory is unmapped");
    }
    ensure!(bound() == before, "something is still bound");
    Ok(())
}

/// Ranks whose allocations end at different places are bound as far as all reach.
fn segments_and_different_lengths(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let rig = Rig::new(&machine, 2)?;
    let devices = machine.devices(2)?;
    let memory = vec![
        UserMemory::in_segments(&devices[0], &[GRAIN, 4 * GRAIN])?,
        UserMemory::in_segments(&devices[1], &[GRAIN, GRAIN])?,
    ];
    let across = GRAIN - 2048;
    let mut windows = registered(&rig, &memory, across, COUNT)?;
    works(&rig.comms, &mut windows)?;
    let last = memory[1].read(GRAIN - 2048, 4)?;
    ensure!(last == 1005_u32.to_le_bytes(), "the caller sees {last:?}");
    Ok(())
}

fn bindings_come_and_go(context: &Context) -> Result<()> {
    let rig = Rig::new(&context.machine()?, 3)?;
    let mut seen = Vec::new();
    for round in 0..context.rounds(12, 300) {
        let mut windows = rig.alloc::<f32>(COUNT << (round % 3 * 8))?;
        seen.push(address(&windows)?);
        if round % 4 == 0 {
            works(&rig.comms, &mut windows)?;
        }
    }
    drop(rig);
    seen.sort_unstable();
    seen.dedup();
    ensure!(seen.len() <= 4, "offsets are used again: {seen:x?}");
    Ok(())
}

/// A window keeps its addresses, the multicast ones too.
fn a_window_outlives_its_communicator(context: &Context) -> Result<()> {
    let rig = Rig::new(&context.machine()?, 2)?;
    let windows = rig.alloc::<f32>(COUNT)?;
    let (mc, device) = (address(&windows)?, rig.comms[1].device().clone());
    drop(rig);
    run(&device, "store", [mc, 7])?;
    let mut found = [0.0];
    windows[0].read(0, &mut found)?;
    ensure!(found[0].to_bits() == 7);
    Ok(())
}

fn ranks_in_processes(context: &Context) -> Result<()> {
    Ranks::start(context, "multicast", 3, &UniqueId::new()?)?.finish()
}

/// What the environment of one process forbids holds for all ranks.
fn off_in_one_of_the_processes(context: &Context) -> Result<()> {
    let off = |rank| if rank == 1 { vec![("NVSHMEM_DISABLE_NVLS", "1".to_owned())] } else { vec![] };
    Ranks::start_some(context, "multicast_off_on_one", 3, &UniqueId::new()?, 0..3, off)?.finish()
}

fn off_on_one(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut comm = place.comm(&device, &CommConfig::default())?;
    let (stream, mut window) = (Stream::new(&device)?, comm.alloc::<f32>(COUNT)?.wait()?);
    ensure!((comm.multicast_base(), window.multicast_address()) == (None, None));
    let text = comm.describe();
    ensure!(text.contains("rank 1 failed") && text.contains("NVSHMEM_DISABLE_NVLS=1"), "{text}");
    window.write(0, &[1.0; COUNT])?;
    comm.all_reduce_in_place(&mut window, Op::Sum, &stream)?;
    comm.synchronize(&stream)?;
    ensure!(window.to_vec()? == [3.0; COUNT]);
    drop((window, comm));
    Ok(device.machine().take_deferred()?)
}

/// Each rank stores to all and adds to all; an all-reduce between keeps the steps apart.
fn in_a_process(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut comm = place.comm(&device, &CommConfig::default())?;
    let stream = Stream::new(&device)?;
    for _ in 0..3 {
        let (window, meeting) = (comm.alloc::<f32>(COUNT)?, comm.alloc::<f32>(1)?);
        let (mut window, mut meeting) = (window.wait()?, meeting.wait()?);
        let mut meet = |comm: &mut Comm| {
            comm.all_reduce_in_place(&mut meeting, Op::Sum, &stream)?;
            comm.synchronize(&stream)
        };
        let mc = window.multicast_address().context("no multicast")?;
        window.fill_bytes(0)?;
        window.write(COUNT / 2, &[place.rank as f32 + 1.0])?;
        meet(&mut comm)?;
        run(&device, "store", [mc + 64 * u64::from(place.rank), 100 * u64::from(place.rank)])?;
        run(&device, "add", [mc + 4096 - 64, 1])?;
        run(&device, "sum", [mc + 2 * COUNT as u64, window.address() + 4 * (COUNT as u64 - 1)])?;
        meet(&mut comm)?;
        let found: Vec<u32> = window.to_vec()?.into_iter().map(f32::to_bits).collect();
        for rank in 0..place.n_ranks {
            let stored = &found[16 * rank as usize..][..4];
            let base = 100 * rank;
            ensure!(stored == [base, base + 1, base + 2, base + 3], "of rank {rank}: {stored:?}");
        }
        ensure!(found[COUNT - 16] == place.n_ranks, "{} adds", found[COUNT - 16]);
        let sum = (place.n_ranks * (place.n_ranks + 1) / 2) as f32;
        ensure!(found[COUNT - 1] == sum.to_bits(), "the sum is {}", f32::from_bits(found[COUNT - 1]));
        meet(&mut comm)?;
    }
    drop(comm);
    Ok(device.machine().take_deferred()?)
}
