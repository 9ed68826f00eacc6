//! Windows that are deregistered, and when their memory goes.

use crate::expect::{error_of, expect, kind};
use crate::harness::{Case, Context};
use crate::random::Random;
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Result, ensure};
use symmem::{CommConfig, Device, Op, Window};

const COUNT: usize = 1000;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("deregistration::unmaps", 2, unmaps),
        Case::new("deregistration::again_and_again", 2, again_and_again),
        Case::new("deregistration::shared_memory", 2, shared_memory),
        Case::new("deregistration::another_handle_is_left", 2, another_handle_is_left),
        Case::new("deregistration::of_different_windows", 2, of_different_windows),
        Case::new("deregistration::a_rank_never_asks", 2, a_rank_never_asks),
        Case::new("deregistration::against_a_registration", 2, against_a_registration),
        Case::new("deregistration::of_a_foreign_window", 2, of_a_foreign_window),
        Case::new("deregistration::under_a_running_operation", 2, under_a_running_operation),
    ]
}

fn made(context: &Context) -> Result<(Rig, Vec<Device>)> {
    let machine = context.machine()?;
    let devices = machine.devices(machine.device_count().min(3))?;
    Ok((Rig::on(&devices, &CommConfig::default())?, devices))
}

/// Whether the memory went, as every rank says.
fn deregister(rig: &Rig, windows: Vec<Window<f32>>) -> Result<bool> {
    let asked = rig.comms.iter().zip(windows).map(|(comm, window)| comm.deregister(window));
    let asked = asked.collect::<symmem::Result<Vec<_>>>()?;
    let unmapped = asked.into_iter().map(symmem::Deregistration::wait).collect::<symmem::Result<Vec<_>>>()?;
    ensure!(unmapped.iter().all(|one| *one == unmapped[0]), "ranks disagree: {unmapped:?}");
    Ok(unmapped[0])
}

fn windows_at(rig: &Rig, memory: &[UserMemory], offset: u64) -> Result<Vec<Window<f32>>> {
    let addresses: Vec<u64> = memory.iter().map(|memory| memory.address() + offset).collect();
    let windows = rig.register(&addresses, &vec![COUNT; memory.len()])?;
    Ok(windows.into_iter().collect::<symmem::Result<_>>()?)
}

fn unmaps(context: &Context) -> Result<()> {
    let (rig, _) = made(context)?;
    let before = context.live();
    let windows = rig.alloc::<f32>(COUNT)?;
    let flat = windows[0].flat_offset();
    ensure!(context.live() != before || before.is_none());
    ensure!(deregister(&rig, windows)?);
    ensure!(context.live() == before, "{before:?} became {:?}", context.live());
    ensure!(rig.alloc::<f32>(COUNT)?[0].flat_offset() == flat, "the offset is free");
    Ok(())
}

/// Whatever is registered and deregistered, the space is where it was.
fn again_and_again(context: &Context) -> Result<()> {
    let (rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1 << 16)?;
    let mut random = Random::new(70);
    let before = (context.live(), rig.comms[0].describe());
    for round in 0..context.rounds(200, 10_000) {
        let windows = match random.below(2) {
            0 => rig.alloc::<f32>(1 + random.below(1 << 16))?,
            _ => windows_at(&rig, &memory, 16 * random.below(3000) as u64)?,
        };
        ensure!(deregister(&rig, windows)?, "round {round}: not unmapped");
        let after = (context.live(), rig.comms[0].describe());
        ensure!(after == before, "round {round}: {before:?} became {after:?}");
    }
    Ok(())
}

fn shared_memory(context: &Context) -> Result<()> {
    let (mut rig, devices) = made(context)?;
    let memory = UserMemory::on_each(&devices, 1 << 16)?;
    let (first, mut second) = (windows_at(&rig, &memory, 0)?, windows_at(&rig, &memory, 8192)?);
    ensure!(!deregister(&rig, first)?, "the second window is there");
    for window in &mut second {
        window.write(0, &[1.0; COUNT])?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut second[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    ensure!(second[0].to_vec()? == [memory.len() as f32; COUNT]);
    ensure!(deregister(&rig, second)?);
    Ok(())
}

/// One rank keeps a clone: nobody unmaps. When it has gone, the next step of all does.
fn another_handle_is_left(context: &Context) -> Result<()> {
    let (rig, _) = made(context)?;
    let before = context.live();
    let windows = rig.alloc::<f32>(COUNT)?;
    let kept = windows[1].clone();
    let flat = kept.flat_offset();
    ensure!(!deregister(&rig, windows)?);
    let others = rig.alloc::<f32>(COUNT)?;
    ensure!(others[0].flat_offset() != flat, "the offset is not free before all have unmapped");
    kept.to_vec()?;
    drop(kept);
    ensure!(deregister(&rig, others)?);
    ensure!(context.live() == before, "{before:?} became {:?}", context.live());
    Ok(())
}

/// All ranks get the same error; the windows are dropped, and the communicator goes on.
fn of_different_windows(context: &Context) -> Result<()> {
    let (rig, _) = made(context)?;
    let before = context.live();
    let (mut first, mut second) = (rig.alloc::<f32>(COUNT)?, rig.alloc::<f32>(COUNT)?);
    std::mem::swap(&mut first[0], &mut second[0]);
    let asked = rig.comms.iter().zip(first).map(|(comm, window)| comm.deregister(window));
    for asked in asked.collect::<symmem::Result<Vec<_>>>()? {
        expect(
            "different windows",
            asked.wait(),
            kind!(Mismatch),
            &["rank 0 deregistration of window 1", "rank 1 deregistration of window 0"],
        )?;
    }
    drop(second);
    ensure!(deregister(&rig, rig.alloc(COUNT)?)?);
    ensure!(context.live() == before, "{before:?} became {:?}", context.live());
    Ok(())
}

fn a_rank_never_asks(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let rig = Rig::with(&machine, 2, &CommConfig { host_timeout_ms: 300, ..CommConfig::default() })?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    let late = windows.pop();
    for window in windows {
        let asked = rig.comms[0].deregister(window)?;
        expect("a rank asks alone", asked.wait(), kind!(Deadline), &["[1]", "300 ms"])?;
    }
    drop(late);
    ensure!(deregister(&rig, rig.alloc(COUNT)?)?);
    Ok(())
}

fn against_a_registration(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let rig = Rig::new(&machine, 2)?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    let window = windows.remove(0);
    let (deregistered, registered) = (rig.comms[0].deregister(window)?, rig.comms[1].alloc::<f32>(1)?);
    let errors = [error_of("rank 0", deregistered.wait())?, error_of("rank 1", registered.wait())?];
    ensure!(errors[0].kind() == errors[1].kind(), "{errors:?}");
    expect(
        "steps",
        Err::<(), _>(errors[0].clone()),
        kind!(Mismatch),
        &["rank 0 deregistration of window 0", "rank 1 registration 1"],
    )?;
    rig.alloc::<f32>(1)?;
    Ok(())
}

fn of_a_foreign_window(context: &Context) -> Result<()> {
    let (rig, devices) = made(context)?;
    let other = Rig::on(&devices, &CommConfig::default())?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    let (second, first) = (windows.remove(1), windows.remove(0));
    expect("another communicator's", other.comms[0].deregister(first), kind!(Foreign), &["window"])?;
    expect("another rank's", rig.comms[0].deregister(second), kind!(Foreign), &["rank"])
}

/// The operation is waited for, by a worker that keeps no launch out.
fn under_a_running_operation(context: &Context) -> Result<()> {
    let (mut rig, _) = made(context)?;
    for algorithm_bytes in [64, 1 << 20] {
        let mut windows = rig.alloc::<f32>(algorithm_bytes / 4)?;
        for window in &mut windows {
            window.fill_bytes(0)?;
        }
        let streams = rig.streams.clone();
        let mut launch = |rank: usize, windows: &mut [Window<f32>]| {
            rig.comms[rank].all_reduce_in_place(&mut windows[rank], Op::Sum, &streams[rank])
        };
        // All but the last rank wait on their devices for the last one, and on the host for its deregistration.
        let last = windows.len() - 1;
        (0..last).try_for_each(|rank| launch(rank, &mut windows))?;
        let mut of_last = windows.split_off(last);
        let asked = rig.comms.iter().zip(windows).map(|(comm, window)| comm.deregister(window));
        let mut asked = asked.collect::<symmem::Result<Vec<_>>>()?;
        rig.comms[last].all_reduce_in_place(&mut of_last[0], Op::Sum, &streams[last])?;
        asked.extend(
            of_last
                .into_iter()
                .map(|window| rig.comms[last].deregister(window))
                .collect::<symmem::Result<Vec<_>>>()?,
        );
        for asked in asked {
            ensure!(asked.wait()?, "unmapped once the operation is done");
        }
        rig.synchronize()?;
    }
    Ok(())
}
