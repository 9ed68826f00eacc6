//! The instructions that each algorithm's kernels must consist of. The build refuses PTX that breaks a promise: a
//! vector access that was split would tear an LL packet, and a copied barrier may stand in a divergent branch.

use super::{Algorithm, KernelSpec};

/// How often an instruction stands in a kernel's PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Leading words of the instruction.
    pub instruction: &'static str,
    /// Fewest occurrences.
    pub at_least: u32,
    /// Most occurrences, if there is a most.
    pub at_most: Option<u32>,
}

const fn some(instruction: &'static str) -> Promise {
    Promise { instruction, at_least: 1, at_most: None }
}

const fn exactly(times: u32, instruction: &'static str) -> Promise {
    Promise { instruction, at_least: times, at_most: Some(times) }
}

const LL: &[Promise] = &[
    some("st.relaxed.sys.global.v2.b64"),
    some("ld.relaxed.sys.global.v2.b64"),
    some("fence.acq_rel.sys"),
    some("bar.sync"),
];

/// Two barriers across ranks, each with a block barrier before and after.
const BETWEEN_BARRIERS: &[Promise] = &[
    some("ld.global.L1::no_allocate.v2.b64"),
    some("st.global.v2.b64"),
    some("st.release.sys.global.b32"),
    some("ld.relaxed.sys.global.b32"),
    some("fence.acq_rel.sys"),
    exactly(4, "bar.sync"),
];

impl KernelSpec {
    /// What its PTX must hold.
    pub const fn promises(&self) -> &'static [Promise] {
        match self.algorithm {
            Algorithm::Ll => LL,
            Algorithm::TwoShotLdSt | Algorithm::St => BETWEEN_BARRIERS,
        }
    }
}
