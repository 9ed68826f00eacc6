//! All-to-all.

use super::launch::{self, Call, CallAt, Range};
use crate::element::Element;
use crate::stream::Stream;
use crate::symmetric::{WindowSlice, WindowSliceMut};
use crate::{Comm, Result};
use symmem_device::kernels::{Collective, Dtype};

impl Comm {
    /// Gives every rank its part of each rank's input: part p of rank r's input becomes part r of rank p's output.
    ///
    /// The length of `input` is a multiple of `n_ranks`, and all parts are equally long. `input` and the first
    /// `input.len()` elements of `output` lie at the same offsets on all ranks and do not overlap: there is no all-to-all
    /// in place.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce`]; [`crate::ErrorKind::InvalidArgument`] if the length is no multiple of `n_ranks`,
    /// [`crate::ErrorKind::Unsupported`] if the output is the input.
    pub fn all_to_all<'a, T: Element>(
        &mut self,
        input: impl Into<WindowSlice<'a, T>>,
        output: impl Into<WindowSliceMut<'a, T>>,
        stream: &Stream,
    ) -> Result<()> {
        let (input, output) = (input.into(), output.into());
        let count = launch::share_of("length of an all-to-all", input.len() as u64, self.n_ranks())?;
        self.launch(&Call {
            collective: Collective::AllToAll,
            input: Range::of(input),
            output: Range::of(output.as_slice()),
            count,
            dtype: T::DTYPE,
            op: None,
            root: 0,
            stream,
        })
    }

    /// [`Comm::all_to_all`] by addresses in registered windows; see [`Comm::all_reduce_at`]. `count` is that of one part;
    /// input and output have `n_ranks` times as many.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce_at`] and [`Comm::all_to_all`].
    pub fn all_to_all_at(
        &mut self,
        input: u64,
        output: u64,
        count: u64,
        dtype: Dtype,
        stream: &Stream,
    ) -> Result<()> {
        let (collective, op) = (Collective::AllToAll, None);
        self.launch_at(&CallAt { collective, input, output, count, dtype, op, root: 0 }, stream)
    }
}
