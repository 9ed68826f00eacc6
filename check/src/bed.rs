//! A machine with a communicator on it, on which run after run starts from the same state.

use crate::content::first_content;
use crate::finding::{Finding, How};
use crate::program::{Launched, Program, REGIONS, Types, region_bytes, root_of};
use crate::subject::Run;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use symmem::backend::Backend;
use symmem::sim::{OnStall, ProbeKind, SimConfig, SimMachine};
use symmem::symmetric::FlatOffset;
use symmem::{Algorithm, Collective, Comm, CommConfig, Dtype, ErrorKind, Machine, Op, Stream, Window};
use symmem_device::abi::{
    BARRIER_BLOCKS_MAX, DevBaseHeader, DevBaseLayout, LL_BLOCKS_MAX, PUSH_BLOCKS_MAX, SENTINEL_BLOCKS_MAX,
};
use symmem_device::kernels::KernelSpec;

/// Blocks of every launch: enough for one to overtake another.
pub(crate) const BLOCKS: u32 = 2;
/// Polls without any change that make a stall. Nothing here looks at the clock while it waits.
const STALL_POLLS: u32 = 1000;
/// The same where kernels shall give up: more than they poll between two looks at the clock.
const STALL_POLLS_PATIENT: u32 = 4500;
/// A stall while the host is about to launch more is none.
const STALL_GRACE_MS: u64 = 1000;

/// What beds differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) n_ranks: u32,
    /// Time passes where nothing else happens, so that bounded waits end.
    pub(crate) is_patient: bool,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Whether calls are checked.
    pub(crate) is_checked: bool,
}

impl Shape {
    /// What a program needs.
    pub(crate) fn of(program: &Program, n_ranks: u32) -> Self {
        let is_patient = program.launched.ends_in_errors();
        Self { n_ranks, is_patient, threads: program.threads, is_checked: program.is_checked }
    }
}

/// All ranks of one communicator. The communicators go before the streams.
pub(crate) struct Bed {
    sim: Arc<SimMachine>,
    n_ranks: u32,
    comms: Vec<Comm>,
    streams: Vec<Stream>,
    windows: Vec<Window<u8>>,
    /// Types and reductions whose kernels are loaded.
    prepared: BTreeSet<(Dtype, Op)>,
    has_loops: bool,
}

impl Bed {
    /// A bed of that shape, whose ranks use `algorithm` wherever they can.
    pub(crate) fn new(shape: Shape, algorithm: Algorithm) -> Result<Self> {
        let Shape { n_ranks, is_patient, threads, is_checked } = shape;
        let sim = SimMachine::new(SimConfig {
            n_devices: n_ranks,
            device_memory_bytes: 256 << 20,
            stall_polls: if is_patient { STALL_POLLS_PATIENT } else { STALL_POLLS },
            on_stall: if is_patient { OnStall::AdvanceClock } else { OnStall::Report },
            stall_grace_ms: STALL_GRACE_MS,
            instructions_max: 1 << 31,
            ..SimConfig::default()
        })?;
        let machine = Machine::from_backend(sim.clone());
        let devices = machine.devices(n_ranks)?;
        let config = CommConfig {
            algorithm: Some(algorithm),
            ctas: Some(BLOCKS),
            threads: Some(threads),
            dtypes: vec![Dtype::F32],
            check: Some(is_checked),
            ..CommConfig::default()
        };
        let comms = Comm::init_all_with(&devices, &config)?;
        let streams = devices.iter().map(Stream::new).collect::<symmem::Result<_>>()?;
        let bytes = REGIONS * region_bytes(algorithm, n_ranks) as usize;
        let asked = comms.iter().map(|comm| comm.alloc(bytes)).collect::<symmem::Result<Vec<_>>>()?;
        let windows = asked.into_iter().map(symmem::Registration::wait).collect::<symmem::Result<_>>()?;
        Ok(Self { sim, n_ranks, comms, streams, windows, prepared: BTreeSet::new(), has_loops: false })
    }

    /// The machine.
    pub(crate) fn sim(&self) -> &SimMachine {
        &self.sim
    }

    /// Runs a program of a kernel; `Some` is what is wrong. Behind a finding that is an error of the machine the bed is
    /// of no use any more.
    pub(crate) fn run(
        &mut self,
        run: &Run,
        kernel: &KernelSpec,
        program: &Program,
    ) -> Result<Option<Finding>> {
        let types = Types::of(kernel);
        self.prepare(types).context("loading the kernel")?;
        if program.repeats > 1 {
            self.prepare_loops().context("loading the loops")?;
        }
        let first = first_content(types, self.n_ranks);
        self.reset(program, &first).context("setting memory before the run")?;
        if program.launched == Launched::Poisoned {
            self.poison(run.schedule.seed).context("poisoning a rank before the run")?;
        }
        self.sim.restart(&run.schedule, run.probe)?;
        let expected = program.result(types, &first);
        let wrong = match program.launched {
            Launched::Absent => self.run_absent(run.schedule.seed, types, program),
            Launched::Poisoned => {
                let all: Vec<_> = (0..self.n_ranks as usize).collect();
                self.run_until_all_give_up(&all, types, program)
            }
            Launched::Late => self.run_late(run.schedule.seed, types, program, &first, &expected),
            _ => self.execute(types, program).and_then(|()| self.verify_all(run, &expected)),
        };
        Ok(match wrong {
            Ok(report) => report.map(|report| Finding { run: run.clone(), how: How::WrongResult, report }),
            Err(error) => Some(Finding::of_error(run, &error)),
        })
    }

    /// Loads the kernels of a type and a reduction on every rank.
    pub(crate) fn prepare(&mut self, types: Types) -> symmem::Result<()> {
        let Some(op) = types.op.filter(|&op| self.prepared.insert((types.dtype, op))) else { return Ok(()) };
        let asked = self.comms.iter().map(|comm| comm.prepare(&[types.dtype], &[op]));
        let asked = asked.collect::<symmem::Result<Vec<_>>>()?;
        asked.into_iter().try_for_each(|preparation| preparation.wait())
    }

    fn prepare_loops(&mut self) -> symmem::Result<()> {
        if std::mem::replace(&mut self.has_loops, true) {
            return Ok(());
        }
        let asked: Vec<_> = self.comms.iter().map(Comm::prepare_loops).collect::<symmem::Result<_>>()?;
        asked.into_iter().try_for_each(|preparation| preparation.wait())
    }

    /// The first difference on any rank.
    fn verify_all(&self, run: &Run, expected: &[Vec<u8>]) -> symmem::Result<Option<String>> {
        // The checkers have nothing to say of what the host does from here on.
        self.sim.restart(&run.schedule, ProbeKind::None)?;
        for rank in 0..self.n_ranks as usize {
            if let Some(report) = self.verify(rank, expected)? {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    fn verify(&self, rank: usize, expected: &[Vec<u8>]) -> symmem::Result<Option<String>> {
        let mut found = vec![0; expected[rank].len()];
        self.windows[rank].read(0, &mut found)?;
        let region_bytes = found.len() / REGIONS;
        Ok((found != expected[rank]).then(|| difference(rank, &found, &expected[rank], region_bytes)))
    }

    /// See [`Launched::Absent`].
    fn run_absent(&mut self, seed: u64, types: Types, program: &Program) -> symmem::Result<Option<String>> {
        let absent = (seed % u64::from(self.n_ranks)) as usize;
        let present: Vec<_> = (0..self.n_ranks as usize).filter(|&rank| rank != absent).collect();
        self.run_until_all_give_up(&present, types, program)
    }

    /// Runs a program on these ranks. Each must end with an error that says so.
    fn run_until_all_give_up(
        &mut self,
        ranks: &[usize],
        types: Types,
        program: &Program,
    ) -> symmem::Result<Option<String>> {
        let launched: Vec<_> = ranks.iter().map(|&rank| self.launch_on(rank, types, program)).collect();
        for (&rank, launched) in ranks.iter().zip(launched) {
            match launched.and_then(|()| self.comms[rank].synchronize(&self.streams[rank])) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Timeout { .. } | ErrorKind::Poisoned { .. }) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    return Ok(Some(format!("rank {rank} did not notice that a rank takes no part")));
                }
            }
        }
        Ok(None)
    }

    /// Tells one rank that the next one gave up.
    fn poison(&self, seed: u64) -> Result<()> {
        let told = (seed % u64::from(self.n_ranks)) as u32;
        let address = self.comms[told as usize].space().address(told, FlatOffset::new(0));
        let poison = (told + 1) % self.n_ranks + 1;
        let device = self.comms[told as usize].device().index();
        Ok(self.sim.write(device, address, &poison.to_le_bytes())?)
    }

    /// See [`Launched::Late`].
    fn run_late(
        &mut self,
        seed: u64,
        types: Types,
        program: &Program,
        first: &[Vec<u8>],
        expected: &[Vec<u8>],
    ) -> symmem::Result<Option<String>> {
        let n_ranks = self.n_ranks as usize;
        let late = (seed % u64::from(self.n_ranks)) as usize;
        let others = (0..n_ranks).filter(|&rank| rank != late);
        self.windows[late].fill_bytes(0xdb)?;
        for rank in others.clone() {
            self.launch_on(rank, types, program)?;
        }
        for rank in others.clone() {
            if self.sim.stream_is_done(self.streams[rank].handle())? {
                return Ok(Some(format!("rank {rank} did not wait for rank {late}, which is late")));
            }
        }
        self.windows[late].write(0, &first[late])?;
        self.launch_on(late, types, program)?;
        for rank in others.chain([late]) {
            self.comms[rank].synchronize(&self.streams[rank])?;
            if let Some(report) = self.verify(rank, expected)? {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// Puts the memory of all ranks in the state of a new communicator, but for epochs that are further on.
    fn reset(&mut self, program: &Program, first: &[Vec<u8>]) -> Result<()> {
        self.sim.restart(&crate::subject::first_schedule(), ProbeKind::None)?;
        let layout = DevBaseLayout::new(self.n_ranks);
        let words = words_of(program.epoch, layout);
        let ll_slots = [
            DevBaseLayout::ll_slots_offset,
            DevBaseLayout::ll_128_slots_offset,
            DevBaseLayout::ll_mc_slots_offset,
        ];
        // Where each protocol's slots start and end, and where its second bank starts.
        let ll_slots =
            ll_slots.map(|at| [at(layout, 0, 0, 0), at(layout, BLOCKS, 0, 0), at(layout, 0, 1, 0)]);
        let sentinels = [DevBaseLayout::sentinel_slots_offset, DevBaseLayout::sentinel_notes_offset];
        let sentinels = sentinels.map(|at| at(layout, 0, 0, 0)..at(layout, BLOCKS, 0, 0));
        for ((comm, window), first) in self.comms.iter().zip(&mut self.windows).zip(first) {
            let (device, rank) = (comm.device().index(), comm.rank());
            let at = |offset: u64| comm.space().address(rank, FlatOffset::new(offset));
            let unpoisoned = [0u8; std::mem::offset_of!(DevBaseHeader, timeout_ns)];
            self.sim.write(device, at(0), &unpoisoned)?;
            self.sim.write(device, at(layout.barrier_epoch_offset(0)), bytemuck::cast_slice(&words))?;
            for area in &sentinels {
                self.sim.fill(device, at(area.start), 0, area.end - area.start)?;
            }
            for [start, end, second] in ll_slots {
                match program.epoch {
                    0 => self.sim.fill(device, at(start), 0, end - start)?,
                    _ => self.sim.write(device, at(start), &stale_slots(end - start, second - start))?,
                }
            }
            window.write(0, first)?;
        }
        Ok(())
    }

    fn execute(&mut self, types: Types, program: &Program) -> symmem::Result<()> {
        let Launched::Graph { replays } = program.launched else {
            self.launch(types, program)?;
            return self.synchronize();
        };
        let graphs = (0..self.n_ranks as usize).map(|rank| {
            let stream = self.streams[rank].clone();
            stream.capture(|| self.launch_on(rank, types, program))?.instantiate()
        });
        let graphs = graphs.collect::<symmem::Result<Vec<_>>>()?;
        for _ in 0..replays {
            graphs.iter().zip(&self.streams).try_for_each(|(graph, stream)| graph.launch(stream))?;
        }
        self.synchronize()
    }

    fn launch(&mut self, types: Types, program: &Program) -> symmem::Result<()> {
        (0..self.n_ranks as usize).try_for_each(|rank| self.launch_on(rank, types, program))
    }

    fn launch_on(&mut self, rank: usize, types: Types, program: &Program) -> symmem::Result<()> {
        let (comm, stream) = (&mut self.comms[rank], &self.streams[rank]);
        let base = self.windows[rank].address();
        comm.repeat(NonZeroU32::new(program.repeats).filter(|repeats| repeats.get() > 1));
        for call in program.operations(types, self.n_ranks, rank as u32) {
            let (input, output) = (base + call.input, base + call.output);
            let (count, dtype) = (call.count, types.dtype);
            let op = types.op.unwrap_or(Op::Sum);
            comm.prefer(Some(call.algorithm), Some(BLOCKS));
            match call.collective {
                Collective::AllReduce => comm.all_reduce_at(input, output, count, dtype, op, stream)?,
                Collective::AllGather => comm.all_gather_at(input, output, count, dtype, stream)?,
                Collective::ReduceScatter => {
                    comm.reduce_scatter_at(input, output, count, dtype, op, stream)?;
                }
                Collective::Broadcast => {
                    comm.broadcast_at(input, output, count, dtype, root_of(self.n_ranks), stream)?;
                }
                Collective::AllToAll => comm.all_to_all_at(input, output, count, dtype, stream)?,
            }
        }
        Ok(())
    }

    /// Waits for all ranks; the first error in rank order.
    fn synchronize(&mut self) -> symmem::Result<()> {
        let ranks = self.comms.iter_mut().zip(&self.streams);
        let waited: Vec<_> = ranks.map(|(comm, stream)| comm.synchronize(stream)).collect();
        waited.into_iter().collect()
    }
}

/// The words of all protocols, from the barrier's epochs to those of multicast packets, where each stands at `epoch`.
fn words_of(epoch: u32, layout: DevBaseLayout) -> Vec<u32> {
    let mut words = vec![epoch; (BARRIER_BLOCKS_MAX + 2 * LL_BLOCKS_MAX + SENTINEL_BLOCKS_MAX) as usize];
    words.extend((0..PUSH_BLOCKS_MAX).map(|_| 0));
    words.extend((0..BARRIER_BLOCKS_MAX * layout.n_ranks).map(|_| epoch));
    // The multicast barrier's epochs and inboxes, and the epochs of multicast packets.
    words.extend((0..2 * BARRIER_BLOCKS_MAX + LL_BLOCKS_MAX).map(|_| epoch));
    words
}

/// Slots as the epochs 2 and 3 leave them, which come again behind the wrap: only what zeroes a bank before then keeps
/// them from being taken for new.
fn stale_slots(len_bytes: u64, bank_bytes: u64) -> Vec<u8> {
    const STALE: u64 = 0x5e5e_5e5e;
    let half = |at: u64| STALE | (2 + at / bank_bytes % 2) << 32;
    (0..len_bytes).step_by(size_of::<u64>()).flat_map(|at| half(at).to_le_bytes()).collect()
}

/// Where a rank's window differs from what it must hold.
fn difference(rank: usize, found: &[u8], expected: &[u8], region_bytes: usize) -> String {
    let wrong: Vec<_> = (0..found.len()).filter(|&at| found[at] != expected[at]).collect();
    let first = wrong[0];
    format!(
        "rank {rank}: {} of {} bytes are wrong, the first one byte {} of region {}: found {:#04x}, expected {:#04x}",
        wrong.len(),
        found.len(),
        first % region_bytes,
        first / region_bytes,
        found[first],
        expected[first]
    )
}
