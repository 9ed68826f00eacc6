//! Reduce-scatter.

use super::launch::{self, Call, CallAt, Range};
use crate::element::Element;
use crate::stream::Stream;
use crate::symmetric::{WindowSlice, WindowSliceMut};
use crate::{Comm, Result};
use symmem_device::kernels::{Collective, Dtype, Op};

impl Comm {
    /// Reduces the inputs of all ranks, element by element; rank r's output gets the r-th of `n_ranks` equal parts.
    ///
    /// The length of `input` is a multiple of `n_ranks`; the first `input.len() / n_ranks` elements of `output` are
    /// written. They and `input` lie at the same offsets on all ranks and do not overlap. Results as those of
    /// [`Comm::all_reduce`], to the bit.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce`]; [`crate::ErrorKind::InvalidArgument`] if the length is no multiple of `n_ranks`.
    pub fn reduce_scatter<'a, T: Element>(
        &mut self,
        input: impl Into<WindowSlice<'a, T>>,
        output: impl Into<WindowSliceMut<'a, T>>,
        op: Op,
        stream: &Stream,
    ) -> Result<()> {
        let (input, output) = (input.into(), output.into());
        let count = launch::share_of("length of a reduce-scatter", input.len() as u64, self.n_ranks())?;
        self.launch(&Call {
            collective: Collective::ReduceScatter,
            input: Range::of(input),
            output: Range::of(output.as_slice()),
            count,
            dtype: T::DTYPE,
            op: Some(op),
            root: 0,
            stream,
        })
    }

    /// As [`Comm::reduce_scatter`], with the result in place of the `rank`-th of `n_ranks` equal parts of `data`; the
    /// others stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Comm::reduce_scatter`].
    pub fn reduce_scatter_in_place<'a, T: Element>(
        &mut self,
        data: impl Into<WindowSliceMut<'a, T>>,
        op: Op,
        stream: &Stream,
    ) -> Result<()> {
        let data = data.into().as_slice();
        let count =
            launch::share_of("length of a reduce-scatter in place", data.len() as u64, self.n_ranks())?;
        let (input, part_bytes) = (Range::of(data), count * T::DTYPE.bytes());
        self.launch(&Call {
            collective: Collective::ReduceScatter,
            output: input.part(u64::from(self.rank()) * part_bytes, part_bytes),
            input,
            count,
            dtype: T::DTYPE,
            op: Some(op),
            root: 0,
            stream,
        })
    }

    /// [`Comm::reduce_scatter`] by addresses in registered windows; see [`Comm::all_reduce_at`]. `count` is that of one
    /// rank's output; the input has `n_ranks` times as many.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce_at`].
    pub fn reduce_scatter_at(
        &mut self,
        input: u64,
        output: u64,
        count: u64,
        dtype: Dtype,
        op: Op,
        stream: &Stream,
    ) -> Result<()> {
        let (collective, op) = (Collective::ReduceScatter, Some(op));
        self.launch_at(&CallAt { collective, input, output, count, dtype, op, root: 0 }, stream)
    }
}
