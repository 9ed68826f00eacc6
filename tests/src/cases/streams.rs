//! One operation in flight: the communicator orders its operations whatever streams they are put into.

use crate::chain::{self, COUNT, op};
use crate::harness::{Case, Context};
use crate::random::Random;
use crate::rig::{Rig, every_op, kinds};
use anyhow::Result;
use symmem::{Algorithm, Collective, Comm, CommConfig, Op, Stream, Window};

pub(super) fn cases() -> Vec<Case> {
    let algorithms = kinds().into_iter().filter(|kind| kind.0 == Collective::AllReduce).map(|kind| kind.1);
    let alternating = algorithms.clone().map(|algorithm| {
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
    let n_ranks = machine.ranks_max().min(3);
    Rig::with(&machine, n_ranks, &CommConfig { algorithm: Some(algorithm), ..every_op() })
}

/// In place, one after the other, every time on another stream, and no rank waits before the end.
fn alternating(context: &Context, algorithm: Algorithm) -> Result<()> {
    let mut rig = rig_for(context, algorithm)?;
    let others =
        rig.comms.iter().map(|comm| Stream::new(comm.device())).collect::<symmem::Result<Vec<_>>>()?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let rounds = context.rounds(30, 1000);
    let expected = chain::stage(&mut data, rounds)?;
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
    chain::verify(&data, &expected)
}

/// A thread for each rank, at its own pace.
fn alternating_on_threads(context: &Context, algorithm: Algorithm) -> Result<()> {
    let mut rig = rig_for(context, algorithm)?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let rounds = context.rounds(20, 1000);
    let expected = chain::stage(&mut data, rounds)?;
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
    chain::verify(&data, &expected)
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
    let expected = chain::stage(&mut data, rounds)?;
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
    chain::verify(&data, &expected)
}
