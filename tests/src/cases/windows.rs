//! Which memory may become a window: any aligned part, overlapping parts, several physical allocations, and how a caller
//! waits for it.

use crate::expect::{error_of, expect, kind};
use crate::harness::{Case, Context, RunsOn};
use crate::random::Random;
use crate::rig::Rig;
use crate::seam::seam;
use crate::user_memory::UserMemory;
use anyhow::{Context as _, Result, ensure};
use std::time::Duration;
use symmem::backend::Access;
use symmem::{CommConfig, Device, Dtype, ErrorKind, Op, Window};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("windows::any_aligned_part", 2, any_aligned_part),
        Case::new("windows::overlapping", 2, overlapping),
        Case::new("windows::of_a_window", 2, of_a_window),
        Case::new("windows::a_whole_buffer", 2, a_whole_buffer),
        Case::new("windows::allocations_of_different_sizes", 2, allocations_of_different_sizes),
        Case::new("windows::several_physical_allocations", 2, several_physical_allocations),
        Case::new("windows::cut_differently", 2, cut_differently),
        Case::new("windows::one_joined_with_two", 2, one_joined_with_two),
        Case::new("windows::own_deadline_and_poll", 2, own_deadline_and_poll),
        Case::new("windows::not_from_vmm", 2, not_from_vmm),
        Case::new("windows::not_exportable", 2, not_exportable).runs_on(RunsOn::Sim),
        Case::new("windows::described", 2, described),
    ]
}

fn made(context: &Context) -> Result<(Rig, Vec<Device>)> {
    let machine = context.machine()?;
    let devices = machine.devices(machine.device_count().min(3))?;
    Ok((Rig::on(&devices, &CommConfig::default())?, devices))
}

fn windows_at(rig: &Rig, memory: &[UserMemory], offset: u64, count: usize) -> Result<Vec<Window<f32>>> {
    let addresses: Vec<u64> = memory.iter().map(|memory| memory.address() + offset).collect();
    let windows = rig.register(&addresses, &vec![count; memory.len()])?;
    Ok(windows.into_iter().collect::<symmem::Result<_>>()?)
}

/// Sums the windows by their handles, and checks that every byte of the caller's memory around them is as it was.
fn sums_and_leaves_the_rest(
    rig: &mut Rig,
    memory: &[UserMemory],
    windows: &mut [Window<f32>],
    offset: usize,
    random: &mut Random,
) -> Result<()> {
    let (count, len) = (windows[0].len(), memory[0].len_bytes() as usize);
    let mut images: Vec<Vec<u8>> = memory.iter().map(|_| random.bytes(len)).collect();
    let values = |rank: usize| (0..count).map(move |n| (n % 97 + 100 * rank) as f32);
    for (rank, image) in images.iter_mut().enumerate() {
        let input: Vec<f32> = values(rank).collect();
        image[offset..offset + 4 * count].copy_from_slice(bytemuck::cast_slice(&input));
        memory[rank].write(0, &image[..memory[rank].len_bytes().min(len as u64) as usize])?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut windows[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    let sum: Vec<f32> =
        (0..count).map(|n| (0..memory.len()).map(|rank| (n % 97 + 100 * rank) as f32).sum()).collect();
    for (rank, image) in images.iter_mut().enumerate() {
        image[offset..offset + 4 * count].copy_from_slice(bytemuck::cast_slice(&sum));
        let len = memory[rank].len_bytes().min(len as u64) as usize;
        ensure!(memory[rank].read(0, len)? == image[..len], "rank {rank}: wrong sum, or more was written");
    }
    Ok(())
}

fn any_aligned_part(context: &Context) -> Result<()> {
    let (mut rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1 << 16)?;
    let mut random = Random::new(60);
    for _ in 0..context.rounds(20, 500) {
        let offset = 16 * random.below(4000) as u64;
        let count = 1 + random.below(300);
        let mut windows = windows_at(&rig, &memory, offset, count)?;
        sums_and_leaves_the_rest(&mut rig, &memory, &mut windows, offset as usize, &mut random)
            .with_context(|| format!("{count} elements at {offset:#x}"))?;
    }
    Ok(())
}

/// Windows that overlap in every way lie over each other in the space; addresses are found in whichever covers them.
fn overlapping(context: &Context) -> Result<()> {
    let (mut rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1 << 16)?;
    let parts = [(1024, 1024), (0, 512), (0, 4096), (1024, 16), (8192, 2048), (4096, 4096)];
    let windows = parts
        .iter()
        .map(|&(offset, len)| windows_at(&rig, &memory, offset, len / 4))
        .collect::<Result<Vec<_>>>()?;
    let start = windows[1][0].flat_offset().bytes;
    for (window, (offset, _)) in windows.iter().zip(parts) {
        ensure!(window.iter().all(|window| window.flat_offset().bytes == start + offset));
    }
    let n_ranks = memory.len() as f32;
    // Across the end of a small window inside a large one, and by the addresses of both spaces.
    for (offset, count) in [(500, 16), (1024, 300), (2000, 500), (7000, 298), (9000, 300)] {
        for (rank, memory) in memory.iter().enumerate() {
            memory.write(offset, bytemuck::cast_slice(&vec![rank as f32 + 1.0; count]))?;
        }
        let symmetric: Vec<u64> = windows[1].iter().map(|window| window.address() + offset).collect();
        rig.each(|comm, stream| {
            let rank = comm.rank() as usize;
            let (from, to) = (memory[rank].address() + offset, symmetric[rank]);
            comm.all_reduce_at(from, to, count as u64, Dtype::F32, Op::Sum, stream)
        })?;
        rig.synchronize()?;
        let sum = vec![n_ranks * (n_ranks + 1.0) / 2.0; count];
        for memory in &memory {
            ensure!(memory.read(offset, 4 * count)? == bytemuck::cast_slice(&sum), "{count} from {offset}");
        }
    }
    // No single window covers this range.
    let at = memory[0].address() + 8000;
    let refused = rig.comms[0].all_reduce_at(at, at, 200, Dtype::F32, Op::Sum, &rig.streams[0]);
    expect("a range across two windows", refused, kind!(OutsideWindow), &[&format!("{at:#x}")])
}

/// A part of a window can be registered by its symmetric address.
fn of_a_window(context: &Context) -> Result<()> {
    let (rig, _) = made(context)?;
    let whole = rig.alloc::<f32>(5000)?;
    let mapped = context.live();
    let addresses: Vec<u64> = whole.iter().map(|window| window.address() + 4096).collect();
    let parts = rig.register::<f32>(&addresses, &vec![100; addresses.len()])?;
    for (part, whole) in parts.into_iter().zip(&whole) {
        ensure!(part?.flat_offset().bytes == whole.flat_offset().bytes + 4096);
    }
    ensure!(context.live() == mapped, "no new mapping");
    Ok(())
}

fn a_whole_buffer(context: &Context) -> Result<()> {
    let (rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1 << 16)?;
    let asked: Vec<_> = symmem::group(|group| {
        let asked = rig.comms.iter().zip(&memory);
        asked.map(|(comm, memory)| group.register_buffer::<f32>(comm, memory.mapping())).collect()
    })?;
    for (registration, memory) in asked.into_iter().zip(&memory) {
        ensure!(registration.wait()?.len() as u64 * 4 == memory.len_bytes());
    }
    Ok(())
}

fn allocations_of_different_sizes(context: &Context) -> Result<()> {
    let (mut rig, devices) = made(context)?;
    let grain = devices[0].granularity_bytes()?;
    let memory =
        devices.iter().enumerate().map(|(rank, device)| UserMemory::new(device, grain * (1 + rank as u64)));
    let memory = memory.collect::<Result<Vec<_>>>()?;
    let mut windows = windows_at(&rig, &memory, 4096, 1000)?;
    sums_and_leaves_the_rest(&mut rig, &memory, &mut windows, 4096, &mut Random::new(61))?;
    // What comes behind it lies behind the largest.
    let next = rig.alloc::<f32>(1)?[0].flat_offset().bytes;
    ensure!(next >= windows[0].flat_offset().bytes - 4096 + grain * memory.len() as u64);
    Ok(())
}

/// A window across the seams of allocations that are mapped back to back; a part of them shares the mapping.
fn several_physical_allocations(context: &Context) -> Result<()> {
    let (mut rig, devices) = made(context)?;
    let grain = devices[0].granularity_bytes()?;
    // The last one may be larger on some ranks.
    let lens = |rank: usize| [grain, 2 * grain, grain * (1 + rank as u64)];
    let memory =
        devices.iter().enumerate().map(|(rank, device)| UserMemory::in_segments(device, &lens(rank)));
    let memory = memory.collect::<Result<Vec<_>>>()?;
    let start = grain - 4096;
    let count = (2 * grain + 8192) as usize / 4;
    let mut windows = windows_at(&rig, &memory, start, count)?;
    sums_and_leaves_the_rest(&mut rig, &memory, &mut windows, start as usize, &mut Random::new(62))?;
    let mapped = context.live();
    let seam = grain * 3 - 64;
    let parts = windows_at(&rig, &memory, seam, 32)?;
    ensure!(parts[0].flat_offset().bytes - windows[0].flat_offset().bytes == seam - start);
    ensure!(context.live() == mapped, "the part has no mapping of its own");
    drop((windows, parts));
    drop(rig.alloc::<f32>(1)?);
    Ok(())
}

fn cut_differently(context: &Context) -> Result<()> {
    let (rig, devices) = made(context)?;
    let grain = devices[0].granularity_bytes()?;
    let window = |cuts: &dyn Fn(usize) -> Vec<u64>| -> Result<symmem::Error> {
        let memory =
            devices.iter().enumerate().map(|(rank, device)| UserMemory::in_segments(device, &cuts(rank)));
        let memory = memory.collect::<Result<Vec<_>>>()?;
        let addresses: Vec<u64> = memory.iter().map(UserMemory::address).collect();
        let counts = vec![(3 * grain) as usize / 4; devices.len()];
        let mut results = rig.register::<f32>(&addresses, &counts)?;
        let error = error_of("memory cut differently", results.remove(0))?;
        for other in results {
            ensure!(error_of("another rank", other)?.kind() == error.kind(), "all ranks have the same error");
        }
        Ok(error)
    };
    let refused = window(&|rank| if rank == 0 { vec![3 * grain] } else { vec![grain, 2 * grain] })?;
    expect(
        "one or two",
        Err::<(), _>(refused),
        kind!(Mismatch),
        &["physical allocations", "rank 0 1", "rank 1 2"],
    )?;
    let refused = window(&|rank| if rank == 0 { vec![2 * grain, grain] } else { vec![grain, 2 * grain] })?;
    expect("two ways", Err::<(), _>(refused), kind!(Mismatch), &["lengths", &format!("rank 1 [{grain}]")])?;
    rig.alloc::<f32>(1)?;
    Ok(())
}

/// One allocation of rank 0 is joined with two of every other rank: it has two places, and its own address is refused
/// rather than guessed. Registering the same again takes no new place.
fn one_joined_with_two(context: &Context) -> Result<()> {
    const COUNT: u64 = 256;
    let (mut rig, devices) = made(context)?;
    let memory = [UserMemory::on_each(&devices, 1)?, UserMemory::on_each(&devices, 1)?];
    let at = |which: usize, rank: usize| memory[if rank == 0 { 0 } else { which }][rank].address();
    let join = |which: usize| -> Result<Vec<Window<f32>>> {
        let addresses: Vec<u64> = (0..devices.len()).map(|rank| at(which, rank)).collect();
        let windows = rig.register(&addresses, &vec![COUNT as usize; devices.len()])?;
        Ok(windows.into_iter().collect::<symmem::Result<_>>()?)
    };
    let (first, mut second) = (join(0)?, join(1)?);
    ensure!(first[0].flat_offset() != second[0].flat_offset(), "unlike slots have places of their own");
    let mapped = context.live();
    for (which, windows) in [(0, &first), (1, &second)] {
        ensure!(join(which)?[0].flat_offset() == windows[0].flat_offset(), "the place is shared");
    }
    ensure!(context.live() == mapped, "no new mapping");
    let refused = rig.comms[0].all_reduce_at(at(0, 0), at(0, 0), COUNT, Dtype::F32, Op::Sum, &rig.streams[0]);
    expect("an address with two places", refused, kind!(Unsupported), &["offsets", "use the window"])?;
    for (rank, window) in second.iter_mut().enumerate() {
        window.write(0, &[rank as f32 + 1.0; COUNT as usize])?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut second[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    let sum = (1..=devices.len()).map(|one| one as f32).sum::<f32>();
    ensure!(second.iter().all(|window| window.to_vec().is_ok_and(|found| found == [sum; COUNT as usize])));
    drop(first);
    // With one of the places gone, the address is good again.
    drop(rig.alloc::<f32>(1)?);
    rig.each(|comm, stream| {
        let address = at(1, comm.rank() as usize);
        comm.all_reduce_at(address, address, COUNT, Dtype::F32, Op::Sum, stream)
    })?;
    rig.synchronize()
}

/// A caller may look, wait a while, and give up, while the registration goes on.
fn own_deadline_and_poll(context: &Context) -> Result<()> {
    let (rig, _) = made(context)?;
    let (first, rest) = rig.comms.split_first().context("there are ranks")?;
    let mut polled = first.alloc::<f32>(10)?;
    ensure!(polled.poll().is_none() && !polled.is_done(), "nobody else has asked yet");
    let given_up = first.alloc::<f32>(20)?;
    let is = |kind: &ErrorKind| matches!(kind, ErrorKind::Deadline { timeout_ms: 20, .. });
    expect("a wait of its own", given_up.wait_for(Duration::from_millis(20)), is, &["20 ms"])?;
    for count in [10, 20] {
        let asked = rest.iter().map(|comm| comm.alloc::<f32>(count)).collect::<symmem::Result<Vec<_>>>()?;
        for one in asked {
            ensure!(one.wait()?.len() == count);
        }
    }
    let window = polled.poll().context("all have asked")??;
    ensure!(window.len() == 10);
    expect("a second poll", polled.poll().context("it has ended")?, kind!(Foreign), &["taken"])?;
    rig.alloc::<f32>(1)?;
    Ok(())
}

/// Every rank learns which rank's memory is of the wrong kind, and what to do instead.
fn refused_for_rank_1(rig: &Rig, addresses: &[u64], words: &[&str]) -> Result<()> {
    for result in rig.register::<u8>(addresses, &vec![64; addresses.len()])? {
        let error = error_of("memory of the wrong kind", result)?;
        ensure!(matches!(error.kind(), ErrorKind::RankFailed { rank: 1, .. }), "{error}");
        let cause = error.cause().context("what rank 1 met")?;
        expect("rank 1's memory", Err::<(), _>(cause.clone()), kind!(Unsupported), words)?;
    }
    rig.alloc::<f32>(1)?;
    Ok(())
}

fn not_from_vmm(context: &Context) -> Result<()> {
    let (rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1)?;
    let backend = seam(devices[1].machine());
    let pinned = backend.host_alloc(4096)?;
    let mut addresses: Vec<u64> = memory.iter().map(UserMemory::address).collect();
    addresses[1] = pinned.device;
    let refused = refused_for_rank_1(&rig, &addresses, &["Comm::alloc", "cuMemCreate", "memory at 0x"]);
    backend.host_free(pinned)?;
    refused
}

fn not_exportable(context: &Context) -> Result<()> {
    let (rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1)?;
    let (backend, sim) = (seam(devices[1].machine()), context.sim().context("a simulated machine")?);
    let len_bytes = devices[1].granularity_bytes()?;
    let physical = sim.create_unexportable(1, len_bytes)?;
    let address = backend.address_reserve(len_bytes, len_bytes, 0)?;
    backend.mem_map(address, len_bytes, physical)?;
    backend.mem_set_access(address, len_bytes, 1, Access::ReadWrite)?;
    let mut addresses: Vec<u64> = memory.iter().map(UserMemory::address).collect();
    addresses[1] = address;
    let refused = refused_for_rank_1(&rig, &addresses, &["exported", "requestedHandleTypes"]);
    backend.mem_unmap(address, len_bytes)?;
    backend.mem_release(physical)?;
    backend.address_free(address, len_bytes)?;
    refused
}

fn described(context: &Context) -> Result<()> {
    let (rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1)?;
    let (first, second) = (rig.alloc::<f32>(1000)?, windows_at(&rig, &memory, 4096, 10)?);
    for (comm, memory) in rig.comms.iter().zip(&memory) {
        let (text, svg) = (comm.describe(), comm.describe_svg());
        for needle in [
            format!("window 0: 3.9 KiB at {}", first[0].flat_offset()),
            format!("window 1: 40 bytes at {}", second[0].flat_offset()),
            format!("the caller's {:#x}", memory.address() + 4096),
            format!("rank {}", devices.len() - 1),
            "DevBase".to_owned(),
        ] {
            ensure!(text.contains(&needle) && svg.contains(&needle), "{needle} is not in\n{text}\n{svg}");
        }
    }
    drop((first, second));
    drop(rig.alloc::<f32>(1)?);
    let text = rig.comms[0].describe();
    ensure!(!text.contains("window"), "windows that have gone are not there:\n{text}");
    Ok(())
}
