//! Windows whose every byte is accounted for.
//!
//! The host keeps an image of what each rank's two windows should hold: inputs unchanged, outputs as the reference says,
//! and a pattern everywhere else, so that one comparison finds a wrong result, a store outside the output and a changed
//! input alike.

use crate::random::{Random, Values};
use crate::reference;
use crate::rig::Rig;
use anyhow::{Result, bail};
use symmem::{Collective, Comm, Dtype, Op, Stream, Window};

/// Bytes in front of the first range of a window that no operation touches.
pub(crate) const GUARD_BYTES: u64 = 512;
/// What outputs hold before.
const POISON: u8 = 0xdb;

/// A collective on the windows of a [`Field`].
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// What is done.
    pub(crate) collective: Collective,
    /// Element type.
    pub(crate) dtype: Dtype,
    /// Reduction; collectives that do not reduce ignore it.
    pub(crate) op: Op,
    /// Elements of the message, or of one rank's part.
    pub(crate) count: u64,
    /// Where input and output start.
    pub(crate) input: Place,
    /// Ignored in place.
    pub(crate) output: Place,
    /// All-reduce and broadcast: the output is the input. All-gather: the input is the rank's part of the output, which
    /// starts at `input`. Reduce-scatter: the output is the rank's part of the input. All-to-alls ignore it: they have
    /// none.
    pub(crate) in_place: bool,
    /// What values the inputs have.
    pub(crate) values: Values,
}

/// A byte of one of the two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// 0 or 1.
    pub(crate) window: usize,
    /// Bytes from its start.
    pub(crate) offset: u64,
}

/// Two windows on each rank and what they should hold.
#[derive(Debug)]
pub(crate) struct Field {
    windows: Vec<[Window<u8>; 2]>,
    /// Where in the windows the images start.
    base_bytes: u64,
    images: Vec<[Vec<u8>; 2]>,
}

impl Operation {
    /// Out of place, from one window behind its guard to the other, on plain values.
    pub(crate) fn new(collective: Collective, dtype: Dtype, op: Op, count: u64) -> Self {
        let [input, output] = [0, 1].map(|window| Place { window, offset: GUARD_BYTES });
        Self { collective, dtype, op, count, input, output, in_place: false, values: Values::Plain }
    }

    /// Bytes of the message, or of one rank's part.
    fn part_bytes(&self) -> u64 {
        self.count * self.dtype.bytes()
    }

    /// Bytes of one rank's input.
    pub(crate) fn input_bytes(&self, n_ranks: u32) -> u64 {
        self.part_bytes() * u64::from(self.collective.parts(n_ranks).0)
    }

    /// Bytes of one rank's output.
    pub(crate) fn output_bytes(&self, n_ranks: u32) -> u64 {
        self.part_bytes() * u64::from(self.collective.parts(n_ranks).1)
    }

    /// Where the ranks' outputs start, the first one's if they differ.
    pub(crate) fn output_place(&self) -> Place {
        let in_place = self.in_place && self.collective != Collective::AllToAll;
        if in_place { self.input } else { self.output }
    }

    /// The rank that a broadcast starts from: another one for each count.
    fn root(&self, n_ranks: u32) -> u32 {
        (self.count % u64::from(n_ranks)) as u32
    }

    /// Puts one rank's part into a stream, on arrays at these addresses.
    pub(crate) fn enqueue(
        &self,
        comm: &mut Comm,
        (input, output): (u64, u64),
        stream: &Stream,
    ) -> symmem::Result<()> {
        let Self { collective, dtype, op, count, .. } = *self;
        match collective {
            Collective::AllReduce => comm.all_reduce_at(input, output, count, dtype, op, stream),
            Collective::AllGather => comm.all_gather_at(input, output, count, dtype, stream),
            Collective::ReduceScatter => comm.reduce_scatter_at(input, output, count, dtype, op, stream),
            Collective::Broadcast => {
                comm.broadcast_at(input, output, count, dtype, self.root(comm.n_ranks()), stream)
            }
            Collective::AllToAll => comm.all_to_all_at(input, output, count, dtype, stream),
        }
    }

    fn input_of(&self, rank: u32) -> Place {
        let is_part = self.in_place && self.collective == Collective::AllGather;
        let skip = if is_part { u64::from(rank) * self.part_bytes() } else { 0 };
        Place { offset: self.input.offset + skip, ..self.input }
    }

    fn output_of(&self, rank: u32) -> Place {
        let is_part = self.in_place && self.collective == Collective::ReduceScatter;
        let skip = if is_part { u64::from(rank) * self.part_bytes() } else { 0 };
        let place = self.output_place();
        Place { offset: place.offset + skip, ..place }
    }

    /// Each rank's output.
    pub(crate) fn expected(&self, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let root = self.root(inputs.len() as u32) as usize;
        reference::outputs(self.collective, self.dtype, self.op, root, inputs)
    }

    /// Each rank's output when it has been done so many times: in place, each reads what the one before wrote.
    fn expected_after(&self, times: u32, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut inputs = inputs.to_vec();
        for _ in 1..times {
            let outputs = self.expected(&inputs);
            if self.in_place && self.collective.reduces() {
                for (rank, (input, output)) in inputs.iter_mut().zip(&outputs).enumerate() {
                    let of_rank = self.output_of(rank as u32).offset - self.input_of(rank as u32).offset;
                    input[of_rank as usize..][..output.len()].copy_from_slice(output);
                }
            }
        }
        self.expected(&inputs)
    }
}

impl Field {
    /// Two windows of `len_bytes` each on every rank, filled with a pattern.
    pub(crate) fn new(rig: &Rig, len_bytes: usize, seed: u64) -> Result<Self> {
        Self::beyond(rig, 0, len_bytes, seed)
    }

    /// The same behind the first `base_bytes` of two longer windows, which are left alone.
    pub(crate) fn beyond(rig: &Rig, base_bytes: u64, len_bytes: usize, seed: u64) -> Result<Self> {
        let window_bytes = base_bytes as usize + len_bytes;
        let (first, second) = (rig.alloc(window_bytes)?, rig.alloc(window_bytes)?);
        let windows: Vec<_> = first.into_iter().zip(second).map(|(a, b)| [a, b]).collect();
        let mut random = Random::new(seed);
        let images = windows.iter().map(|_| [random.bytes(len_bytes), random.bytes(len_bytes)]).collect();
        let mut field = Self { windows, base_bytes, images };
        for (windows, images) in field.windows.iter_mut().zip(&field.images) {
            let mut parts = windows.iter_mut().zip(images);
            parts.try_for_each(|(window, image)| window.write(base_bytes as usize, image))?;
        }
        Ok(field)
    }

    /// Writes fresh inputs, poisons the outputs, and notes what the windows hold once the operation is done.
    pub(crate) fn stage(&mut self, operation: &Operation, random: &mut Random) -> Result<()> {
        self.stage_times(operation, 1, random)
    }

    /// As [`Self::stage`], for an operation that is done so many times.
    pub(crate) fn stage_times(
        &mut self,
        operation: &Operation,
        times: u32,
        random: &mut Random,
    ) -> Result<()> {
        let n_ranks = self.windows.len() as u32;
        let count = (operation.input_bytes(n_ranks) / operation.dtype.bytes()) as usize;
        let inputs: Vec<Vec<u8>> =
            (0..n_ranks).map(|_| random.elements(operation.dtype, operation.values, count)).collect();
        for (rank, (input, expected)) in
            inputs.iter().zip(operation.expected_after(times, &inputs)).enumerate()
        {
            let output = operation.output_of(rank as u32);
            self.write(rank, output, &vec![POISON; expected.len()])?;
            self.write(rank, operation.input_of(rank as u32), input)?;
            let at = output.offset as usize;
            self.images[rank][output.window][at..at + expected.len()].copy_from_slice(&expected);
        }
        Ok(())
    }

    /// Puts the operation into the streams of all ranks.
    pub(crate) fn launch(&self, rig: &mut Rig, operation: &Operation) -> Result<()> {
        rig.each(|comm, stream| self.launch_on(comm, stream, operation))
    }

    /// Puts one rank's part of the operation into a stream.
    pub(crate) fn launch_on(
        &self,
        comm: &mut Comm,
        stream: &Stream,
        operation: &Operation,
    ) -> symmem::Result<()> {
        let windows = &self.windows[comm.rank() as usize];
        let address = |place: Place| windows[place.window].address() + self.base_bytes + place.offset;
        let (input, output) =
            (address(operation.input_of(comm.rank())), address(operation.output_of(comm.rank())));
        operation.enqueue(comm, (input, output), stream)
    }

    /// What each rank's output holds.
    pub(crate) fn outputs(&self, operation: &Operation) -> Result<Vec<Vec<u8>>> {
        let n_ranks = self.windows.len() as u32;
        let outputs = (0..n_ranks).map(|rank| {
            let place = operation.output_of(rank);
            let mut found = vec![0; operation.output_bytes(n_ranks) as usize];
            let window = &self.windows[rank as usize][place.window];
            window.read((self.base_bytes + place.offset) as usize, &mut found)?;
            Ok(found)
        });
        outputs.collect()
    }

    /// Takes the results of an operation that is not in place away, so that it can be launched again.
    pub(crate) fn poison(&mut self, operation: &Operation) -> Result<()> {
        let n_ranks = self.windows.len() as u32;
        let nothing = vec![POISON; operation.output_bytes(n_ranks) as usize];
        for (rank, windows) in (0..n_ranks).zip(&mut self.windows) {
            let place = operation.output_of(rank);
            windows[place.window].write((self.base_bytes + place.offset) as usize, &nothing)?;
        }
        Ok(())
    }

    /// Compares all windows of all ranks with their images.
    pub(crate) fn verify(&self) -> Result<()> {
        (0..self.windows.len()).try_for_each(|rank| self.verify_rank(rank))
    }

    /// Compares one rank's windows with their images.
    pub(crate) fn verify_rank(&self, rank: usize) -> Result<()> {
        for (number, (window, image)) in self.windows[rank].iter().zip(&self.images[rank]).enumerate() {
            let mut found = vec![0; image.len()];
            window.read(self.base_bytes as usize, &mut found)?;
            if let Some(at) = (0..image.len()).find(|&at| image[at] != found[at]) {
                let wrong = (at..image.len()).filter(|&at| image[at] != found[at]).count();
                let end = (at + 16).min(image.len());
                bail!(
                    "rank {rank}, window {number}: {wrong} wrong bytes; from byte {at:#x} on {:02x?} were expected, \
                     {:02x?} found",
                    &image[at..end],
                    &found[at..end]
                );
            }
        }
        Ok(())
    }

    /// Stages, launches, waits and verifies.
    pub(crate) fn run(&mut self, rig: &mut Rig, operation: &Operation, random: &mut Random) -> Result<()> {
        self.stage(operation, random)?;
        self.launch(rig, operation)?;
        rig.synchronize()?;
        self.verify()
    }

    fn write(&mut self, rank: usize, place: Place, source: &[u8]) -> Result<()> {
        let at = place.offset as usize;
        self.images[rank][place.window][at..at + source.len()].copy_from_slice(source);
        Ok(self.windows[rank][place.window].write(self.base_bytes as usize + at, source)?)
    }
}
