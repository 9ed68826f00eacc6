//! What a caller takes out of the plan's hands.

use crate::Comm;
use symmem_device::kernels::Algorithm;

/// What is not left to the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The algorithm to use wherever a kernel of it exists.
    pub algorithm: Option<Algorithm>,
    /// Blocks per launch; fewer where the GPUs cannot hold so many at once.
    pub ctas: Option<u32>,
    /// Most threads per block, rounded up to whole warps of 32.
    pub threads: Option<u32>,
}

impl Comm {
    /// From the next call on, these hold, and no longer what [`crate::CommConfig`] had of the kind. The same on all ranks,
    /// between the same two calls, as all that calls are given. Graphs keep what they were captured with.
    pub fn set_overrides(&mut self, overrides: Overrides) {
        let Overrides { algorithm, ctas, threads } = overrides;
        self.set_wishes(algorithm, ctas, threads);
    }
}
