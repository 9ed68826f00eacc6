//! All-gather by copy engines: the copy to a rank's own output goes beside those to its peers, in a stream of its own.

use crate::harness::{Case, Context};
use crate::rig::{Captured, Rig, replay, unchecked};
use anyhow::{Result, ensure};
use symmem::{Algorithm, Comm, CommConfig, GraphExec, Op, Stream, Window};

const COUNT: usize = 300;
const N_RANKS: usize = 2;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("copies::before_their_input_is_written", N_RANKS as u32, before_their_input_is_written),
        Case::new("copies::captures_at_once", N_RANKS as u32, captures_at_once),
        Case::new("copies::communicator_ends_in_a_capture", N_RANKS as u32, ends_in_a_capture),
    ]
}

fn config() -> CommConfig {
    CommConfig { algorithm: Some(Algorithm::Ce), ..unchecked() }
}

fn gathered(output: &Window<f32>, values: [f32; N_RANKS]) -> Result<()> {
    let (expected, found) = (values.map(|value| [value; COUNT]).concat(), output.to_vec()?);
    ensure!(
        found == expected,
        "{values:?} were expected, {:?} … {:?} found",
        &found[..4],
        &found[COUNT..][..4]
    );
    Ok(())
}

/// What comes next in the stream is behind all copies: eager, and in a graph.
fn before_their_input_is_written(context: &Context) -> Result<()> {
    let mut rig = Rig::with(&context.machine()?, N_RANKS as u32, &config())?;
    let (mut input, mut output) = (rig.alloc(COUNT)?, rig.alloc(COUNT * N_RANKS)?);
    let mut value = 1.0;
    for turn in 0..6 {
        for (rank, input) in input.iter_mut().enumerate() {
            input.write(0, &[value + rank as f32; COUNT])?;
        }
        rig.each(|comm, stream| {
            let rank = comm.rank() as usize;
            let mut work = || {
                comm.all_gather(&input[rank], &mut output[rank], stream)?;
                comm.all_reduce_in_place(&mut input[rank], Op::Sum, stream)
            };
            if turn % 2 == 0 { work() } else { stream.capture(work)?.instantiate()?.launch(stream) }
        })?;
        rig.synchronize()?;
        output.iter().try_for_each(|output| gathered(output, [value, value + 1.0]))?;
        value += 10.0;
    }
    Ok(())
}

/// One communicator in two captures: neither may draw the other's work in.
fn captures_at_once(context: &Context) -> Result<()> {
    let mut rig = Rig::with(&context.machine()?, N_RANKS as u32, &config())?;
    let others =
        rig.comms.iter().map(|comm| Stream::new(comm.device())).collect::<symmem::Result<Vec<_>>>()?;
    let mut input = rig.alloc(COUNT)?;
    let (mut first, mut second) = (rig.alloc(COUNT * N_RANKS)?, rig.alloc(COUNT * N_RANKS)?);
    let mut graphs: [Vec<GraphExec>; 2] = Default::default();
    rig.each(|comm, stream| {
        let rank = comm.rank() as usize;
        let mut inner = None;
        let outer = stream.capture(|| {
            comm.all_gather(&input[rank], &mut first[rank], stream)?;
            let other = &others[rank];
            inner = Some(other.capture(|| comm.all_gather(&input[rank], &mut second[rank], other))?);
            comm.all_gather(&input[rank], &mut first[rank], stream)
        })?;
        graphs[0].push(outer.instantiate()?);
        graphs[1].extend(inner.map(|inner| inner.instantiate()).transpose()?);
        Ok(())
    })?;
    for turn in 0..4 {
        let value = turn as f32 * 10.0;
        for (rank, input) in input.iter_mut().enumerate() {
            input.write(0, &[value + rank as f32; COUNT])?;
        }
        let (graphs, outputs) = (&graphs[turn % 2], [&first, &second][turn % 2]);
        rig.each(|comm, stream| graphs[comm.rank() as usize].launch(stream))?;
        rig.synchronize()?;
        outputs.iter().try_for_each(|output| gathered(output, [value, value + 1.0]))?;
    }
    Ok(())
}

/// The capture goes on, and the graph can be launched.
fn ends_in_a_capture(context: &Context) -> Result<()> {
    let (machine, id) = (context.machine()?, symmem::UniqueId::new()?);
    let captured = |rank: u32| -> Result<Captured> {
        let device = machine.device(rank)?;
        let mut comm = Comm::init_rank_with(&device, N_RANKS as u32, rank, &id, &config())?;
        let (mut input, mut output) =
            (comm.alloc::<f32>(COUNT)?.wait()?, comm.alloc::<f32>(COUNT * N_RANKS)?.wait()?);
        input.write(0, &[1.0 + rank as f32; COUNT])?;
        let stream = Stream::new(&device)?;
        let graph = stream.capture(|| {
            comm.all_gather(&input, &mut output, &stream)?;
            drop(comm);
            Ok(())
        })?;
        Ok((graph.instantiate()?, output, stream))
    };
    replay(N_RANKS as u32, captured)?.iter().try_for_each(|output| gathered(output, [1.0, 2.0]))
}
