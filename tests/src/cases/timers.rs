//! Events that take the time, around a kernel that spins until the device's own clock has gone on by a known time.

use crate::harness::{Case, Context};
use crate::seam::seam;
use anyhow::{Result, ensure};
use symmem::backend::{LaunchShape, MachineKind, ModuleHandle};
use symmem::{Device, Event, Machine, Stream};

/// Shared with the bench, which tests its timer by it.
const SPIN: &str = include_str!("../../../benches/src/spin.ptx");
/// In front of what is timed, so that this is launched while the stream is busy.
const AHEAD_NS: u64 = 300_000;
/// A simulated thread runs some dozens of instructions between two looks at the clock.
const SIM_SLACK_NS: u64 = 256;
/// What lies between the events and the kernel, and how far two clocks of one device may be apart.
const SLACK_US: f64 = 8.0;
const SLACK_PART: f64 = 0.02;

pub(super) fn cases() -> Vec<Case> {
    let case = |spin_us: u64| {
        let run = move |context: &Context| {
            let machine = context.machine_with(|sim| {
                // The clock goes by what is run alone.
                sim.stall_polls = u32::MAX;
            })?;
            spin(&machine, spin_us * 1000)
        };
        Case::new(format!("timers::spin_{spin_us}_us"), 1, run)
    };
    [50, 200, 1000].map(case).into()
}

fn spin(machine: &Machine, spin_ns: u64) -> Result<()> {
    let device = machine.device(0)?;
    let module = seam(machine).module_load(0, SPIN, "spin")?;
    let answer = seam(machine).mem_alloc(0, 8)?;
    let timed = timed(&device, module, answer, spin_ns);
    seam(machine).mem_free(0, answer)?;
    seam(machine).module_unload(module)?;
    let (spun_ns, elapsed_us) = timed?;
    ensure!(spun_ns >= spin_ns, "it spun for {spun_ns} ns, not for {spin_ns}");
    let Some(elapsed_us) = elapsed_us else {
        ensure!(machine.kind() == MachineKind::Sim, "GPUs have a time");
        ensure!(spun_ns <= spin_ns + SIM_SLACK_NS, "it spun for {spun_ns} ns, asked for {spin_ns}");
        return Ok(());
    };
    ensure!(
        machine.kind() == MachineKind::Cuda,
        "the simulated machine has no time, and says {elapsed_us} us"
    );
    let spun_us = spun_ns as f64 / 1e3;
    ensure!(
        (elapsed_us - spun_us).abs() <= SLACK_US + SLACK_PART * spun_us,
        "a kernel that saw {spun_us} us pass was timed at {elapsed_us} us"
    );
    Ok(())
}

/// What the kernel saw on its clock in nanoseconds, and the time between the events around it in microseconds.
fn timed(device: &Device, module: ModuleHandle, answer: u64, spin_ns: u64) -> Result<(u64, Option<f64>)> {
    let backend = seam(device.machine());
    let function = backend.function(module, "spin")?;
    let stream = Stream::new(device)?;
    let (start, end) = (Event::with_timing(device)?, Event::with_timing(device)?);
    let launch = |time_ns: u64| {
        let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
        let argument = [answer.to_le_bytes(), time_ns.to_le_bytes()].concat();
        backend.launch(stream.handle(), function, shape, &argument)
    };
    launch(AHEAD_NS)?;
    start.record(&stream)?;
    launch(spin_ns)?;
    end.record(&stream)?;
    stream.synchronize()?;
    let mut bytes = [0; 8];
    backend.read(device.index(), answer, &mut bytes)?;
    Ok((u64::from_le_bytes(bytes), end.elapsed_us_since(&start)?))
}
