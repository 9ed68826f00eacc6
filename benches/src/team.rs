//! The ranks of one communicator that this process drives, all or one, with a pair of buffers for each.

use crate::case::Case;
use crate::link::Link;
use anyhow::{Context, Result, ensure};
use serde::{Serialize, de::DeserializeOwned};
use std::ops::Range;
use symmem::backend::WorkCounters;
use symmem::{Collective, Comm, CommConfig, Device, Machine, Stream, Window};
use symmem_device::abi::DevBaseLayout;

/// Bytes of known content before and after each buffer.
pub(crate) const GUARD_BYTES: u64 = 64;

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
    pub(crate) comms: Vec<Comm>,
    pub(crate) streams: Vec<Stream>,
    inputs: Vec<Window<u8>>,
    outputs: Vec<Window<u8>>,
}

impl Team {
    /// Joins the first `n_ranks` devices, with a link those of as many processes, and allocates buffers that are large
    /// enough for every case.
    pub(crate) fn new(
        machine: &Machine,
        n_ranks: u32,
        link: Option<Link>,
        config: &CommConfig,
        cases: &[Case],
    ) -> Result<Self> {
        let devices = match &link {
            None => machine.devices(n_ranks)?,
            Some(link) => vec![own_device(machine, link)?],
        };
        // The output of an all-gather in place holds its input, so a buffer has to be as large as the larger of both.
        let largest = |bytes: fn(&Case) -> u64| cases.iter().map(bytes).max().unwrap_or(0) + 2 * GUARD_BYTES;
        let (input_bytes, output_bytes) = (largest(Case::input_bytes), largest(Case::bytes_total));
        for device in &devices {
            let facts = device.facts()?;
            let dev_base_bytes = DevBaseLayout::new(n_ranks).len_bytes();
            let needed = input_bytes + output_bytes + dev_base_bytes;
            ensure!(
                needed <= facts.memory_bytes,
                "the largest size needs {needed} bytes on each device (input {input_bytes}, output {output_bytes}, \
                 communicator {dev_base_bytes}); device {} ({}) has {}; lower --max-bytes or --count",
                device.index(),
                facts.name,
                facts.memory_bytes
            );
        }
        let comms = match &link {
            None => Comm::init_all_with(&devices, config)?,
            Some(link) => vec![Comm::init_rank_with(&devices[0], n_ranks, link.rank, &link.id, config)?],
        };
        let streams = devices.iter().map(Stream::new).collect::<symmem::Result<_>>()?;
        let (inputs, outputs) = (allocate(&comms, input_bytes)?, allocate(&comms, output_bytes)?);
        let first_rank = comms[0].rank();
        Ok(Self { machine: machine.clone(), first_rank, link, comms, streams, inputs, outputs })
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
        match side {
            Side::Input => &self.inputs[self.place(rank)],
            Side::Output => &self.outputs[self.place(rank)],
        }
    }

    /// Puts one operation of one rank into its stream. Where `from` and `to` are the same, an all-gather reads its part
    /// of the output, and a reduce-scatter writes its part of the input.
    pub(crate) fn enqueue(&mut self, rank: u32, case: &Case, from: Side, to: Side) -> symmem::Result<()> {
        let address = |side| self.window(rank, side).address() + GUARD_BYTES;
        let (mut input, mut output) = (address(from), address(to));
        let part = if from == to { u64::from(rank) * case.part_bytes() } else { 0 };
        let place = self.place(rank);
        let (comm, stream) = (&mut self.comms[place], &self.streams[place]);
        match (case.collective, case.op) {
            (Collective::AllReduce, Some(op)) => {
                comm.all_reduce_at(input, output, case.count, case.dtype, op, stream)
            }
            (Collective::ReduceScatter, Some(op)) => {
                output += part;
                comm.reduce_scatter_at(input, output, case.count, case.dtype, op, stream)
            }
            (Collective::AllGather, _) => {
                input += part;
                comm.all_gather_at(input, output, case.count, case.dtype, stream)
            }
            (Collective::Broadcast, _) => {
                comm.broadcast_at(input, output, case.count, case.dtype, case.root(), stream)
            }
            (Collective::AllToAll, _) => comm.all_to_all_at(input, output, case.count, case.dtype, stream),
            (_, None) => unreachable!("every case of a reduction has an op"),
        }
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

fn allocate(comms: &[Comm], len_bytes: u64) -> Result<Vec<Window<u8>>> {
    let context = || format!("allocating {len_bytes} bytes on each of {} ranks", comms.len());
    let len = usize::try_from(len_bytes).with_context(context)?;
    let asked: symmem::Result<Vec<_>> = comms.iter().map(|comm| comm.alloc::<u8>(len)).collect();
    // Every rank is waited for: registrations end on all ranks, with memory or with an error.
    let windows: Vec<_> =
        asked.with_context(context)?.into_iter().map(|registration| registration.wait()).collect();
    windows.into_iter().collect::<symmem::Result<_>>().with_context(context)
}
