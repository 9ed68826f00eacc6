//! The collectives: what a call checks, which kernel it becomes, how that is launched.

mod all_to_all;
mod broadcast;
mod check;
mod cut;
mod launch;
mod looped;
mod plan;
mod reduce_scatter;

pub use plan::{
    ByAlgorithm, Capabilities, Plan, Problem, TuningKey, TuningRow, TuningTable, TypeClass, explain, plan,
};

use crate::element::Element;
use crate::stream::Stream;
use crate::symmetric::{Window, WindowSlice, WindowSliceMut};
use crate::{Comm, Result};
pub(crate) use check::Calls;
pub(crate) use launch::Asked;
use launch::{Call, CallAt, Range};
use symmem_device::kernels::{Algorithm, Collective, Dtype, Multicast, Op};

impl Comm {
    /// Reduces the inputs of all ranks, element by element, into the output of every rank.
    ///
    /// `input` and the first `input.len()` elements of `output` lie at the same offsets on all ranks and do not
    /// overlap. Runs on `stream`; the result is there when [`Comm::synchronize`] returns. A length of 0 moves nothing.
    /// All ranks get the same bits: the fold starts with rank 0's value, then 1…n−1. Floats narrower than f32 accumulate
    /// in f32 and round once; those of 8 bits saturate. Integers wrap in their type; their average is the wrapped sum
    /// divided toward zero.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::WindowTooSmall`], [`crate::ErrorKind::PartialOverlap`], [`crate::ErrorKind::Foreign`] for a
    /// window or stream of another communicator or device, [`crate::ErrorKind::Unsupported`],
    /// [`crate::ErrorKind::NotPrepared`] for kernels that are not loaded, [`crate::ErrorKind::Capture`], what made the
    /// communicator unusable earlier, or what the machine answers.
    pub fn all_reduce<'a, T: Element>(
        &mut self,
        input: impl Into<WindowSlice<'a, T>>,
        output: impl Into<WindowSliceMut<'a, T>>,
        op: Op,
        stream: &Stream,
    ) -> Result<()> {
        let (input, output) = (input.into(), output.into());
        self.launch(&Call {
            collective: Collective::AllReduce,
            input: Range::of(input),
            output: Range::of(output.as_slice()),
            count: input.len() as u64,
            dtype: T::DTYPE,
            op: Some(op),
            root: 0,
            stream,
        })
    }

    /// As [`Comm::all_reduce`], with the result in place of the input.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce`].
    pub fn all_reduce_in_place<'a, T: Element>(
        &mut self,
        data: impl Into<WindowSliceMut<'a, T>>,
        op: Op,
        stream: &Stream,
    ) -> Result<()> {
        let data = data.into().as_slice();
        self.launch(&Call {
            collective: Collective::AllReduce,
            input: Range::of(data),
            output: Range::of(data),
            count: data.len() as u64,
            dtype: T::DTYPE,
            op: Some(op),
            root: 0,
            stream,
        })
    }

    /// Puts the inputs of all ranks behind each other, in rank order, into the output of every rank.
    ///
    /// `output` has room for `n_ranks × input.len()` elements; otherwise as [`Comm::all_reduce`].
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce`].
    pub fn all_gather<'a, T: Element>(
        &mut self,
        input: impl Into<WindowSlice<'a, T>>,
        output: impl Into<WindowSliceMut<'a, T>>,
        stream: &Stream,
    ) -> Result<()> {
        let (input, output) = (input.into(), output.into());
        self.launch(&Call {
            collective: Collective::AllGather,
            input: Range::of(input),
            output: Range::of(output.as_slice()),
            count: input.len() as u64,
            dtype: T::DTYPE,
            op: None,
            root: 0,
            stream,
        })
    }

    /// As [`Comm::all_gather`], with this rank's input already at its place: the `rank`-th of `n_ranks` equal parts of
    /// `data`, whose length is a multiple of `n_ranks`.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce`]; [`crate::ErrorKind::InvalidArgument`] if the length is no multiple of `n_ranks`.
    pub fn all_gather_in_place<'a, T: Element>(
        &mut self,
        data: impl Into<WindowSliceMut<'a, T>>,
        stream: &Stream,
    ) -> Result<()> {
        let data = data.into().as_slice();
        let count = launch::share_of("length of an all-gather in place", data.len() as u64, self.n_ranks())?;
        let output = Range::of(data);
        self.launch(&Call {
            collective: Collective::AllGather,
            input: output.part(u64::from(self.rank()) * count * T::DTYPE.bytes(), count * T::DTYPE.bytes()),
            output,
            count,
            dtype: T::DTYPE,
            op: None,
            root: 0,
            stream,
        })
    }

    /// [`Comm::all_reduce`] by addresses in registered windows, for callers whose types are known at run time.
    ///
    /// `input` and `output` are addresses of this rank's memory, symmetric ones or the ones it was registered by. A count
    /// of 0 moves nothing, on addresses in windows or at their ends; both may then be 0, as an empty array's may be that has
    /// no memory.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce`]; [`crate::ErrorKind::OutsideWindow`] for an address that no live window covers,
    /// [`crate::ErrorKind::Misaligned`] for one that is no multiple of the element's size.
    pub fn all_reduce_at(
        &mut self,
        input: u64,
        output: u64,
        count: u64,
        dtype: Dtype,
        op: Op,
        stream: &Stream,
    ) -> Result<()> {
        let (collective, op) = (Collective::AllReduce, Some(op));
        self.launch_at(&CallAt { collective, input, output, count, dtype, op, root: 0 }, stream)
    }

    /// [`Comm::all_gather`] by addresses in registered windows; see [`Comm::all_reduce_at`]. `count` is one rank's.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce_at`].
    pub fn all_gather_at(
        &mut self,
        input: u64,
        output: u64,
        count: u64,
        dtype: Dtype,
        stream: &Stream,
    ) -> Result<()> {
        let (collective, op) = (Collective::AllGather, None);
        self.launch_at(&CallAt { collective, input, output, count, dtype, op, root: 0 }, stream)
    }

    /// From now on, calls take this algorithm wherever it has a kernel, and so many blocks; `None` leaves the choice to the
    /// plan. It takes the place of the wishes in [`crate::CommConfig`], and is equal on all ranks between the same calls.
    pub fn prefer(&mut self, algorithm: Option<Algorithm>, ctas: Option<u32>) {
        self.set_wishes(algorithm, ctas);
    }

    /// Which algorithm a call with these values takes, and why not another; or that its kernels are not loaded. On windows
    /// that have multicast if the communicator has.
    pub fn explain(&self, collective: Collective, count: u64, dtype: Dtype, op: Option<Op>) -> String {
        let problem = self.problem((collective, count, dtype, op, self.multicast_of_all()));
        problem.map_or_else(|error| error.to_string(), |problem| explain(&problem))
    }

    /// Which algorithm a call with these values takes, on windows that have multicast if the communicator has.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Unsupported`] if there is no kernel for them, [`crate::ErrorKind::NotPrepared`] if it is not
    /// loaded.
    pub fn plan(&self, collective: Collective, count: u64, dtype: Dtype, op: Option<Op>) -> Result<Plan> {
        plan(&self.problem((collective, count, dtype, op, self.multicast_of_all()))?)
    }

    /// Windows that have multicast if the communicator has.
    fn multicast_of_all(&self) -> Option<Multicast> {
        self.multicast_base().map(|_| Multicast { input: true, output: true })
    }

    pub(crate) fn problem(&self, (collective, count, dtype, op, multicast): Asked) -> Result<Problem<'_>> {
        let agreed = self.agreed();
        Ok(Problem {
            collective,
            count,
            dtype,
            op,
            n_ranks: agreed.n_ranks,
            multicast,
            capabilities: Capabilities {
                sm: agreed.sm,
                blocks_max: self.kernels().blocks_max(collective, dtype, op)?,
                algorithm: agreed.algorithm,
                ctas: agreed.ctas,
                threads: agreed.threads,
                tuning: self.tuning(),
            },
        })
    }
}

/// Reads a whole window, for tests and examples.
impl<T: Element> Window<T> {
    /// Copies all elements to the host. Waits for no stream: the caller orders it.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); self.len()];
        self.read(0, &mut values)?;
        Ok(values)
    }
}
