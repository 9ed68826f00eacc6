//! Grows vectors step by step.

use anyhow::{Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use symmem::backend::MachineKind;
use symmem::tap::{Call, Watch};
use symmem::vmm::{CopyVec, DeviceVec, Growth, VmmVec};
use symmem::{Device, Machine};

/// Elements of the vectors.
type Element = u64;
const ELEMENT_BYTES: u64 = size_of::<Element>() as u64;

/// A kind of vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mapped,
    Copied,
}

/// What one step took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Most device memory in use.
    pub(super) peak_bytes: u64,
    /// Bytes copied within the device.
    pub(super) copied_bytes: u64,
    /// Calls of the machine.
    pub(super) calls: u64,
    /// What became of the addresses.
    pub(super) growth: Growth,
    /// Median, least and most time in microseconds; none on the simulated machine.
    pub(super) time_us: Option<[f64; 3]>,
}

/// Sees what the calls of a step leave behind.
#[derive(Debug)]
struct Witness {
    machine: Machine,
    device: u32,
    least_free_bytes: AtomicU64,
    copied_bytes: AtomicU64,
    calls: AtomicU64,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Mapped, Self::Copied];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mapped => "VmmVec",
            Self::Copied => "CopyVec",
        }
    }

    fn vector(self, device: &Device) -> symmem::Result<Box<dyn DeviceVec<Element>>> {
        Ok(match self {
            Self::Mapped => Box::new(VmmVec::new(device)?),
            Self::Copied => Box::new(CopyVec::new(device)),
        })
    }
}

impl Witness {
    fn new(machine: &Machine, device: u32) -> Self {
        let zero = || AtomicU64::new(0);
        let machine = machine.clone();
        Self { machine, device, least_free_bytes: zero(), copied_bytes: zero(), calls: zero() }
    }

    fn reset(&self) {
        self.least_free_bytes.store(u64::MAX, Ordering::Relaxed);
        self.copied_bytes.store(0, Ordering::Relaxed);
        self.calls.store(0, Ordering::Relaxed);
    }

    fn see(&self) -> symmem::Result<()> {
        let free_bytes = self.machine.device(self.device)?.memory_free_bytes()?;
        self.least_free_bytes.fetch_min(free_bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Watch for Witness {
    fn before(&self, _: &Call) -> symmem::Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.see()
    }

    fn after(&self, call: &Call) -> symmem::Result<()> {
        if call.name == "copy_within_device" {
            self.copied_bytes.fetch_add(call.len_bytes, Ordering::Relaxed);
        }
        self.see()
    }
}

/// Grows one vector to each size in turn, watched; then as often as asked for with a clock, unwatched, since looking at
/// the memory takes time itself.
pub(super) fn grow(machine: &Machine, kind: Kind, sizes: &[u64], repetitions: u32) -> Result<Vec<Step>> {
    let mut steps = watched(machine, kind, sizes)?;
    if machine.kind() == MachineKind::Sim {
        return Ok(steps);
    }
    let rounds = (0..repetitions).map(|_| timed(machine, kind, sizes)).collect::<Result<Vec<_>>>()?;
    for (n, step) in steps.iter_mut().enumerate() {
        let mut times: Vec<f64> = rounds.iter().map(|round| round[n]).collect();
        times.sort_by(f64::total_cmp);
        step.time_us = Some([times[times.len() / 2], times[0], times[times.len() - 1]]);
    }
    Ok(steps)
}

fn watched(machine: &Machine, kind: Kind, sizes: &[u64]) -> Result<Vec<Step>> {
    let witness = Arc::new(Witness::new(machine, 0));
    let device = machine.watched(witness.clone()).device(0)?;
    let free_before = machine.device(0)?.memory_free_bytes()?;
    let mut vector = kind.vector(&device)?;
    let (mut steps, mut marks) = (Vec::new(), Vec::new());
    for &bytes in sizes {
        witness.reset();
        let growth = vector.grow((bytes / ELEMENT_BYTES) as usize)?;
        steps.push(Step {
            peak_bytes: free_before.saturating_sub(witness.least_free_bytes.load(Ordering::Relaxed)),
            copied_bytes: witness.copied_bytes.load(Ordering::Relaxed),
            calls: witness.calls.load(Ordering::Relaxed),
            growth,
            time_us: None,
        });
        fill_and_check(&mut *vector, bytes, &mut marks)?;
    }
    drop(vector);
    device.machine().take_deferred()?;
    Ok(steps)
}

/// Microseconds of each step. Each call of the machine that a step makes returns when it is done.
fn timed(machine: &Machine, kind: Kind, sizes: &[u64]) -> Result<Vec<f64>> {
    let mut vector = kind.vector(&machine.device(0)?)?;
    let mut marks = Vec::new();
    let step = |&bytes: &u64| {
        let start = Instant::now();
        vector.grow((bytes / ELEMENT_BYTES) as usize)?;
        let time_us = start.elapsed().as_secs_f64() * 1e6;
        fill_and_check(&mut *vector, bytes, &mut marks)?;
        Ok(time_us)
    };
    sizes.iter().map(step).collect()
}

/// Uses all of the vector's room, and looks whether the marks of earlier steps, the first element of each step's part,
/// are still there.
fn fill_and_check(vector: &mut dyn DeviceVec<Element>, bytes: u64, marks: &mut Vec<usize>) -> Result<()> {
    let before = vector.len();
    vector.resize((bytes / ELEMENT_BYTES) as usize)?;
    vector.write(before, &[mark(before)])?;
    marks.push(before);
    for &place in marks.iter() {
        let mut found = [0];
        vector.read(place, &mut found)?;
        ensure!(found[0] == mark(place), "element {place} is {:#x} after the growth", found[0]);
    }
    Ok(())
}

fn mark(place: usize) -> Element {
    place as u64 ^ 0x5bd1_e995_0bad_cafe
}
