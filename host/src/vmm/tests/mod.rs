//! Tests of vectors that grow and of owners, on the simulated machine.

mod faults;
mod multicast;
mod sequences;

use super::{CopyVec, DeviceVec, VmmVec};
use crate::backend::{Access, Backend};
use crate::sim::{LiveCounts, SimConfig, SimMachine};
use crate::tap::{Call, Tap, Watch};
use crate::{Device, ErrorKind, Machine, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const GRAIN: u64 = 2 << 20;
/// A size that divides no granularity.
pub(super) type Element = [u64; 3];
/// Elements that fill a granule, rounded up.
pub(super) const PER_GRAIN: usize = GRAIN as usize / size_of::<Element>() + 1;

/// Calls that give something back: they do not fail here, since what they leave behind is nobody's any more.
const RELEASES: [&str; 4] = ["mem_release", "mem_unmap", "address_free", "mem_free"];

/// Sees the most memory in use, and refuses one call.
#[derive(Debug)]
pub(super) struct Witness {
    machine: Arc<SimMachine>,
    most_used_bytes: AtomicU64,
    /// Calls, other than releases, until one is refused.
    left: AtomicU64,
}

impl Witness {
    /// Forgets the most that was in use before.
    pub(super) fn reset(&self) {
        self.most_used_bytes.store(0, Ordering::Relaxed);
    }

    pub(super) fn most_used_bytes(&self) -> u64 {
        self.most_used_bytes.load(Ordering::Relaxed)
    }

    /// Refuses the call after `n` others.
    pub(super) fn refuse(&self, n: u64) {
        self.left.store(n, Ordering::Relaxed);
    }

    fn see(&self) {
        self.most_used_bytes.fetch_max(used_bytes(&self.machine), Ordering::Relaxed);
    }
}

impl Watch for Witness {
    fn before(&self, call: &Call) -> Result<()> {
        self.see();
        if RELEASES.contains(&call.name) || call.name == "memory_free_bytes" {
            return Ok(());
        }
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(ErrorKind::Unsupported { what: call.name.into(), hint: "refused".into() }.into()),
            _ => Ok(()),
        }
    }

    fn after(&self, _: &Call) -> Result<()> {
        self.see();
        Ok(())
    }
}

fn used_bytes(machine: &SimMachine) -> u64 {
    machine.config().device_memory_bytes - machine.memory_free_bytes(0).expect("there is a device 0")
}

/// A machine of three devices whose calls are watched.
pub(super) struct Bed {
    pub(super) sim: Arc<SimMachine>,
    pub(super) tap: Arc<Tap<Witness>>,
    pub(super) machine: Machine,
}

impl Bed {
    pub(super) fn new() -> Self {
        Self::with(SimConfig { n_devices: 3, device_memory_bytes: 64 * GRAIN, ..SimConfig::default() })
    }

    pub(super) fn with(config: SimConfig) -> Self {
        let sim = SimMachine::new(config).unwrap();
        let witness = Witness {
            machine: sim.clone(),
            most_used_bytes: AtomicU64::new(0),
            left: AtomicU64::new(u64::MAX),
        };
        let tap = Arc::new(Tap::new(sim.clone(), witness));
        Self { sim, machine: Machine::from_backend(tap.clone()), tap }
    }

    pub(super) fn device(&self) -> Device {
        self.machine.device(0).unwrap()
    }

    pub(super) fn used_bytes(&self) -> u64 {
        used_bytes(&self.sim)
    }

    /// Everything is given back, and nothing went wrong in a destructor.
    #[track_caller]
    pub(super) fn finish(&self) {
        self.machine.take_deferred().unwrap();
        assert_eq!(self.sim.live(), LiveCounts::default());
        assert_eq!(self.used_bytes(), 0);
    }
}

/// Elements that differ from their neighbours.
pub(super) fn elements(seed: u64, count: usize) -> Vec<Element> {
    (0..count as u64).map(|n| [seed, n, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n]).collect()
}

#[test]
fn a_new_vector_has_nothing() {
    let bed = Bed::new();
    let (mapped, copied) =
        (VmmVec::<Element>::new(&bed.device()).unwrap(), CopyVec::<Element>::new(&bed.device()));
    assert_eq!((mapped.address(), mapped.len(), mapped.capacity(), mapped.reserved()), (None, 0, 0, 0));
    assert_eq!((copied.address(), copied.len(), copied.capacity()), (None, 0, 0));
    assert!(mapped.to_vec().unwrap().is_empty() && copied.is_empty());
    drop((mapped, copied));
    bed.finish();
}

#[test]
fn ranges_past_the_elements_are_refused() {
    let bed = Bed::new();
    let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
    vector.resize(10).unwrap();
    for (first, count) in [(0, 11), (10, 1), (11, 0), (usize::MAX, 2)] {
        let source = elements(1, count);
        let error = vector.write(first, &source).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error}");
        assert!(vector.read(first, &mut source.clone()).is_err());
    }
    let error = vector.grow(usize::MAX).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::SizeOverflow { .. }), "{error}");
    assert!(vector.reserve(usize::MAX / 24).is_err() && vector.resize(usize::MAX).is_err());
    assert_eq!(vector.to_vec().unwrap(), vec![[0; 3]; 10]);
    drop(vector);
    bed.finish();
}

#[test]
fn peers_have_the_rights_that_they_are_given_also_after_a_move() {
    let bed = Bed::new();
    let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
    vector.set_access(1, Access::Read).unwrap();
    vector.extend_from_slice(&elements(7, 100)).unwrap();
    vector.set_access(2, Access::ReadWrite).unwrap();
    let end = vector.address().unwrap() + GRAIN;
    let blocker = super::Reservation::with_hint(&bed.machine, GRAIN, GRAIN, end).unwrap();
    assert_eq!(vector.grow(3 * PER_GRAIN).unwrap(), super::Growth::Moved);
    let last = vector.address_of(vector.capacity() - 1);
    let read = |device, address| bed.sim.read(device, address, &mut [0; 24]);
    for address in [vector.address().unwrap(), last] {
        read(1, address).unwrap();
        read(2, address).unwrap();
        bed.sim.write(2, address, &[1; 24]).unwrap();
        assert!(bed.sim.write(1, address, &[1; 24]).is_err());
    }
    vector.set_access(2, Access::None).unwrap();
    assert!(read(2, last).is_err());
    assert_eq!(
        [0, 1, 2].map(|device| vector.access(device)),
        [Access::ReadWrite, Access::Read, Access::None]
    );
    drop((vector, blocker));
    bed.finish();
}

#[test]
fn rights_that_cannot_be_given_change_nothing() {
    let peer_access = Some(vec![true, true, false, true]);
    let bed = Bed::with(SimConfig { n_devices: 2, peer_access, ..SimConfig::default() });
    let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
    vector.resize(10).unwrap();
    let error = vector.set_access(1, Access::Read).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Driver { code: 217, .. }), "{error}");
    assert_eq!(vector.access(1), Access::None);
    vector.resize(2 * PER_GRAIN).unwrap();
    drop(vector);
    bed.finish();
}
