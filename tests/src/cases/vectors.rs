//! Vectors that grow in device memory, and the memory management under them, on whatever machine there is.

use crate::harness::{Case, Context};
use crate::random::Random;
use crate::seam::seam;
use crate::user_memory::UserMemory;
use anyhow::{Result, ensure};
use std::os::fd::AsFd;
use std::sync::Arc;
use symmem::backend::Access;
use symmem::vmm::{
    CopyVec, DeviceVec, FabricSupport, Growth, PhysicalAllocation, Placed, Reservation, VmmVec,
    fabric_support,
};
use symmem::{Device, ErrorKind};

/// Elements of 8 bytes that fill a granule.
const PER_GRANULE: usize = (2 << 20) / 8;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("vectors::mapped_against_a_vector_of_the_host", 1, |context| {
            against_the_host(context, VmmVec::<u64>::new)
        }),
        Case::new("vectors::copied_against_a_vector_of_the_host", 1, |context| {
            against_the_host(context, |device| Ok(CopyVec::<u64>::new(device)))
        }),
        Case::new("vectors::moves_when_the_next_addresses_are_taken", 1, moves_when_blocked),
        Case::new("vectors::stays_where_it_was_reserved", 1, stays_where_reserved),
        Case::new("vectors::rights_of_a_peer_come_and_go", 2, rights_come_and_go),
        Case::new("vmm::fabric_handles_work_or_the_reason_is_told", 1, fabric),
        Case::new("vmm::descriptors_can_be_closed_after_the_import", 1, descriptors),
        Case::new("vmm::granularities_are_powers_of_two", 1, granularities),
    ]
}

fn values(seed: u64, count: usize) -> Vec<u64> {
    (0..count as u64).map(|n| n ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
}

fn against_the_host<V: DeviceVec<u64>>(
    context: &Context,
    make: impl Fn(&Device) -> symmem::Result<V>,
) -> Result<()> {
    let device = context.machine()?.device(0)?;
    for seed in 0..context.rounds(3, 20) as u64 {
        let mut random = Random::new(seed);
        let (mut vector, mut model) = (make(&device)?, Vec::new());
        for round in 0..12 {
            let count = random.below(3 * PER_GRANULE);
            match random.below(4) {
                0 => {
                    let (before, growth) = (vector.address(), vector.grow(count)?);
                    let has_moved = before.is_some() && vector.address() != before;
                    ensure!(has_moved == (growth == Growth::Moved), "seed {seed}: {growth:?}");
                }
                1 => {
                    vector.resize(count)?;
                    model.resize(count, 0);
                }
                2 => {
                    let source = values(round, count / 4);
                    vector.extend_from_slice(&source)?;
                    model.extend(source);
                }
                _ => {
                    let first = random.below(model.len() + 1);
                    let source = values(round, random.below(model.len() - first + 1));
                    vector.write(first, &source)?;
                    model[first..first + source.len()].copy_from_slice(&source);
                }
            }
            ensure!(vector.to_vec()? == model, "seed {seed}, round {round}: the elements differ");
        }
    }
    Ok(())
}

fn moves_when_blocked(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let device = machine.device(0)?;
    let granularity_bytes = device.granularity_bytes()?;
    let mut vector = VmmVec::<u64>::new(&device)?;
    vector.extend_from_slice(&values(1, 1000))?;
    for round in 2..6 {
        let start = vector.address().unwrap_or(0);
        let end = start + (vector.reserved() * 8) as u64;
        let blocker = Reservation::with_hint(&machine, granularity_bytes, granularity_bytes, end)?;
        // Where the blocker did not get its place either something has it, or the machine ignores hints.
        let is_blocked = matches!(blocker, Placed::AtHint(_));
        let growth = vector.grow(vector.capacity() + 1)?;
        ensure!(growth == Growth::Moved || !is_blocked, "{growth:?} over a blocker");
        vector.extend_from_slice(&values(round, 1000))?;
    }
    let expected: Vec<u64> = (1..6).flat_map(|round| values(round, 1000)).collect();
    ensure!(vector.to_vec()? == expected);
    Ok(())
}

fn stays_where_reserved(context: &Context) -> Result<()> {
    let device = context.machine()?.device(0)?;
    let mut vector = VmmVec::<u64>::with_reserved(&device, 16 * PER_GRANULE)?;
    let address = vector.address();
    for n in 1..16 {
        ensure!(vector.grow(n * PER_GRANULE)? != Growth::Moved && vector.address() == address);
        vector.resize(n * PER_GRANULE)?;
        let last = vector.len() - 1;
        vector.write(last, &[n as u64])?;
    }
    let found = vector.to_vec()?;
    ensure!((1..16).all(|n| found[n * PER_GRANULE - 1] == n as u64));
    let error = vector.grow(usize::MAX).map(|_| ()).expect_err("no machine has so much");
    ensure!(matches!(error.kind(), ErrorKind::SizeOverflow { .. }), "{error}");
    Ok(())
}

/// Rights are given, taken away and given again; the memory is the same throughout, for its own device too.
fn rights_come_and_go(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let mut vector = VmmVec::<u64>::new(&machine.device(0)?)?;
    vector.extend_from_slice(&values(1, 100))?;
    let address = vector.address().expect("it has elements");
    for access in [Access::ReadWrite, Access::None, Access::Read, Access::ReadWrite] {
        vector.set_access(1, access)?;
        ensure!(vector.access(1) == access);
        if access != Access::None {
            let mut found = [0; 8];
            seam(&machine).read(1, address + 8, &mut found)?;
            ensure!(u64::from_le_bytes(found) == values(1, 2)[1], "{access:?}");
        }
        ensure!(vector.to_vec()? == values(1, 100), "{access:?}");
    }
    Ok(())
}

fn fabric(context: &Context) -> Result<()> {
    let device = context.machine()?.device(0)?;
    match fabric_support(&device) {
        FabricSupport::Yes => ensure!(!context.is_sim(), "the simulated machine is one host"),
        FabricSupport::No { reason } => ensure!(reason.contains("fabric"), "{reason}"),
    }
    Ok(())
}

/// An import outlives the descriptor that it came by, on both sides.
fn descriptors(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let device = machine.device(0)?;
    let made = Arc::new(PhysicalAllocation::new(&device, 6 << 20)?);
    let original = UserMemory::of(&device, &made)?;
    original.write(0, &[0; 8])?;
    for _ in 0..64 {
        let fd = made.export()?;
        let imported = Arc::new(PhysicalAllocation::import(&machine, fd.as_fd(), made.len_bytes())?);
        drop(fd);
        let memory = UserMemory::of(&device, &imported)?;
        let first = memory.read(0, 8)?;
        memory.write(0, &(u64::from_le_bytes(first.try_into().expect("8 bytes")) + 1).to_le_bytes())?;
    }
    let start = u64::from_le_bytes(original.read(0, 8)?.try_into().expect("8 bytes"));
    ensure!(start == 64, "{start} writes of 64 arrived");
    Ok(())
}

fn granularities(context: &Context) -> Result<()> {
    let granularity = context.machine()?.device(0)?.granularity()?;
    let (least, best) = (granularity.minimum_bytes, granularity.recommended_bytes);
    ensure!(least.is_power_of_two() && best.is_power_of_two() && best >= least, "{granularity:?}");
    Ok(())
}
