//! The ranks of one communicator that this process drives, all or one, with a pair of buffers for each; and NCCL's
//! communicators over the same buffers where it is to be compared with.

use crate::case::Case;
use crate::link::Link;
use crate::machine::places;
use crate::memory::{self, Buffer, Memory};
use crate::nccl::comms::{Part, Range as NcclRange};
use crate::nccl::{Buffers, Nccl, Rivals};
use crate::spin::Spinner;
use anyhow::{Result, bail, ensure};
use serde::{Serialize, de::DeserializeOwned};
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;
use symmem::backend::WorkCounters;
use symmem::{Collective, Comm, CommConfig, Device, Event, Machine, Stream, Window};
use symmem_device::abi::DevBaseLayout;

/// Bytes of known content before and after each buffer: a cache line, so that buffers begin where one does.
pub(crate) const GUARD_BYTES: u64 = 128;
/// Bound on the wait for NCCL's work, which has none of its own.
const NCCL_LIMIT: Duration = Duration::from_secs(60);

/// One of a rank's two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Input,
    Output,
}

/// The ranks of this process.
pub(crate) struct Team {
    pub(crate) machine: Machine,
    first_rank: u32,
    link: Option<Link>,
    /// Dropped first: it knows buffers and streams.
    rivals: Option<Rivals>,
    pub(crate) comms: Vec<Comm>,
    pub(crate) streams: Vec<Stream>,
    /// What keeps each stream busy while work is launched behind.
    pub(crate) spinners: Vec<Spinner>,
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
}

impl Team {
    /// Joins the first `n_ranks` devices, or fewer that ranks share where the settings say so, with a link those of as
    /// many processes, and allocates buffers that are large enough for every case.
    pub(crate) fn new(
        machine: &Machine,
        n_ranks: u32,
        link: Option<Link>,
        config: &CommConfig,
        memory: Memory,
        cases: &[Case],
    ) -> Result<Self> {
        let devices = match &link {
            None => places(machine, n_ranks, config.ranks_per_device)?,
            Some(link) => vec![own_device(machine, link)?],
        };
        // The output of an all-gather in place holds its input, so a buffer has to be as large as the larger of both.
        let largest = |bytes: fn(&Case) -> u64| cases.iter().map(bytes).max().unwrap_or(0) + 2 * GUARD_BYTES;
        let (input_bytes, output_bytes) = (largest(Case::input_bytes), largest(Case::bytes_total));
        let n_devices = if link.is_some() { n_ranks } else { n_ranks.min(machine.device_count()) };
        let n_sharers = u64::from(n_ranks.div_ceil(n_devices));
        for device in &devices {
            let facts = device.facts()?;
            let dev_base_bytes = DevBaseLayout::new(n_ranks).len_bytes();
            let needed = n_sharers * (input_bytes + output_bytes + dev_base_bytes);
            ensure!(
                needed <= facts.memory_bytes,
                "the largest size needs {needed} bytes on each device ({n_sharers} × input {input_bytes}, output \
                 {output_bytes}, communicator {dev_base_bytes}); device {} ({}) has {}; lower --max-bytes or --count",
                device.index(),
                facts.name,
                facts.memory_bytes
            );
        }
        // What is measured is the collective: its calls are checked only where that was asked for.
        let config = &CommConfig { check: config.check.or(Some(false)), ..config.clone() };
        let comms = match &link {
            None => Comm::init_all_with(&devices, config)?,
            Some(link) => vec![Comm::init_rank_with(&devices[0], n_ranks, link.rank, &link.id, config)?],
        };
        let streams = devices.iter().map(Stream::new).collect::<symmem::Result<_>>()?;
        let spinners = devices.iter().map(Spinner::new).collect::<symmem::Result<_>>()?;
        let inputs = memory::buffers(&comms, memory, input_bytes)?;
        let outputs = memory::buffers(&comms, memory, output_bytes)?;
        let first_rank = comms[0].rank();
        let machine = machine.clone();
        Ok(Self { machine, first_rank, link, rivals: None, comms, streams, spinners, inputs, outputs })
    }

    /// Joins NCCL's communicators over the same devices and buffers.
    ///
    /// # Errors
    ///
    /// What NCCL answers.
    pub(crate) fn challenge(&mut self, nccl: &Nccl) -> Result<()> {
        ensure!(self.link.is_none(), "NCCL runs in one process");
        let sides = [&self.inputs, &self.outputs];
        let ranges = sides.into_iter().flat_map(|side| (0..).zip(side)).map(|(rank, buffer)| {
            let len_bytes = buffer.window.len() as u64;
            NcclRange { rank, address: buffer.address(), len_bytes }
        });
        let devices = self.comms.iter().map(|comm| comm.device().index()).collect();
        // SAFETY: the buffers are memory of the ranks' devices, and outlive `rivals`, which is dropped first.
        self.rivals = Some(unsafe { nccl.join(devices, ranges.collect()) }?);
        Ok(())
    }

    /// Why NCCL does not run with these buffers, if so; `None` where it is not to be compared with, too.
    pub(crate) fn rival_lacks(&self, buffers: Buffers) -> Option<String> {
        self.rivals.as_ref().and_then(|rivals| rivals.why_not(buffers))
    }

    /// Whether NCCL is to be compared with.
    pub(crate) fn has_rivals(&self) -> bool {
        self.rivals.is_some()
    }

    /// Ranks that this process drives.
    pub(crate) fn ranks(&self) -> Range<u32> {
        self.first_rank..self.first_rank + self.comms.len() as u32
    }

    /// Every process's part, in rank order.
    pub(crate) fn gather<T: Serialize + DeserializeOwned + Clone>(&mut self, mine: &T) -> Result<Vec<T>> {
        match &mut self.link {
            None => Ok(vec![mine.clone()]),
            Some(link) => link.gather(mine),
        }
    }

    /// Whether each rank is a process.
    pub(crate) fn spans_processes(&self) -> bool {
        self.link.is_some()
    }

    /// Waits until every process has come so far.
    pub(crate) fn meet(&mut self) -> Result<()> {
        self.gather(&()).map(drop)
    }

    /// A rank's stream.
    pub(crate) fn stream(&self, rank: u32) -> &Stream {
        &self.streams[self.place(rank)]
    }

    fn place(&self, rank: u32) -> usize {
        (rank - self.first_rank) as usize
    }

    /// The window of a rank's buffer: guard, buffer, guard, and what larger cases need.
    pub(crate) fn window(&self, rank: u32, side: Side) -> &Window<u8> {
        &self.buffer(rank, side).window
    }

    fn buffer(&self, rank: u32, side: Side) -> &Buffer {
        match side {
            Side::Input => &self.inputs[self.place(rank)],
            Side::Output => &self.outputs[self.place(rank)],
        }
    }

    /// Loads the kernels that do operations again and again.
    ///
    /// # Errors
    ///
    /// That there are none for these devices, or what the machine answers.
    pub(crate) fn prepare_loops(&self) -> symmem::Result<()> {
        let asked: Vec<_> = self.comms.iter().map(Comm::prepare_loops).collect::<symmem::Result<_>>()?;
        asked.into_iter().try_for_each(|preparation| preparation.wait())
    }

    /// From now on one kernel does each operation so many times.
    pub(crate) fn repeat(&mut self, repeats: Option<NonZeroU32>) {
        self.comms.iter_mut().for_each(|comm| comm.repeat(repeats));
    }

    /// Puts one operation of one rank into its stream.
    pub(crate) fn enqueue(&mut self, rank: u32, case: &Case, from: Side, to: Side) -> symmem::Result<()> {
        let [input, output] = ends(case, rank, (from, to), |side| self.window(rank, side).address());
        let place = self.place(rank);
        let (comm, stream) = (&mut self.comms[place], &self.streams[place]);
        match (case.collective, case.op) {
            (Collective::AllReduce, Some(op)) => {
                comm.all_reduce_at(input, output, case.count, case.dtype, op, stream)
            }
            (Collective::ReduceScatter, Some(op)) => {
                comm.reduce_scatter_at(input, output, case.count, case.dtype, op, stream)
            }
            (Collective::AllGather, _) => comm.all_gather_at(input, output, case.count, case.dtype, stream),
            (Collective::Broadcast, _) => {
                comm.broadcast_at(input, output, case.count, case.dtype, case.root(), stream)
            }
            (Collective::AllToAll, _) => comm.all_to_all_at(input, output, case.count, case.dtype, stream),
            (_, None) => unreachable!("every case of a reduction has an op"),
        }
    }

    /// Puts one operation of all ranks into their streams, by NCCL.
    ///
    /// # Errors
    ///
    /// What NCCL answers.
    pub(crate) fn enqueue_nccl(&mut self, buffers: Buffers, case: &Case, from: Side, to: Side) -> Result<()> {
        let part = |rank| {
            let [input, output] = ends(case, rank, (from, to), |side| self.buffer(rank, side).address());
            Part { input, output, stream: self.stream(rank).raw() }
        };
        let parts: Vec<_> = self.ranks().map(part).collect();
        let Some(rivals) = &mut self.rivals else { bail!("NCCL has no communicators") };
        // SAFETY: the buffers hold the largest case; they, and the streams, outlive all that is enqueued, since `Program`
        // is dropped before the team.
        unsafe { rivals.enqueue(buffers, case, &parts) }
    }

    /// Waits for NCCL's work of all ranks; ends it when it takes too long.
    ///
    /// # Errors
    ///
    /// A fault of the work, or that it took too long.
    pub(crate) fn synchronize_nccl(&mut self, buffers: Buffers) -> Result<()> {
        let wait = |(comm, stream): (&Comm, &Stream)| {
            let done = Event::new(comm.device())?;
            done.record(stream)?;
            done.wait(NCCL_LIMIT)
        };
        let waited = self.comms.iter().zip(&self.streams).try_for_each(wait);
        if let (Err(_), Some(rivals)) = (&waited, &mut self.rivals)
            && let Ok(comms) = rivals.comms(buffers)
        {
            comms.abort();
        }
        Ok(waited?)
    }

    /// Waits for all ranks; gives the first error after all have been waited for.
    pub(crate) fn synchronize(&mut self) -> symmem::Result<()> {
        let ranks = self.comms.iter_mut().zip(&self.streams);
        let waited: Vec<_> = ranks.map(|(comm, stream)| comm.synchronize(stream)).collect();
        waited.into_iter().collect()
    }

    /// Whether more can be asked of the communicator after an error.
    pub(crate) fn is_good(&mut self) -> bool {
        self.comms.iter_mut().all(|comm| comm.check().is_ok())
    }

    /// What the simulated machine has counted so far.
    pub(crate) fn counters(&self) -> Option<WorkCounters> {
        self.machine.counters()
    }
}

/// A child's device: the one of its number, or the only one that it sees.
pub(crate) fn own_device(machine: &Machine, link: &Link) -> symmem::Result<Device> {
    let sees_one = machine.device_count() == 1;
    machine.device(if sees_one { 0 } else { link.rank })
}

/// Where an operation of a rank reads and writes, from the addresses of its buffers. Where `from` and `to` are the same,
/// an all-gather reads its part of the output, and a reduce-scatter writes its part of the input.
fn ends(case: &Case, rank: u32, (from, to): (Side, Side), address: impl Fn(Side) -> u64) -> [u64; 2] {
    let [input, output] = [from, to].map(|side| address(side) + GUARD_BYTES);
    let part = if from == to { u64::from(rank) * case.part_bytes() } else { 0 };
    match case.collective {
        Collective::AllReduce | Collective::Broadcast | Collective::AllToAll => [input, output],
        Collective::AllGather => [input + part, output],
        Collective::ReduceScatter => [input, output + part],
    }
}
