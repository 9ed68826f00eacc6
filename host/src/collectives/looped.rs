//! Collectives that one launch does again and again, to measure them without the launches.

use super::plan::Plan;
use crate::backend::FunctionHandle;
use crate::symmetric::Preparation;
use crate::{Comm, Result};
use std::num::NonZeroU32;

/// How a call is repeated: so often, by this kernel.
pub(super) type Repeated = (NonZeroU32, FunctionHandle);

impl Comm {
    /// Loads the kernels that [`Self::repeat`] needs, which no communicator has by itself: those of f32 sum and of what
    /// does not reduce, but by multicast or copy engines, for compute capability 9.0 and later. Collective, as
    /// [`Self::prepare`].
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Capture`] as in [`Self::alloc`]; [`Preparation::wait`] gives
    /// [`crate::ErrorKind::Unsupported`] for an older device.
    pub fn prepare_loops(&self) -> Result<Preparation> {
        self.ask_for_loops()
    }

    /// For measurements: from now on, each call does its collective so many times in one kernel, one behind the other,
    /// on the same input and output; `None` ends that. Out of place the result is that of one; in place, each reads
    /// what the one before wrote. Equal on all ranks between the same calls. The plan is that of any call.
    ///
    /// Calls then return also [`crate::ErrorKind::NotPrepared`] before [`Self::prepare_loops`], and
    /// [`crate::ErrorKind::Unsupported`] where the kernel of the plan has no loop. What a launch that fails on one rank
    /// leaves in the outputs of any is unspecified.
    pub fn repeat(&mut self, repeats: Option<NonZeroU32>) {
        self.repeats = repeats;
    }

    /// How a call of this plan is repeated, if it is to be.
    pub(super) fn repeated(&self, plan: &Plan) -> Result<Option<Repeated>> {
        let by = |repeats| Ok((repeats, self.kernels().loop_of(plan.kernel, plan.shape)?));
        self.repeats.map(by).transpose()
    }
}
