//! What is run of a kernel: few operations in a row, small, that use the same memory again, and what they must leave
//! behind.

use crate::bed::BLOCKS;
use symmem::{Algorithm, Collective, Dtype, Op};
use symmem_device::abi::{DevBaseLayout, SENTINEL_PAYLOAD_BYTES};
use symmem_device::kernels::KernelSpec;
use symmem_tests::reference;

/// Ranges of each rank's window that operations read and write.
pub(crate) const REGIONS: usize = 3;
/// Bytes of one rank's input, at most, but for long ones.
const INPUT_BYTES_MAX: u64 = 16 << 10;
/// A few words.
const SMALL: Size = Size::Bytes(40);
/// Several rounds of LL packets for each of two blocks, of 32 threads or, where it is ragged, of 96. In the last round
/// some threads have nothing to wait for.
const LARGE_BYTES: u64 = 2368;
/// The same for kernels that push into scratch, in bytes of each rank's part: four rounds, the last of them short, of the
/// packs that two blocks of 32 threads move at once, if each has one in flight.
const LARGE_PUSHED: u64 = 2 * 32 * 16 * 13 / 4;
/// The same for packets of 12 bytes, two of them a thread. In the last round few threads have any.
const LARGE_LL_128: u64 = 2 * 12 * (3 * 2 * 32 + 4);
/// The same for kernels that move whole packs of 16 bytes between two barriers, up to eight a thread at once.
const LARGE_IN_PACKS: u64 = 2 * 16 * (8 * 32 + 10);
/// Slots of a block in the last epoch of a long message: some threads of it have none.
const LONG_TAIL_SLOTS: u32 = 20;
/// Bytes by which a ragged long message, or part of it, may be longer.
const LONG_SLACK_BYTES: u64 = 64;

/// Where epochs stand before a run that crosses their wrap.
const NEAR_THE_END: u32 = u32::MAX - 2;

/// A sequence of operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Its name in replay strings.
    pub(crate) name: &'static str,
    /// What all epochs are set to first.
    pub(crate) epoch: u32,
    pub(crate) launched: Launched,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Whether calls are checked.
    pub(crate) is_checked: bool,
    /// How often one launch does each operation; above 1 by the loop of its kernel.
    pub(crate) repeats: u32,
    steps: &'static [Step],
}

/// How the host launches the operations, and when it looks at the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Launched {
    /// Each by itself; the host looks when all ranks are done.
    OneByOne,
    /// As a graph, so many times; the host looks when all ranks are done.
    Graph { replays: u32 },
    /// One rank's memory is written and its operations launched while the others run already, and the host looks at
    /// each rank's results as soon as that rank is done.
    Late,
    /// One rank never comes: the others must give up.
    Absent,
    /// One rank has been told that another gave up, before any of the others: it must take no part, and all must give up.
    Poisoned,
}

impl Launched {
    /// Whether kernels give up in it.
    pub(crate) fn ends_in_errors(self) -> bool {
        matches!(self, Self::Absent | Self::Poisoned)
    }
}

/// An operation: which region it reads and writes, how large it is, where it begins and ends,
/// and whether it is another than the one that is checked: an all-gather by packets, which meets no barrier and stores its
/// own part before it has heard of anybody.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: usize,
    to: usize,
    size: Size,
    place: Place,
    by_packets: bool,
}

/// Where a message begins, and by how much it ends further on.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// On the grid of 8 bytes.
    Even,
    /// An element off it.
    Element,
    /// Four bytes off it, or an element if that is more.
    Word,
}

impl Place {
    fn shift_bytes(self, element_bytes: u64) -> u64 {
        match self {
            Self::Even => 0,
            Self::Element => element_bytes,
            Self::Word => element_bytes.max(4),
        }
    }
}

/// How large a message is, or one rank's part of it.
#[derive(Clone, Copy, Debug)]
enum Size {
    Bytes(u64),
    /// Several rounds or tiles of each block.
    Large,
    /// Where an epoch has many tiles: several epochs of each block. Else large.
    Long,
}

const fn step(from: usize, to: usize, size: Size) -> Step {
    Step { from, to, size, place: Place::Even, by_packets: false }
}

const fn ragged(from: usize, to: usize, size: Size) -> Step {
    Step { place: Place::Element, ..step(from, to, size) }
}

const fn ragged_by_words(from: usize, to: usize, size: Size) -> Step {
    Step { place: Place::Word, ..step(from, to, size) }
}

const fn by_packets(from: usize, to: usize, size: Size) -> Step {
    Step { by_packets: true, ..step(from, to, size) }
}

/// All programs. Each operation reads what an earlier one wrote, and no host waits between them: one that ends too early
/// shows in the next.
pub(crate) const PROGRAMS: [Program; 11] = [
    Program {
        name: "chain",
        epoch: 0,
        launched: Launched::OneByOne,
        threads: 32,
        is_checked: false,
        repeats: 1,
        steps: &[
            step(0, 1, Size::Long),
            step(1, 1, Size::Large),
            step(1, 2, SMALL),
            step(2, 0, SMALL),
            ragged(0, 1, Size::Long),
        ],
    },
    Program {
        name: "turns",
        epoch: 0,
        launched: Launched::OneByOne,
        threads: 32,
        is_checked: false,
        repeats: 1,
        steps: &[
            step(0, 1, SMALL),
            step(1, 0, SMALL),
            step(0, 1, SMALL),
            step(1, 0, SMALL),
            step(0, 2, SMALL),
            step(2, 1, SMALL),
        ],
    },
    Program {
        name: "wrap",
        epoch: NEAR_THE_END,
        launched: Launched::OneByOne,
        // No divisor of the slots of a bank: a slot is received by one thread and zeroed by another.
        threads: 96,
        is_checked: false,
        repeats: 1,
        steps: &[
            step(0, 1, SMALL),
            ragged_by_words(1, 0, Size::Large),
            ragged(0, 1, Size::Large),
            ragged(1, 1, SMALL),
        ],
    },
    Program {
        // Kernels have code of their own for shares of bytes, which the wrap must be crossed in as well.
        name: "wrap_by_bytes",
        epoch: NEAR_THE_END,
        launched: Launched::OneByOne,
        threads: 96,
        is_checked: false,
        repeats: 1,
        steps: &[step(0, 1, SMALL), ragged(1, 0, Size::Large), ragged(0, 1, Size::Large)],
    },
    Program {
        name: "graph",
        epoch: 0,
        launched: Launched::Graph { replays: 2 },
        threads: 32,
        is_checked: false,
        repeats: 1,
        steps: &[ragged_by_words(0, 1, Size::Bytes(600)), ragged(1, 0, SMALL)],
    },
    Program {
        name: "late",
        epoch: 0,
        launched: Launched::Late,
        threads: 32,
        is_checked: false,
        repeats: 1,
        steps: &[step(0, 1, Size::Bytes(600)), step(1, 2, SMALL)],
    },
    Program {
        name: "mixed",
        epoch: 0,
        launched: Launched::OneByOne,
        threads: 32,
        is_checked: false,
        repeats: 1,
        // The parts of the packets are larger: each rank overwrites at once what others read, and read what it wrote.
        steps: &[
            step(0, 1, Size::Bytes(600)),
            by_packets(1, 0, Size::Bytes(1200)),
            step(0, 1, Size::Bytes(600)),
            by_packets(1, 2, Size::Bytes(1200)),
        ],
    },
    Program {
        name: "absent",
        epoch: 0,
        launched: Launched::Absent,
        threads: 32,
        is_checked: false,
        repeats: 1,
        steps: &[
            step(0, 1, SMALL),
            // From here on all are told.
            step(1, 2, SMALL),
            step(0, 1, Size::Large),
            ragged(1, 2, SMALL),
        ],
    },
    Program {
        name: "poisoned",
        epoch: 0,
        launched: Launched::Poisoned,
        threads: 32,
        is_checked: false,
        repeats: 1,
        steps: &[step(0, 1, SMALL), step(1, 2, SMALL)],
    },
    Program {
        name: "checked",
        epoch: 0,
        launched: Launched::Graph { replays: 2 },
        threads: 32,
        is_checked: true,
        repeats: 1,
        steps: &[step(0, 1, SMALL), ragged(1, 0, SMALL), step(0, 2, SMALL)],
    },
    Program {
        name: "loop",
        epoch: NEAR_THE_END,
        launched: Launched::OneByOne,
        threads: 96,
        is_checked: false,
        repeats: 3,
        steps: &[step(0, 1, SMALL), ragged(1, 0, Size::Large), step(1, 1, SMALL), step(0, 2, SMALL)],
    },
];

/// The first so many programs are for all runs. Two take much longer, since the waits of kernels are long; one is for the
/// kernels around a collective that is checked, one for the loops.
pub(crate) const N_QUICK: usize = 7;
/// The program in which kernels give up.
pub(crate) const GIVING_UP: &Program = &PROGRAMS[N_QUICK];
/// The program in which a kernel must not begin.
pub(crate) const POISONED: &Program = &PROGRAMS[N_QUICK + 1];
/// The program in which calls are checked.
pub(crate) const CHECKED: &Program = &PROGRAMS[N_QUICK + 2];
/// The program of loops.
pub(crate) const LOOPED: &Program = &PROGRAMS[N_QUICK + 3];

/// The program of that name.
pub(crate) fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

/// Element type and reduction with which a kernel is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Types {
    pub(crate) collective: Collective,
    pub(crate) dtype: Dtype,
    pub(crate) op: Option<Op>,
    pub(crate) algorithm: Algorithm,
}

impl Types {
    pub(crate) fn of(kernel: &KernelSpec) -> Self {
        // Bytes lie off every grid.
        let dtype = kernel.dtype.unwrap_or(Dtype::U8);
        Self { collective: kernel.collective, dtype, op: kernel.op, algorithm: kernel.algorithm }
    }

    /// Bytes of a large message, or of each part of it.
    fn large_bytes(self, n_ranks: u32) -> u64 {
        let parts = if self.collective == Collective::AllReduce { u64::from(n_ranks) } else { 1 };
        // Packs that a thread has in flight: more of wide elements.
        let packs = self.dtype.bytes().min(4);
        match self.algorithm {
            Algorithm::TwoShotPush | Algorithm::Push => LARGE_PUSHED * packs * parts,
            Algorithm::SentinelTwoShot => LARGE_BYTES * 2 * parts,
            Algorithm::LlTwoShot | Algorithm::TwoShotLdSt => LARGE_BYTES * parts,
            Algorithm::St | Algorithm::Mc | Algorithm::StMc | Algorithm::LdMc => LARGE_IN_PACKS * parts,
            Algorithm::Ll128 => LARGE_LL_128,
            _ => LARGE_BYTES,
        }
    }

    /// Bytes of a message, or of each part of it.
    fn bytes(self, size: Size, n_ranks: u32) -> u64 {
        match size {
            Size::Bytes(bytes) => bytes,
            Size::Large => self.large_bytes(n_ranks),
            Size::Long => long_bytes(self.algorithm, n_ranks).unwrap_or(self.large_bytes(n_ranks)),
        }
    }
}

/// Bytes of a long message, or of each part that the caller has laid behind another: one epoch or, where epochs are
/// shorter, two, and a little. `None` if no epoch has many tiles.
fn long_bytes(algorithm: Algorithm, n_ranks: u32) -> Option<u64> {
    let (parts, stages) = match algorithm {
        Algorithm::Sentinel => (1, 1),
        Algorithm::SentinelTwoShot => (n_ranks, 2),
        _ => return None,
    };
    let epochs = if n_ranks > 2 { 2 } else { 1 };
    let slots = DevBaseLayout::new(n_ranks).sentinel_slots_per_block() / stages * epochs + LONG_TAIL_SLOTS;
    Some(u64::from(slots * BLOCKS * parts) * SENTINEL_PAYLOAD_BYTES)
}

/// An operation as it is called: offsets in each rank's window, and the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) collective: Collective,
    pub(crate) algorithm: Algorithm,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) count: u64,
}

/// The root of broadcasts: the last rank.
pub(crate) fn root_of(n_ranks: u32) -> u32 {
    n_ranks - 1
}

/// Bytes of a region on `n_ranks` ranks: the parts of all ranks fit.
pub(crate) fn region_bytes(algorithm: Algorithm, n_ranks: u32) -> u64 {
    let long = long_bytes(algorithm, n_ranks).map_or(0, |bytes| bytes + LONG_SLACK_BYTES);
    INPUT_BYTES_MAX.max(long) * u64::from(n_ranks)
}

impl Program {
    /// The operations as `rank` calls them.
    pub(crate) fn operations(&self, types: Types, n_ranks: u32, rank: u32) -> Vec<Operation> {
        let call = |step: &Step| {
            let unit = types.dtype.bytes();
            let shift = step.place.shift_bytes(unit);
            let (collective, algorithm) = match step.by_packets {
                true => (Collective::AllGather, Algorithm::Ll),
                false => (types.collective, types.algorithm),
            };
            let count = (types.bytes(step.size, n_ranks) + shift) / unit;
            let at = |region: usize| region as u64 * region_bytes(types.algorithm, n_ranks) + shift;
            let (mut input, mut output) = (at(step.from), at(step.to));
            let part = if step.from == step.to { u64::from(rank) * count * unit } else { 0 };
            match collective {
                Collective::AllReduce | Collective::Broadcast => {}
                // There is none in place: a region behind it takes the output.
                Collective::AllToAll if step.from == step.to => output = at((step.to + 1) % REGIONS),
                Collective::AllToAll => {}
                Collective::AllGather => input += part,
                Collective::ReduceScatter => output += part,
            }
            Operation { collective, algorithm, input, output, count }
        };
        self.steps.iter().map(call).collect()
    }

    /// How often the steps are run.
    fn n_rounds(&self) -> u32 {
        match self.launched {
            Launched::Graph { replays } => replays,
            _ => 1,
        }
    }

    /// What each rank's window holds after the operations, which began with `windows`.
    pub(crate) fn result(&self, types: Types, windows: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let n_ranks = windows.len() as u32;
        let mut windows = windows.to_vec();
        let calls: Vec<_> = (0..n_ranks).map(|rank| self.operations(types, n_ranks, rank)).collect();
        let steps = || (0..self.steps.len()).flat_map(|n| std::iter::repeat_n(n, self.repeats as usize));
        for n in (0..self.n_rounds()).flat_map(|_| steps()) {
            let Operation { collective, count, .. } = calls[0][n];
            let part_bytes = (count * types.dtype.bytes()) as usize;
            let bytes = part_bytes * collective.parts(n_ranks).0 as usize;
            let input = |(window, calls): (&Vec<u8>, &Vec<Operation>)| {
                window[calls[n].input as usize..][..bytes].to_vec()
            };
            let inputs: Vec<Vec<u8>> = windows.iter().zip(&calls).map(input).collect();
            let (op, root) = (types.op.unwrap_or(Op::Sum), root_of(n_ranks) as usize);
            let outputs = reference::outputs(collective, types.dtype, op, root, &inputs);
            for ((window, calls), output) in windows.iter_mut().zip(&calls).zip(outputs) {
                window[calls[n].output as usize..][..output.len()].copy_from_slice(&output);
            }
        }
        windows
    }
}
