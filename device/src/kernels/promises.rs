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

impl Promise {
    /// So many more of the same.
    pub(super) fn times_more(self, times: u32) -> Self {
        let at_most = self.at_most.map(|at_most| at_most + times);
        Self { at_least: self.at_least + times, at_most, ..self }
    }
}

/// The block barrier that gives every thread whether something holds in any.
pub(super) const BLOCK_BARRIER_OR: &str = "bar.red.or.pred";

pub(super) const fn some(instruction: &'static str) -> Promise {
    Promise { instruction, at_least: 1, at_most: None }
}

pub(super) const fn exactly(times: u32, instruction: &'static str) -> Promise {
    Promise { instruction, at_least: times, at_most: Some(times) }
}

const LL: &[Promise] = &[
    some("st.relaxed.sys.global.v2.b64"),
    some("ld.relaxed.sys.global.v2.b64"),
    some("fence.acq_rel.sys"),
    some("bar.sync"),
];

/// Slots of 16 bytes that are one access each, on both sides.
const LL_128: &[Promise] = &[
    some("st.relaxed.sys.global.b128"),
    some("ld.relaxed.sys.global.b128"),
    exactly(0, "st.relaxed.sys.global.v2.b64"),
    exactly(0, "ld.relaxed.sys.global.v2.b64"),
    some("fence.acq_rel.sys"),
    some("bar.sync"),
];

/// Two barriers across ranks, each with a block barrier before and after, none copied.
const BETWEEN_BARRIERS: &[Promise] = &[
    some("ld.global.L1::no_allocate.v2.b64"),
    some("st.global.v2.b64"),
    some("st.release.sys.global.b32"),
    some("ld.relaxed.sys.global.b32"),
    some("ld.acquire.sys"),
    exactly(4, BLOCK_BARRIER_OR),
];

/// One such barrier.
const BEHIND_A_BARRIER: &[Promise] = &[
    some("ld.global.L1::no_allocate.v2.b64"),
    some("st.global.v2.b64"),
    some("st.release.sys.global.b32"),
    some("ld.relaxed.sys.global.b32"),
    some("ld.acquire.sys"),
    exactly(2, BLOCK_BARRIER_OR),
];

/// One such barrier, and nothing else.
const A_BARRIER: &[Promise] = &[
    some("st.release.sys.global.b32"),
    some("ld.relaxed.sys.global.b32"),
    some("ld.acquire.sys"),
    exactly(2, BLOCK_BARRIER_OR),
];

/// Slots that are stored by halves to all ranks at once.
const LL_MC: &[Promise] = &[
    some("multimem.st.relaxed.sys.global.b64"),
    some("ld.relaxed.sys.global.v2.b64"),
    some("fence.proxy.alias"),
    some("fence.acq_rel.sys"),
    some("bar.sync"),
];

/// Two multicast barriers, none copied.
const BETWEEN_MC_BARRIERS: &[Promise] = &[
    exactly(2, "multimem.red.release.sys.global.add.u32"),
    some("fence.proxy.alias"),
    some("ld.relaxed.sys.global.b32"),
    some("fence.acq_rel.sys"),
    exactly(4, BLOCK_BARRIER_OR),
];

/// Kernels compiled for this compute capability or a later one wait by themselves for the work before them, so that they
/// may be launched early.
pub const WAITS_ITSELF_SM_MIN: u32 = 90;

/// What kernels keep that are launched early, compiled for [`WAITS_ITSELF_SM_MIN`] or later.
pub(super) const LAUNCHED_EARLY: &[Promise] = &[some("griddepcontrol.wait")];

impl KernelSpec {
    /// What its PTX for `sm` must hold.
    pub fn promises(&self, sm: u32) -> impl Iterator<Item = &'static Promise> {
        let by_algorithm = match self.algorithm {
            Algorithm::Ll | Algorithm::LlTwoShot | Algorithm::Sentinel | Algorithm::SentinelTwoShot => LL,
            Algorithm::Ll128 => LL_128,
            Algorithm::TwoShotLdSt | Algorithm::TwoShotPush | Algorithm::St | Algorithm::Ld => {
                BETWEEN_BARRIERS
            }
            Algorithm::Push => BEHIND_A_BARRIER,
            Algorithm::Ce => A_BARRIER,
            Algorithm::LlMc => LL_MC,
            Algorithm::Mc | Algorithm::LdMc | Algorithm::StMc => BETWEEN_MC_BARRIERS,
        };
        let early: &[Promise] = if sm >= WAITS_ITSELF_SM_MIN { LAUNCHED_EARLY } else { &[] };
        by_algorithm.iter().chain(early)
    }
}
