//! What capture allows and what it does not.

use crate::expect::{expect, kind};
use crate::harness::{Case, Context};
use crate::rig::{Rig, unchecked};
use anyhow::{Result, ensure};
use symmem::{Event, Op, Stream, Window};

const COUNT: usize = 500;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("capture_rules::two_streams_in_one_capture", 2, two_streams_in_one_capture),
        Case::new("capture_rules::stream_outside_after_eager_work", 1, stream_outside_after_eager_work),
        Case::new("capture_rules::stream_outside_during_capture", 1, stream_outside_during_capture),
        Case::new("capture_rules::no_registration_during_capture", 1, no_registration_during_capture),
        Case::new("capture_rules::no_registration_while_any_known_stream_is_captured", 1, known_streams),
        Case::new("capture_rules::no_registration_in_any_capture_of_the_thread", 1, unknown_stream),
        Case::new("capture_rules::failed_work_ends_the_capture", 1, failed_work_ends_the_capture),
    ]
}

fn fill(windows: &mut [Window<f32>]) -> Result<()> {
    for (rank, window) in windows.iter_mut().enumerate() {
        window.write(0, &[rank as f32 + 1.0; COUNT])?;
    }
    Ok(())
}

fn all_equal(windows: &[Window<f32>], value: f32) -> Result<()> {
    for (rank, window) in windows.iter().enumerate() {
        let found = window.to_vec()?;
        ensure!(found == [value; COUNT], "rank {rank}: {value} was expected, {:?} found", &found[..4]);
    }
    Ok(())
}

/// A fork: the communicator orders its operations inside the capture, the caller joins the streams.
fn two_streams_in_one_capture(context: &Context) -> Result<()> {
    let mut rig = Rig::with(&context.machine()?, 2, &unchecked())?;
    let forks =
        rig.comms.iter().map(|comm| Stream::new(comm.device())).collect::<symmem::Result<Vec<_>>>()?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let mut graphs = Vec::new();
    rig.each(|comm, stream| {
        let rank = comm.rank() as usize;
        let (fork, events) = (&forks[rank], [Event::new(comm.device())?, Event::new(comm.device())?]);
        let graph = stream.capture(|| {
            comm.all_reduce_in_place(&mut data[rank], Op::Sum, stream)?;
            events[0].record(stream)?;
            fork.wait_event(&events[0])?;
            comm.all_reduce_in_place(&mut data[rank], Op::Sum, fork)?;
            events[1].record(fork)?;
            stream.wait_event(&events[1])?;
            comm.all_reduce_in_place(&mut data[rank], Op::Sum, stream)
        })?;
        graphs.push((graph.instantiate()?, graph.facts()?));
        Ok(())
    })?;
    ensure!(graphs.iter().all(|(_, facts)| facts.n_kernel_nodes == 3), "{graphs:?}");
    for _ in 0..5 {
        fill(&mut data)?;
        rig.each(|comm, stream| graphs[comm.rank() as usize].0.launch(stream))?;
        rig.synchronize()?;
        all_equal(&data, 3.0 * 2.0 * 2.0)?;
    }
    Ok(())
}

/// The last eager operation went to a stream that is captured now: nothing outside can wait for it.
fn stream_outside_after_eager_work(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let outside = Stream::new(rig.comms[0].device())?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut data[0], Op::Sum, stream))?;
    rig.synchronize()?;
    let (comm, inside) = (&mut rig.comms[0], rig.streams[0].clone());
    let mut refused = Ok(());
    inside.capture(|| {
        comm.all_reduce_in_place(&mut data[0], Op::Sum, &inside)?;
        refused = comm.all_reduce_in_place(&mut data[0], Op::Sum, &outside);
        Ok(())
    })?;
    expect("an operation outside the capture", refused, kind!(Capture), &["captur"])?;
    comm.all_reduce_in_place(&mut data[0], Op::Sum, &outside)?;
    Ok(comm.synchronize(&outside)?)
}

/// The communicator's operation in flight is one that is being captured.
fn stream_outside_during_capture(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let outside = Stream::new(rig.comms[0].device())?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let (comm, inside) = (&mut rig.comms[0], rig.streams[0].clone());
    let mut refused = Ok(());
    inside.capture(|| {
        comm.all_reduce_in_place(&mut data[0], Op::Sum, &inside)?;
        refused = comm.all_reduce_in_place(&mut data[0], Op::Sum, &outside);
        Ok(())
    })?;
    expect("an operation outside the capture", refused, kind!(Capture), &["captur"])?;
    comm.all_reduce_in_place(&mut data[0], Op::Sum, &outside)?;
    Ok(comm.synchronize(&outside)?)
}

fn no_registration_during_capture(context: &Context) -> Result<()> {
    let mut rig = Rig::with(&context.machine()?, 1, &unchecked())?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    let (comm, stream) = (&mut rig.comms[0], rig.streams[0].clone());
    let (mut alloc, mut register) = (None, None);
    let address = data[0].address();
    let graph = stream.capture(|| {
        comm.all_reduce_in_place(&mut data[0], Op::Sum, &stream)?;
        alloc = Some(comm.alloc::<f32>(1));
        register = Some(comm.register::<f32>(address, 1));
        comm.all_reduce_in_place(&mut data[0], Op::Sum, &stream)
    })?;
    for refused in [alloc, register].into_iter().flatten() {
        expect("a registration in a capture", refused, kind!(Capture), &["window", "captur"])?;
    }
    ensure!(graph.facts()?.n_kernel_nodes == 2, "the capture itself goes on: {:?}", graph.facts()?);
    rig.alloc::<f32>(1)?;
    Ok(())
}

/// A stream that had an operation some time ago, and is captured now for something else.
fn known_streams(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    let (comm, first) = (&mut rig.comms[0], rig.streams[0].clone());
    let second = Stream::new(comm.device())?;
    for stream in [&first, &second] {
        comm.all_reduce_in_place(&mut windows[0], Op::Sum, stream)?;
    }
    comm.synchronize(&second)?;
    let (mut alloc, mut deregister) = (Ok(()), Ok(()));
    first.capture(|| {
        alloc = comm.alloc::<f32>(1).map(drop);
        deregister = comm.deregister(windows.remove(0)).map(drop);
        Ok(())
    })?;
    expect("a registration", alloc, kind!(Capture), &["registered", "captur"])?;
    expect("a deregistration", deregister, kind!(Capture), &["deregistered", "captur"])?;
    rig.alloc::<f32>(1)?;
    Ok(())
}

/// A stream that the communicator never had; one thread captures, another may register.
fn unknown_stream(context: &Context) -> Result<()> {
    let rig = Rig::new(&context.machine()?, 1)?;
    let (comm, stream) = (&rig.comms[0], Stream::new(rig.comms[0].device())?);
    let (mut refused, mut elsewhere) = (Ok(()), None);
    stream.capture(|| {
        refused = comm.alloc::<f32>(1).map(drop);
        elsewhere = std::thread::scope(|scope| scope.spawn(|| comm.alloc::<f32>(1)?.wait()).join().ok());
        Ok(())
    })?;
    expect("a registration", refused, kind!(Capture), &["registered", "captur"])?;
    ensure!(matches!(elsewhere, Some(Ok(_))), "{elsewhere:?}");
    rig.alloc::<f32>(1)?;
    Ok(())
}

fn failed_work_ends_the_capture(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let mut data = rig.alloc::<f32>(COUNT)?;
    fill(&mut data)?;
    let (comm, stream) = (&mut rig.comms[0], rig.streams[0].clone());
    let failed = stream.capture(|| {
        comm.all_reduce_in_place(&mut data[0], Op::Sum, &stream)?;
        comm.alloc::<f32>(1).map(drop)
    });
    expect("work that fails in a capture", failed, kind!(Capture), &["captur"])?;
    comm.all_reduce_in_place(&mut data[0], Op::Sum, &stream)?;
    comm.synchronize(&stream)?;
    all_equal(&data, 1.0)
}
