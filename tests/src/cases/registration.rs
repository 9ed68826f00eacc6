//! Memory that becomes a window: symmetric allocations, and memory that the caller mapped.

use crate::harness::{Case, Context};
use crate::random::Random;
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Result, ensure};
use symmem::{Algorithm, Comm, CommConfig, Device, Op, Window};

/// Bytes of each of the two windows in one allocation.
const PART_BYTES: u64 = 4096;
/// Elements of a part.
const PART_COUNT: usize = 1024;
/// Elements of a share that is gathered into a part.
const SHARE_COUNT: usize = 300;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("registration::user_memory", 2, user_memory),
        Case::new("registration::windows_of_one_allocation", 2, windows_of_one_allocation),
        Case::new("registration::same_allocation_twice", 2, same_allocation_twice),
        Case::new("registration::two_mappings_of_one_allocation", 2, two_mappings_of_one_allocation),
        Case::new("registration::one_of_two_windows_dropped", 2, one_of_two_windows_dropped),
        Case::new("registration::offset_comes_back", 2, offset_comes_back),
        Case::new("registration::two_communicators_in_any_order", 2, two_communicators_in_any_order),
        Case::new("registration::subgroup_then_all", 3, subgroup_then_all),
        Case::new("registration::not_waited_for", 2, not_waited_for),
    ]
}

fn windows_at(rig: &Rig, memory: &[UserMemory], offset: u64, count: usize) -> Result<Vec<Window<f32>>> {
    let addresses: Vec<u64> = memory.iter().map(|memory| memory.address() + offset).collect();
    let windows = rig.register(&addresses, &vec![count; memory.len()])?;
    Ok(windows.into_iter().collect::<symmem::Result<_>>()?)
}

fn made(context: &Context, n_ranks: u32, config: &CommConfig) -> Result<(Rig, Vec<Device>)> {
    let machine = context.machine()?;
    let devices = machine.devices(n_ranks.min(machine.device_count()))?;
    Ok((Rig::on(&devices, config)?, devices))
}

fn stamp(rank: usize, base: f32) -> [f32; PART_COUNT] {
    std::array::from_fn(|n| base * (rank + 1) as f32 + n as f32)
}

fn sum_of_stamps(n_ranks: usize, base: f32) -> [f32; PART_COUNT] {
    std::array::from_fn(|n| (0..n_ranks).map(|rank| stamp(rank, base)[n]).sum())
}

/// The caller sees the result through its own mapping.
fn user_memory(context: &Context) -> Result<()> {
    let (mut rig, devices) = made(context, 3, &CommConfig::default())?;
    let memory = UserMemory::on_each(&devices, 1 << 20)?;
    let mut windows = windows_at(&rig, &memory, 0, PART_COUNT)?;
    for (rank, memory) in memory.iter().enumerate() {
        memory.write(0, bytemuck::bytes_of(&stamp(rank, 100.0)))?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut windows[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    let expected = sum_of_stamps(memory.len(), 100.0);
    for memory in &memory {
        ensure!(memory.read(0, PART_BYTES as usize)? == bytemuck::bytes_of(&expected));
    }
    for prepared in rig.prepare(&[symmem::Dtype::F32], &[Op::Max]) {
        prepared?;
    }
    // By the caller's own addresses as well.
    let addresses: Vec<u64> = memory.iter().map(UserMemory::address).collect();
    rig.each(|comm, stream| {
        let at = addresses[comm.rank() as usize];
        comm.all_reduce_at(at, at + 1024, 256, symmem::Dtype::F32, Op::Max, stream)
    })?;
    rig.synchronize()?;
    ensure!(memory[0].read(1024, 1024)? == memory[0].read(0, 1024)?);
    Ok(())
}

/// Two windows in one allocation: what goes through the second one leaves the first alone, by every algorithm.
fn windows_of_one_allocation(context: &Context) -> Result<()> {
    for algorithm in Algorithm::ALL {
        let config = CommConfig { algorithm: Some(*algorithm), ..CommConfig::default() };
        let (mut rig, devices) = made(context, 3, &config)?;
        let memory = UserMemory::on_each(&devices, 1 << 20)?;
        let first = windows_at(&rig, &memory, 0, PART_COUNT)?;
        let mut second = windows_at(&rig, &memory, PART_BYTES, PART_COUNT)?;
        let apart = second[0].flat_offset().bytes - first[0].flat_offset().bytes;
        ensure!(apart == PART_BYTES, "the windows share a mapping: {apart} bytes apart");
        for (rank, memory) in memory.iter().enumerate() {
            memory.write(0, bytemuck::bytes_of(&stamp(rank, 10.0)))?;
            memory.write(PART_BYTES, bytemuck::bytes_of(&stamp(rank, 1000.0)))?;
        }
        rig.each(|comm, stream| {
            comm.all_reduce_in_place(&mut second[comm.rank() as usize], Op::Sum, stream)
        })?;
        rig.synchronize()?;
        let sum = sum_of_stamps(memory.len(), 1000.0);
        ensure!(second.iter().all(|window| window.to_vec().is_ok_and(|found| found == sum)), "{algorithm}");
        // From the first window into the second one.
        let n_ranks = memory.len();
        rig.each(|comm, stream| {
            let rank = comm.rank() as usize;
            let output = second[rank].slice_mut(..n_ranks * SHARE_COUNT)?;
            comm.all_gather(first[rank].slice(5..5 + SHARE_COUNT)?, output, stream)
        })?;
        rig.synchronize()?;
        let gathered: Vec<f32> =
            (0..n_ranks).flat_map(|rank| stamp(rank, 10.0)[5..5 + SHARE_COUNT].to_vec()).collect();
        for (rank, memory) in memory.iter().enumerate() {
            ensure!(memory.read(0, PART_BYTES as usize)? == bytemuck::bytes_of(&stamp(rank, 10.0)));
            let found = second[rank].to_vec()?;
            ensure!(found[..gathered.len()] == gathered && found[gathered.len()..] == sum[gathered.len()..]);
        }
    }
    Ok(())
}

fn same_allocation_twice(context: &Context) -> Result<()> {
    let (rig, devices) = made(context, 2, &CommConfig::default())?;
    let memory = UserMemory::on_each(&devices, 1 << 20)?;
    let first = windows_at(&rig, &memory, 0, PART_COUNT)?;
    let mapped_once = context.live();
    let second = windows_at(&rig, &memory, 0, PART_COUNT)?;
    ensure!(first[1].flat_offset() == second[1].flat_offset(), "one allocation, one place");
    let mapped_twice = context.live();
    ensure!(mapped_once == mapped_twice, "{mapped_once:?} became {mapped_twice:?}");
    Ok(())
}

/// The allocation counts, not the address that the caller has it mapped at.
fn two_mappings_of_one_allocation(context: &Context) -> Result<()> {
    let (rig, devices) = made(context, 2, &CommConfig::default())?;
    let memory = UserMemory::on_each(&devices, 1 << 20)?;
    let again = devices.iter().zip(&memory).map(|(device, memory)| UserMemory::of(device, memory.physical()));
    let again = again.collect::<Result<Vec<_>>>()?;
    ensure!(again[0].address() != memory[0].address());
    let (first, second) =
        (windows_at(&rig, &memory, 0, PART_COUNT)?, windows_at(&rig, &again, PART_BYTES, PART_COUNT)?);
    ensure!(second[0].flat_offset().bytes - first[0].flat_offset().bytes == PART_BYTES);
    Ok(())
}

fn one_of_two_windows_dropped(context: &Context) -> Result<()> {
    let (mut rig, devices) = made(context, 2, &CommConfig::default())?;
    let memory = UserMemory::on_each(&devices, 1 << 20)?;
    let first = windows_at(&rig, &memory, 0, PART_COUNT)?;
    let mut second = windows_at(&rig, &memory, PART_BYTES, PART_COUNT)?;
    drop(first);
    // A registration in which the first one could be reclaimed.
    let other = rig.alloc::<f32>(PART_COUNT)?;
    ensure!(
        other[0].flat_offset().bytes >= second[0].flat_offset().bytes - PART_BYTES + memory[0].len_bytes()
    );
    for (rank, window) in second.iter_mut().enumerate() {
        window.write(0, &stamp(rank, 7.0))?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut second[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    let sum = sum_of_stamps(memory.len(), 7.0);
    ensure!(second.iter().all(|window| window.to_vec().is_ok_and(|found| found == sum)));
    // The caller's mapping may go before the window.
    drop(memory);
    ensure!(second[0].to_vec()? == sum);
    Ok(())
}

/// Registered and dropped again and again, the space is where it was.
fn offset_comes_back(context: &Context) -> Result<()> {
    let (rig, devices) = made(context, 2, &CommConfig::default())?;
    let memory = UserMemory::on_each(&devices, 1 << 20)?;
    let mut random = Random::new(40);
    let first = rig.alloc::<f32>(PART_COUNT)?[0].flat_offset();
    let before = context.live();
    for round in 0..context.rounds(200, 10_000) {
        let windows = match random.below(2) {
            0 => rig.alloc::<f32>(1 + random.below(1 << 20))?,
            _ => windows_at(&rig, &memory, PART_BYTES, PART_COUNT)?,
        };
        let start = windows[0].flat_offset().bytes & !(devices[0].granularity_bytes()? - 1);
        ensure!(start == first.bytes, "round {round}: the window is at {start:#x}, the first was at {first}");
    }
    drop(rig.alloc::<f32>(PART_COUNT)?);
    let after = context.live();
    ensure!(before == after, "{before:?} became {after:?}");
    Ok(())
}

/// One thread asks for several communicators, on each rank in another order, before it waits for any.
fn two_communicators_in_any_order(context: &Context) -> Result<()> {
    let (first, devices) = made(context, 2, &CommConfig::default())?;
    let second = Rig::on(&devices, &CommConfig::default())?;
    let ask = |comm: &Comm| comm.alloc::<f32>(PART_COUNT);
    let asked =
        [ask(&first.comms[0])?, ask(&second.comms[0])?, ask(&second.comms[1])?, ask(&first.comms[1])?];
    let windows = asked.map(|asked| asked.wait());
    ensure!(windows.iter().all(Result::is_ok), "{windows:?}");
    Ok(())
}

/// A communicator of some ranks does not disturb one of all.
fn subgroup_then_all(context: &Context) -> Result<()> {
    let (all, devices) = made(context, 3, &CommConfig::default())?;
    let some = Rig::on(&devices[..2], &CommConfig::default())?;
    for _ in 0..3 {
        some.alloc::<f32>(PART_COUNT)?;
    }
    for mut rig in [all, some] {
        let mut windows = rig.alloc::<f32>(PART_COUNT)?;
        for (rank, window) in windows.iter_mut().enumerate() {
            window.write(0, &stamp(rank, 3.0))?;
        }
        rig.each(|comm, stream| {
            comm.all_reduce_in_place(&mut windows[comm.rank() as usize], Op::Sum, stream)
        })?;
        rig.synchronize()?;
        let sum = sum_of_stamps(windows.len(), 3.0);
        ensure!(windows.iter().all(|window| window.to_vec().is_ok_and(|found| found == sum)));
    }
    Ok(())
}

/// A registration that nobody waits for is carried out and given back.
fn not_waited_for(context: &Context) -> Result<()> {
    let (rig, _) = made(context, 2, &CommConfig::default())?;
    let first = rig.alloc::<f32>(PART_COUNT)?[0].flat_offset();
    for comm in &rig.comms {
        drop(comm.alloc::<f32>(PART_COUNT)?);
    }
    // Tasks are done in order, so this one finds the place of the abandoned one either free or reclaimed next time.
    drop(rig.alloc::<f32>(PART_COUNT)?);
    ensure!(rig.alloc::<f32>(PART_COUNT)?[0].flat_offset() == first);
    Ok(())
}
