//! Broadcast.

use super::launch::{Call, CallAt, Range};
use crate::element::Element;
use crate::stream::Stream;
use crate::symmetric::{WindowSlice, WindowSliceMut};
use crate::{Comm, Result};
use symmem_device::kernels::{Collective, Dtype};

impl Comm {
    /// Copies the input of rank `root` into the output of every rank, its own included.
    ///
    /// The inputs of the others are not read. `input` and the first `input.len()` elements of `output` lie at the same
    /// offsets on all ranks, which name the same root, and do not overlap. The root's links carry the message once for
    /// each of its peers.
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce`]; [`crate::ErrorKind::InvalidArgument`] for a root that is no rank.
    pub fn broadcast<'a, T: Element>(
        &mut self,
        input: impl Into<WindowSlice<'a, T>>,
        output: impl Into<WindowSliceMut<'a, T>>,
        root: u32,
        stream: &Stream,
    ) -> Result<()> {
        let (input, output) = (input.into(), output.into());
        self.launch(&Call {
            collective: Collective::Broadcast,
            input: Range::of(input),
            output: Range::of(output.as_slice()),
            count: input.len() as u64,
            dtype: T::DTYPE,
            op: None,
            root,
            stream,
        })
    }

    /// As [`Comm::broadcast`], from `data` of rank `root` into that of all others.
    ///
    /// # Errors
    ///
    /// As [`Comm::broadcast`].
    pub fn broadcast_in_place<'a, T: Element>(
        &mut self,
        data: impl Into<WindowSliceMut<'a, T>>,
        root: u32,
        stream: &Stream,
    ) -> Result<()> {
        let data = data.into().as_slice();
        self.launch(&Call {
            collective: Collective::Broadcast,
            input: Range::of(data),
            output: Range::of(data),
            count: data.len() as u64,
            dtype: T::DTYPE,
            op: None,
            root,
            stream,
        })
    }

    /// [`Comm::broadcast`] by addresses in registered windows; see [`Comm::all_reduce_at`].
    ///
    /// # Errors
    ///
    /// As [`Comm::all_reduce_at`] and [`Comm::broadcast`].
    pub fn broadcast_at(
        &mut self,
        input: u64,
        output: u64,
        count: u64,
        dtype: Dtype,
        root: u32,
        stream: &Stream,
    ) -> Result<()> {
        let (collective, op) = (Collective::Broadcast, None);
        self.launch_at(&CallAt { collective, input, output, count, dtype, op, root }, stream)
    }
}
