//! The litmus suite: small programs with the exact set of their outcomes in the model, and what PTX allows beyond.
//!
//! A test is a row: threads, what is observed, the outcomes where its scope covers the placement of the threads, and
//! where it does not. Every outcome must be seen, and no other; see [`program`] for the language of the threads.

mod bytes;
mod coherence;
mod order;
mod program;
mod proxies;

use super::tests::GRAIN;
use super::{ProbeKind, SimConfig, SimMachine};
use crate::ErrorKind;
use crate::backend::{Access, Backend, FunctionHandle, LaunchShape, StreamHandle};
use program::{KERNELS_MAX, LOCATIONS, REGISTERS, UNTOUCHED, kernels, ptx};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where the threads of a test are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Placement {
    Block,
    Device,
    System,
}

use Placement::{Block, Device, System};

const PLACEMENTS: [Placement; 3] = [Block, Device, System];
const SCOPES: [(&str, Placement); 3] = [("cta", Block), ("gpu", Device), ("sys", System)];

/// A test.
struct Litmus {
    name: &'static str,
    threads: &'static [&'static str],
    /// Registers (`1:r0` is that of thread 1) and locations (their last values).
    observed: &'static str,
    /// Outcomes where the scope covers the placement.
    outcomes: &'static [&'static str],
    /// Outcomes that the scope forbids only where it covers the placement: seen beside the others elsewhere.
    uncovered: &'static [&'static str],
    /// Outcomes that PTX allows and the model cannot produce.
    unseen: &'static [&'static str],
    /// Whether it races, where the scope covers the placement; elsewhere every test does.
    races: bool,
}

/// All tests of a table at every scope and placement.
fn check_all(tests: &[Litmus]) {
    for test in tests {
        for placement in PLACEMENTS {
            for (scope, covers) in SCOPES {
                test.check(scope, covers >= placement, placement);
            }
        }
    }
}

/// Rounds of a test: so many that the rarest outcome is seen, and none that is not there to be seen is missed by chance.
const ROUNDS: usize = 1500;
/// Rounds without a race after which there is none.
const ROUNDS_CLEAN: usize = 200;

impl Litmus {
    fn check(&self, scope: &str, is_covered: bool, placement: Placement) {
        let at = format!("{}, scope {scope}, threads of one {placement:?}", self.name);
        let more = if is_covered { &[] } else { self.uncovered };
        let expect: BTreeSet<String> =
            self.outcomes.iter().chain(more).map(|&text| text.to_string()).collect();
        let unseen = self.unseen.iter().find(|outcome| expect.contains(**outcome));
        assert_eq!(unseen, None, "{at}: an outcome is listed as seen and as unseen");
        let mut seen = BTreeSet::new();
        let mut bed = LitmusBed::new(self, scope, placement, ProbeKind::Weak { races: false });
        for _ in 0..ROUNDS {
            bed.run().unwrap();
            seen.insert(bed.observe(self.observed));
            if seen.len() > expect.len() {
                break;
            }
        }
        assert_eq!(seen, expect, "{at}");
        let races = self.races || !is_covered;
        assert_eq!(self.finds_race(scope, placement, races), races, "{at}: race");
    }

    /// Whether any run ends with a race; where one is expected, it may take many.
    fn finds_race(&self, scope: &str, placement: Placement, is_expected: bool) -> bool {
        let rounds = if is_expected { 4 * ROUNDS } else { ROUNDS_CLEAN };
        let mut bed = LitmusBed::new(self, scope, placement, ProbeKind::Weak { races: true });
        (0..rounds).any(|_| match bed.run() {
            Ok(()) => false,
            Err(error) => match error.kind() {
                ErrorKind::Race { .. } => true,
                other => panic!("{}: {other:?}", self.name),
            },
        })
    }
}

/// A machine with the threads of a test.
struct LitmusBed {
    machine: Arc<SimMachine>,
    /// By device.
    functions: Vec<FunctionHandle>,
    /// By thread.
    streams: Vec<StreamHandle>,
    placement: Placement,
    n_threads: usize,
    n_kernels: Vec<usize>,
    locations: [u64; LOCATIONS.len()],
    out: u64,
}

impl LitmusBed {
    fn new(test: &Litmus, scope: &str, placement: Placement, probe: ProbeKind) -> Self {
        let n_threads = test.threads.len();
        let n_devices = if placement == System { n_threads } else { 1 };
        let config = SimConfig { n_devices: n_devices as u32, probe, seed: 7, ..SimConfig::default() };
        let machine = SimMachine::new(config).unwrap();
        let text = ptx(test.threads, scope);
        let function = |device| {
            let module = machine.module_load(device, &text, test.name).unwrap();
            machine.function(module, "litmus").unwrap()
        };
        let functions = (0..n_devices as u32).map(function).collect();
        let device = |thread: usize| if placement == System { thread as u32 } else { 0 };
        let streams = (0..n_threads).map(|thread| machine.stream_create(device(thread)).unwrap()).collect();
        let physical = machine.mem_create(0, GRAIN).unwrap();
        let map = |physical| {
            let address = machine.address_reserve(GRAIN, 0, 0).unwrap();
            machine.mem_map(address, GRAIN, physical).unwrap();
            for peer in 0..n_devices as u32 {
                machine.mem_set_access(address, GRAIN, peer, Access::ReadWrite).unwrap();
            }
            address
        };
        let (first, second) = (map(physical), map(physical));
        let n_kernels = test.threads.iter().map(|thread| kernels(thread).len()).collect();
        let locations = [first, first + 64, first + 128, second];
        Self { machine, functions, streams, placement, n_threads, n_kernels, locations, out: first + 4096 }
    }

    /// Runs all threads once, from zeroed memory.
    fn run(&mut self) -> crate::Result<()> {
        self.machine.write(0, self.locations[0], &[0; 192])?;
        for part in 0..KERNELS_MAX {
            let threads = if self.placement == Block { 1 } else { self.n_threads };
            for first in (0..threads).filter(|&first| part < self.n_kernels[first]) {
                let function = self.functions[if self.placement == System { first } else { 0 }];
                let n = if self.placement == Block { self.n_threads as u32 } else { 1 };
                let shape = LaunchShape { blocks: 1, threads: n, shared_bytes: 0, waits_itself: false };
                let arguments = [self.out, first as u64, part as u64];
                let words = self.locations.iter().chain(&arguments);
                let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                self.machine.launch(self.streams[first], function, shape, &bytes)?;
            }
        }
        self.streams.iter().try_for_each(|&stream| self.machine.stream_synchronize(stream))
    }

    fn word(&self, address: u64) -> u32 {
        let mut bytes = [0; 4];
        self.machine.read(0, address, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn observe(&self, observed: &str) -> String {
        let value = |name: &str| match name.split_once(":r") {
            Some((thread, register)) => {
                let index = thread.parse::<usize>().unwrap() * REGISTERS + register.parse::<usize>().unwrap();
                self.word(self.out + index as u64 * 4)
            }
            None => {
                let index = LOCATIONS.iter().position(|&location| location == name).unwrap();
                self.word(self.locations[index])
            }
        };
        let show = |value: u32| if value == UNTOUCHED { "-".to_string() } else { value.to_string() };
        observed.split(' ').map(|name| show(value(name))).collect::<Vec<_>>().join(" ")
    }
}
