//! Many communicators and many windows, driven by one thread.

use crate::expect::{expect, kind};
use crate::harness::{Case, Context};
use crate::random::Random;
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Result, ensure};
use symmem::{CommConfig, Device, ErrorKind, Op, Registration, Window};

const COUNT: usize = 400;

/// A communicator and a rank of it.
type Place = (usize, usize);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("groups::three_communicators_in_any_order", 2, three_communicators_in_any_order),
        Case::new("groups::each_has_its_result", 2, each_has_its_result),
        Case::new("groups::all_or_nothing_is_asked", 2, all_or_nothing_is_asked),
        Case::new("groups::registered_and_deregistered", 2, registered_and_deregistered),
        Case::new("groups::many_threads", 2, many_threads),
    ]
}

/// Communicators over all devices, over some of them, and over all in another order.
fn rigs(context: &Context) -> Result<Vec<Rig>> {
    let machine = context.machine()?;
    let devices = machine.devices(machine.device_count().min(4))?;
    let some: Vec<Device> = devices[..devices.len().div_ceil(2).max(2)].to_vec();
    let turned: Vec<Device> = devices.iter().rev().cloned().collect();
    [devices, some, turned].iter().map(|devices| Rig::on(devices, &CommConfig::default())).collect()
}

fn sums(rig: &mut Rig, windows: &mut [Window<f32>]) -> Result<()> {
    for (rank, window) in windows.iter_mut().enumerate() {
        window.write(0, &vec![rank as f32 + 1.0; window.len()])?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut windows[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    let sum = (1..=windows.len()).map(|one| one as f32).sum::<f32>();
    ensure!(
        windows
            .iter()
            .all(|window| window.to_vec().is_ok_and(|found| found.iter().all(|value| *value == sum)))
    );
    Ok(())
}

/// In each rank's order of communicators of its own.
fn three_communicators_in_any_order(context: &Context) -> Result<()> {
    let mut rigs = rigs(context)?;
    let mut random = Random::new(80);
    for _ in 0..context.rounds(5, 100) {
        let mut places: Vec<Place> = rigs
            .iter()
            .enumerate()
            .flat_map(|(n, rig)| (0..rig.comms.len()).map(move |rank| (n, rank)))
            .collect();
        random.shuffle(&mut places);
        let mut asked: Vec<(Place, [Registration<f32>; 2])> = symmem::group(|group| {
            let ask = |&(n, rank): &Place| {
                let comm = &rigs[n].comms[rank];
                Ok(((n, rank), [group.alloc(comm, COUNT)?, group.alloc(comm, 1)?]))
            };
            places.iter().map(ask).collect()
        })?;
        ensure!(
            asked.iter().all(|(_, two)| two.iter().all(Registration::is_done)),
            "the group waits for all"
        );
        asked.sort_by_key(|(place, _)| *place);
        let mut asked = asked.into_iter();
        for rig in &mut rigs {
            let windows = asked.by_ref().take(rig.comms.len()).map(|(_, [first, _])| first.wait());
            let mut windows = windows.collect::<symmem::Result<Vec<_>>>()?;
            sums(rig, &mut windows)?;
        }
    }
    Ok(())
}

fn each_has_its_result(context: &Context) -> Result<()> {
    let rigs = rigs(context)?;
    let asked: Vec<_> = symmem::group(|group| {
        let ranks = rigs.iter().flat_map(|rig| &rig.comms);
        // Rank 1 of each communicator asks for more in the second registration.
        ranks
            .map(|comm| {
                let more = usize::from(comm.rank() == 1);
                Ok([
                    group.alloc::<f32>(comm, COUNT)?,
                    group.alloc(comm, COUNT + more)?,
                    group.register(comm, 0x10_0000, COUNT)?,
                    group.alloc(comm, 2)?,
                ])
            })
            .collect()
    })?;
    for [good, mismatch, unmapped, last] in asked {
        good.wait()?;
        expect("sizes differ", mismatch.wait(), kind!(Mismatch), &["size", "rank 1 1604"])?;
        let is = |kind: &ErrorKind| matches!(kind, ErrorKind::RankFailed { rank: 0, .. });
        expect("not mapped", unmapped.wait(), is, &["0x100000"])?;
        last.wait()?;
    }
    Ok(())
}

/// What a group could not fill in whole, no rank waits for.
fn all_or_nothing_is_asked(context: &Context) -> Result<()> {
    let rig =
        Rig::with(&context.machine()?, 2, &CommConfig { host_timeout_ms: 2000, ..CommConfig::default() })?;
    let before = context.live();
    let refused = symmem::group(|group| {
        let first = group.alloc::<f32>(&rig.comms[0], COUNT)?;
        let second = group.alloc::<f32>(&rig.comms[1], 0)?;
        Ok([first, second])
    });
    expect("a group with a bad part", refused, kind!(InvalidArgument), &["size of a window"])?;
    // Had rank 0 been asked alone, this would meet that registration and fail.
    rig.alloc::<f32>(7)?;
    drop(rig.alloc::<f32>(7)?);
    let kept = before.map(|live| live.mappings + 2);
    ensure!(context.live().map(|live| live.mappings) <= kept, "nothing is left of the group");
    Ok(())
}

fn registered_and_deregistered(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let devices: Vec<Device> = rig.comms.iter().map(|comm| comm.device().clone()).collect();
    let memory = UserMemory::on_each(&devices, 1 << 16)?;
    let old = rig.alloc::<f32>(COUNT)?;
    let asked: Vec<_> = symmem::group(|group| {
        let each = rig.comms.iter().zip(old).zip(&memory);
        each.map(|((comm, old), memory)| {
            Ok((group.deregister(comm, old)?, group.register::<f32>(comm, memory.address(), COUNT)?))
        })
        .collect()
    })?;
    let mut windows = Vec::new();
    for (deregistered, registered) in asked {
        ensure!(deregistered.is_done() && deregistered.wait()?);
        windows.push(registered.wait()?);
    }
    sums(&mut rig, &mut windows)
}

/// A thread a communicator, each registering in its own order, while the others do.
fn many_threads(context: &Context) -> Result<()> {
    let mut rigs = rigs(context)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = rigs
            .iter_mut()
            .map(|rig| {
                scope.spawn(move || -> Result<()> {
                    for round in 1..10 {
                        let asked: Vec<_> = symmem::group(|group| {
                            rig.comms.iter().map(|comm| group.alloc::<f32>(comm, round * COUNT)).collect()
                        })?;
                        asked.into_iter().map(Registration::wait).collect::<symmem::Result<Vec<_>>>()?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    rigs.iter_mut().try_for_each(|rig| {
        let mut windows = rig.alloc::<f32>(COUNT)?;
        sums(rig, &mut windows)
    })
}
