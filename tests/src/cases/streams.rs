//! One operation in flight: the communicator orders its operations whatever streams they are put into.

use crate::harness::{Case, Context};
use crate::random::{Random, Values};
use crate::reference;
use crate::rig::Rig;
use anyhow::{Result, ensure};
use symmem::{Algorithm, Comm, CommConfig, Dtype, Op, Stream, Window};

const COUNT: usize = 700;

pub(super) fn cases() -> Vec<Case> {
    let algorithms = [Algorithm::Ll, Algorithm::TwoShotLdSt];
    let alternating = algorithms.map(|algorithm| {
        let name = format!("streams::alternating_{algorithm}");
        Case::new(name, 2, move |context| alternating(context, algorithm))
    });
    let threads = algorithms.map(|algorithm| {
        let name = format!("streams::alternating_on_threads_{algorithm}");
        Case::new(name, 2, move |context| alternating_on_threads(context, algorithm))
    });
    let mut cases = vec![Case::new("streams::dropped_after_use", 2, dropped_after_use)];
    cases.extend(alternating);
    cases.extend(threads);
    cases
}

fn rig_for(context: &Context, algorithm: Algorithm) -> Result<Rig> {
    let machine = context.machine()?;
    let n_ranks = machine.backend().device_count().min(3);
    Rig::with(&machine, n_ranks, &CommConfig { algorithm: Some(algorithm), ..CommConfig::default() })
}

/// Random inputs in the windows, and what `rounds` averages make of them: each takes the last one's result.
fn stage(windows: &mut [Window<f32>], rounds: usize) -> Result<Vec<f32>> {
    let mut random = Random::new(30);
    let mut values: Vec<Vec<u8>> =
        windows.iter().map(|_| random.elements(Dtype::F32, Values::Plain, COUNT)).collect();
    for (window, bytes) in windows.iter_mut().zip(&values) {
        window.write(0, &bytemuck::pod_collect_to_vec(bytes))?;
    }
    for round in 0..rounds {
        let result = reference::all_reduce(Dtype::F32, op(round), &values);
        values = vec![result; values.len()];
    }
    Ok(bytemuck::pod_collect_to_vec(&values[0]))
}

/// A sum and then an average, so that the values stay in range and no two operations commute.
fn op(round: usize) -> Op {
    [Op::Sum, Op::Avg, Op::Avg, Op::Prod, Op::Min][round % 5]
}

fn verify(windows: &[Window<f32>], expected: &[f32]) -> Result<()> {
    for (rank, window) in windows.iter().enumerate() {
        let found = window.to_vec()?;
        let wrong = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
        ensure!(wrong.is_none(), "rank {rank}: element {wrong:?} is wrong");
    }
    Ok(())
}

/// In place, one after the other, every time on another stream, and no rank waits before the end.
fn alternating(context: &Context, algorithm: Algorithm) -> Result<()> {
    let mut rig = rig_for(context, algorithm)?;
    let others =
        rig.comms.iter().map(|comm| Stream::new(comm.device())).collect::<symmem::Result<Vec<_>>>()?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let rounds = context.rounds(30, 1000);
    let expected = stage(&mut data, rounds)?;
    for round in 0..rounds {
        rig.each(|comm, stream| {
            let rank = comm.rank() as usize;
            let stream = if round % 2 == 0 { stream } else { &others[rank] };
            comm.all_reduce_in_place(&mut data[rank], op(round), stream)
        })?;
    }
    for (comm, other) in rig.comms.iter_mut().zip(&others) {
        comm.synchronize(other)?;
    }
    rig.synchronize()?;
    verify(&data, &expected)
}

/// A thread for each rank, at its own pace.
fn alternating_on_threads(context: &Context, algorithm: Algorithm) -> Result<()> {
    let mut rig = rig_for(context, algorithm)?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let rounds = context.rounds(20, 1000);
    let expected = stage(&mut data, rounds)?;
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = rig
            .comms
            .iter_mut()
            .zip(&mut data)
            .map(|(comm, window)| scope.spawn(move || drive(comm, window, rounds)))
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a rank's thread panicked"))??;
        }
        Ok(())
    })?;
    verify(&data, &expected)
}

fn drive(comm: &mut Comm, window: &mut Window<f32>, rounds: usize) -> symmem::Result<()> {
    let streams = [Stream::new(comm.device())?, Stream::new(comm.device())?];
    let mut random = Random::new(comm.rank().into());
    for round in 0..rounds {
        for _ in 0..random.below(4) {
            std::thread::yield_now();
        }
        comm.all_reduce_in_place(&mut *window, op(round), &streams[round % 2])?;
    }
    streams.iter().try_for_each(|stream| comm.synchronize(stream))
}

/// The communicator still waits for work on a stream that the caller has let go.
fn dropped_after_use(context: &Context) -> Result<()> {
    let mut rig = rig_for(context, Algorithm::Ll)?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let rounds = 12;
    let expected = stage(&mut data, rounds)?;
    for round in 0..rounds {
        rig.each(|comm, _| {
            let passing = Stream::new(comm.device())?;
            comm.all_reduce_in_place(&mut data[comm.rank() as usize], op(round), &passing)
        })?;
    }
    // The last operation is waited for through a stream of ours: it is ordered behind all others.
    let mut last = rig.alloc::<f32>(1)?;
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut last[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    verify(&data, &expected)
}
