//! Bad input: each a typed error whose text says what was asked, what was found and what to do; nothing left behind.

use crate::expect::{expect, kind};
use crate::harness::{Case, Context, RunsOn};
use crate::rig::{Rig, unchecked};
use crate::seam::seam;
use anyhow::{Result, ensure};
use symmem::{Comm, CommConfig, Dtype, ErrorKind, Event, Machine, Op, Stream, Window};

const COUNT: usize = 256;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("bad_input::device_counts", 1, device_counts),
        Case::new("bad_input::device_twice", 1, device_twice),
        Case::new("bad_input::machines_mixed", 1, machines_mixed),
        Case::new("bad_input::no_peer_access", 2, no_peer_access).runs_on(RunsOn::Sim),
        Case::new("bad_input::driver_too_old", 1, driver_too_old).runs_on(RunsOn::Sim),
        Case::new("bad_input::device_too_old", 1, device_too_old).runs_on(RunsOn::Sim),
        Case::new("bad_input::no_driver", 0, no_driver).runs_on(RunsOn::HostWithoutGpu),
        Case::new("bad_input::sizes_that_overflow", 1, sizes_that_overflow),
        Case::new("bad_input::windows_too_small", 1, windows_too_small),
        Case::new("bad_input::addresses_outside_windows", 1, addresses_outside_windows),
        Case::new("bad_input::misaligned_addresses", 1, misaligned_addresses),
        Case::new("bad_input::partial_overlap", 1, partial_overlap),
        Case::new("bad_input::all_to_all_in_place", 2, all_to_all_in_place),
        Case::new("bad_input::root_that_is_no_rank", 2, root_that_is_no_rank),
        Case::new("bad_input::count_of_0_does_nothing", 2, count_of_0),
        Case::new("bad_input::all_gather_in_place_of_no_multiple", 2, no_multiple),
        Case::new("bad_input::foreign_windows_and_streams", 2, foreign),
        Case::new("bad_input::foreign_machines", 1, foreign_machines),
        Case::new("bad_input::damaged_ptx", 1, damaged_ptx),
    ]
}

fn device_counts(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let found = machine.device_count();
    let there = found.to_string();
    let is = |asked| move |kind: &ErrorKind| *kind == ErrorKind::DeviceCount { asked, found };
    expect("0 devices", machine.devices(0), is(0), &["0 devices", "at least 1"])?;
    expect("too many", machine.devices(found + 1), is(found + 1), &[&(found + 1).to_string(), &there])?;
    expect("an empty list", Comm::init_all(&[]), kind!(DeviceCount), &["0 devices", "at least 1"])?;
    let no_such = machine.device(found + 7);
    expect("a device", no_such, kind!(NoSuchDevice), &[&(found + 7).to_string(), &there, "from 0"])
}

fn device_twice(context: &Context) -> Result<()> {
    let device = context.machine()?.device(0)?;
    let twice = Comm::init_all(&[device.clone(), device]);
    expect("a device twice", twice, kind!(InvalidArgument), &["list of devices", "0 twice", "once"])
}

fn machines_mixed(context: &Context) -> Result<()> {
    let devices = [context.machine()?.device(0)?, context.machine()?.device(0)?];
    expect("two machines", Comm::init_all(&devices), kind!(Foreign), &["device 0", "one machine"])
}

fn no_peer_access(context: &Context) -> Result<()> {
    let machine = context.machine_with(|sim| {
        sim.n_devices = 3;
        // Device 1 cannot reach device 2.
        sim.peer_access = Some((0..9).map(|at| at != 3 + 2).collect());
    })?;
    let made = Comm::init_all(&machine.devices(3)?);
    let is = |kind: &ErrorKind| *kind == ErrorKind::NoPeerAccess { device: 1, peer: 2 };
    expect("no peer access", made, is, &["device 1", "device 2", "P2P"])?;
    Rig::new(&machine, 2).map(drop)
}

fn driver_too_old(context: &Context) -> Result<()> {
    let (old, ptx) = (
        (11, 3),
        symmem::kernels_ptx::MODULES.iter().find(|module| module.sm == 90).map(|module| module.version),
    );
    let machine = context.machine_with(|sim| sim.driver_version = old)?;
    let Some((major, minor)) = ptx else { anyhow::bail!("this build has no PTX for sm_90") };
    let needed = symmem::ptx_version::first_cuda((major, minor));
    let words = ["11.3".into(), format!("PTX {major}.{minor}"), format!("{}.{}", needed.0, needed.1)];
    let made = Comm::init_all(&machine.devices(2)?);
    expect("an old driver", made, kind!(RankFailed), &words.each_ref().map(String::as_str))
}

fn device_too_old(context: &Context) -> Result<()> {
    let machine = context.machine_with(|sim| sim.sm = 75)?;
    let made = Comm::init_all(&machine.devices(1)?);
    expect("an old device", made, kind!(RankFailed), &["7.5", "8.0"])
}

fn no_driver(_: &Context) -> Result<()> {
    expect("no GPU", Machine::cuda(), kind!(NoDriver), &["CUDA driver", "simulated machine"])
}

fn sizes_that_overflow(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let window = rig.alloc::<f32>(COUNT)?;
    let (comm, stream, at) = (&mut rig.comms[0], &rig.streams[0], window[0].address());
    let many = usize::MAX.to_string();
    expect("elements", comm.alloc::<f32>(usize::MAX), kind!(SizeOverflow), &[&many, "4 bytes"])?;
    expect("nothing", comm.alloc::<f32>(0), kind!(InvalidArgument), &["size of a window", "0 bytes", "1"])?;
    expect("bytes", comm.alloc::<u8>(usize::MAX)?.wait(), kind!(RankFailed), &[&many])?;
    let count = u64::MAX / 2;
    let refused = comm.all_reduce_at(at, at, count, Dtype::F32, Op::Sum, stream);
    expect("an all-reduce", refused, kind!(SizeOverflow), &[&count.to_string(), "f32"])?;
    let refused = comm.all_gather_at(at, at, u64::MAX, Dtype::F16, stream);
    expect("an all-gather", refused, kind!(SizeOverflow), &[&u64::MAX.to_string(), "f16"])?;
    let stride_bytes = Some(u64::MAX / 2);
    let machine = comm.device().machine().clone();
    let made =
        Comm::init_all_with(&machine.devices(1)?, &CommConfig { stride_bytes, ..CommConfig::default() });
    ensure!(made.is_err(), "a space of {stride_bytes:?} bytes a rank was made");
    Ok(())
}

fn windows_too_small(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let (input, mut output) = (rig.alloc::<f32>(COUNT)?.remove(0), rig.alloc::<f32>(COUNT - 1)?.remove(0));
    let (comm, stream) = (&mut rig.comms[0], &rig.streams[0]);
    let refused = comm.all_reduce(&input, &mut output, Op::Sum, stream);
    expect("an output", refused, kind!(WindowTooSmall), &["output", "1024 bytes", "1020"])?;
    let refused = comm.all_gather(&input, output.slice_mut(10..)?, stream);
    expect("a slice", refused, kind!(WindowTooSmall), &["output", "1024 bytes", "980"])?;
    expect("a range", output.slice(200..256), kind!(WindowTooSmall), &["range", "1024 bytes", "1020"])?;
    expect("a range", output.slice(std::ops::Range { start: 9, end: 3 }), kind!(WindowTooSmall), &["range"])?;
    expect("a write", output.write(254, &[0.0; 2]), kind!(WindowTooSmall), &["1024 bytes", "1020"])?;
    expect("a read", output.read(usize::MAX, &mut [0.0; 2]), kind!(WindowTooSmall), &["1020"])?;
    Ok(comm.synchronize(stream)?)
}

fn addresses_outside_windows(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let (window, dropped) = (rig.alloc::<f32>(COUNT)?, rig.alloc::<f32>(COUNT)?);
    let (at, gone) = (window[0].address(), dropped[0].address());
    drop(dropped);
    let nearest = format!("{at:#x}");
    let outside = [at - 4, at + 4, at + 1024, gone, 4096, u64::MAX - 3];
    let (comm, stream) = (&mut rig.comms[0], &rig.streams[0]);
    for address in outside {
        let words = ["1024 bytes", &format!("{address:#x}"), &nearest, "register"];
        let refused = comm.all_reduce_at(address, at, COUNT as u64, Dtype::F32, Op::Sum, stream);
        expect("an input", refused, kind!(OutsideWindow), &words)?;
        let refused = comm.all_gather_at(at, address, COUNT as u64, Dtype::F32, stream);
        expect("an output", refused, kind!(OutsideWindow), &words)?;
    }
    drop(window);
    let refused = comm.all_reduce_at(at, at, 1, Dtype::F32, Op::Sum, stream);
    expect("no window at all", refused, kind!(OutsideWindow), &["4 bytes", &nearest, "none"])
}

fn misaligned_addresses(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let window = rig.alloc::<f32>(COUNT)?;
    let (comm, stream, at) = (&mut rig.comms[0], &rig.streams[0], window[0].address());
    for (skip, dtype, required) in [(2, Dtype::F32, "4"), (1, Dtype::F16, "2"), (3, Dtype::Bf16, "2")] {
        let words = [&format!("{:#x}", at + skip), "multiple of", required];
        let refused = comm.all_reduce_at(at + skip, at, 8, dtype, Op::Sum, stream);
        expect("an input", refused, kind!(Misaligned), &words)?;
        let refused = comm.all_gather_at(at, at + skip, 8, dtype, stream);
        expect("an output", refused, kind!(Misaligned), &words)?;
    }
    Ok(())
}

fn partial_overlap(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 1)?;
    let window = rig.alloc::<f32>(COUNT)?;
    let flat = window[0].flat_offset().bytes;
    let (comm, stream, at) = (&mut rig.comms[0], &rig.streams[0], window[0].address());
    let mut reduce = |input: u64, output: u64| {
        comm.all_reduce_at(at + input, at + output, 16, Dtype::F32, Op::Sum, stream)
    };
    for (input, output) in [(0, 4), (4, 0), (0, 60), (60, 0)] {
        let words =
            ["64 bytes", &format!("{:#x}", flat + input), &format!("{:#x}", flat + output), "disjoint"];
        expect("an overlap", reduce(input, output), kind!(PartialOverlap), &words)?;
    }
    for (input, output) in [(0, 0), (0, 64), (64, 0)] {
        reduce(input, output)?;
    }
    Ok(comm.synchronize(stream)?)
}

fn all_to_all_in_place(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let window = rig.alloc::<f32>(COUNT)?;
    let (comm, stream, at) = (&mut rig.comms[0], &rig.streams[0], window[0].address());
    let mut exchange = |output: u64| comm.all_to_all_at(at, output, 8, Dtype::F32, stream);
    expect("the same memory", exchange(at), kind!(Unsupported), &["all-to-all in place", "output memory"])?;
    expect("an overlap", exchange(at + 4), kind!(PartialOverlap), &["64 bytes", "disjoint"])
}

fn root_that_is_no_rank(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let mut window = rig.alloc::<f32>(COUNT)?.remove(0);
    let (comm, stream, at) = (&mut rig.comms[0], &rig.streams[0], window.address());
    let words = ["root of a broadcast", "rank 2", "0 to 1"];
    let refused = comm.broadcast_in_place(&mut window, 2, stream);
    expect("a root", refused, kind!(InvalidArgument), &words)?;
    let refused = comm.broadcast_at(at, at, 1, Dtype::F32, 2, stream);
    expect("a root", refused, kind!(InvalidArgument), &words)?;
    let refused = comm.broadcast_at(0, 0, 0, Dtype::F32, 2, stream);
    expect("a root of nothing", refused, kind!(InvalidArgument), &words)
}

/// No launch: a graph of it is empty (see `graphs`), no peer is needed, nothing changes.
fn count_of_0(context: &Context) -> Result<()> {
    // Where calls are checked, the other rank would have to call, too: see `checked_calls::empty`.
    let mut rig = Rig::with(&context.machine()?, 2, &unchecked())?;
    let mut window = rig.alloc::<f32>(COUNT)?.remove(0);
    window.write(0, &[2.0; COUNT])?;
    let (comm, stream) = (&mut rig.comms[0], &rig.streams[0]);
    let before = comm.device().machine().counters();
    comm.all_reduce_in_place(window.slice_mut(..0)?, Op::Sum, stream)?;
    comm.all_reduce_in_place(window.slice_mut(COUNT..)?, Op::Sum, stream)?;
    comm.all_gather_in_place(window.slice_mut(7..7)?, stream)?;
    comm.broadcast_in_place(window.slice_mut(7..7)?, 1, stream)?;
    let (start, end) = (window.address(), window.address() + 4 * COUNT as u64);
    for (input, output) in [(start, start), (start + 8, end), (0, 0)] {
        comm.all_reduce_at(input, output, 0, Dtype::F16, Op::Avg, stream)?;
        comm.all_gather_at(input, output, 0, Dtype::F16, stream)?;
        comm.broadcast_at(input, output, 0, Dtype::F16, 1, stream)?;
        comm.all_to_all_at(input, output, 0, Dtype::F16, stream)?;
    }
    for (input, output) in [(start, 0), (0, start), (start, end + (64 << 20)), (1, 1)] {
        for refused in [
            comm.all_reduce_at(input, output, 0, Dtype::F16, Op::Avg, stream),
            comm.all_gather_at(input, output, 0, Dtype::F16, stream),
        ] {
            expect("0 elements outside windows", refused, kind!(OutsideWindow), &["0 bytes at"])?;
        }
    }
    comm.synchronize(stream)?;
    let after = comm.device().machine().counters();
    ensure!(before == after && window.to_vec()? == [2.0; COUNT], "{before:?} became {after:?}");
    Ok(())
}

fn no_multiple(context: &Context) -> Result<()> {
    let mut rig = Rig::new(&context.machine()?, 2)?;
    let mut window = rig.alloc::<f32>(COUNT + 1)?.remove(0);
    let refused = rig.comms[0].all_gather_in_place(&mut window, &rig.streams[0]);
    expect("an odd length", refused, kind!(InvalidArgument), &["257 elements", "multiple of the 2 ranks"])
}

fn foreign(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let (mut rig, other) = (Rig::new(&machine, 2)?, Rig::new(&machine, 2)?);
    let (mut own, mut others) = (rig.alloc::<f32>(COUNT)?, other.alloc::<f32>(COUNT)?);
    let (comm, streams) = (&mut rig.comms[0], &rig.streams);
    let mut in_place =
        |window: &mut Window<f32>, stream: usize| comm.all_reduce_in_place(window, Op::Sum, &streams[stream]);
    expect("another communicator", in_place(&mut others[0], 0), kind!(Foreign), &["input", "communicator"])?;
    expect("another rank", in_place(&mut own[1], 0), kind!(Foreign), &["input", "rank than 0"])?;
    expect("another device", in_place(&mut own[0], 1), kind!(Foreign), &["stream", "device 1", "is 0"])?;
    let at = others[0].address();
    let refused = comm.all_reduce_at(at, at, 1, Dtype::F32, Op::Sum, &streams[0]);
    expect("its address", refused, kind!(OutsideWindow), &["4 bytes", &format!("{at:#x}")])
}

/// What belongs to one machine is not taken by another.
fn foreign_machines(context: &Context) -> Result<()> {
    let (own, other) = (context.machine()?.device(0)?, context.machine()?.device(0)?);
    let (stream, event) = (Stream::new(&own)?, Event::with_timing(&own)?);
    let (its_stream, its_event) = (Stream::new(&other)?, Event::with_timing(&other)?);
    let graph = stream.capture(|| Ok(()))?.instantiate()?;
    for (what, refused) in [
        ("the stream", event.record(&its_stream)),
        ("the event", stream.wait_event(&its_event)),
        ("the first event", event.elapsed_us_since(&its_event).map(drop)),
        ("the stream", graph.launch(&its_stream)),
    ] {
        expect(what, refused, kind!(Foreign), &[what, "another machine"])?;
    }
    event.record(&stream)?;
    its_stream.wait_event(&its_event)?;
    graph.launch(&stream)?;
    Ok(stream.synchronize()?)
}

/// The assembler's word and line come through.
fn damaged_ptx(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let backend = seam(&machine);
    let sound = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";
    let damaged = [
        (sound.replace("ret;", "rt;"), "line 6"),
        (sound.replace("{\n", "{\n.reg .b32 %r<2>;\nadd.u32 %r1, %q1, 1;\n"), "line 7"),
        (sound.replace("ret;\n}", "ret;"), "line"),
    ];
    for (text, word) in damaged {
        let loaded = backend.module_load(0, &text, "a damaged file");
        expect("a damaged text", loaded, kind!(InvalidPtx), &["a damaged file", word])?;
    }
    for text in ["", "not PTX at all", &sound[..20]] {
        expect("no PTX", backend.module_load(0, text, "another file"), kind!(InvalidPtx), &["another file"])?;
    }
    let future = sound.replace("7.8", "99.0");
    let loaded = backend.module_load(0, &future, "a file");
    expect("a future version", loaded, kind!(DriverTooOld), &["PTX 99.0", "103.0"])?;
    let module = backend.module_load(0, sound, "a sound file")?;
    let missing = backend.function(module, "something");
    expect("a missing kernel", missing, kind!(InvalidPtx), &["`something`"])?;
    backend.function(module, "nothing")?;
    Ok(backend.module_unload(module)?)
}
