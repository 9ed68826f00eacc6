//! Which kernel does a collective, and in what shape: a pure function of values that are equal on all ranks.

use crate::backend::LaunchShape;
use crate::kernels::THREADS_MAX;
use crate::{ErrorKind, Result};
use std::fmt;
use symmem_device::abi::{BARRIER_BLOCKS_MAX, LL_BLOCKS_MAX, LL_PAYLOAD_BYTES};
use symmem_device::kernels::{Algorithm, Collective, Dtype, KernelSpec, Op, find};

/// A collective to plan. Equal on all ranks: the call's values by contract, the rest by exchange at init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is done.
    pub collective: Collective,
    /// Elements: of the message in an all-reduce, of one rank's share in an all-gather.
    pub count: u64,
    /// Their type.
    pub dtype: Dtype,
    /// The reduction, where there is one.
    pub op: Option<Op>,
    /// Ranks.
    pub n_ranks: u32,
    /// What the ranks can do and want.
    pub capabilities: Capabilities,
}

/// What all ranks can do, and what rank 0 wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The least compute capability of a rank, as major × 10 + minor.
    pub sm: u32,
    /// Blocks of the largest size that every rank can have resident at once.
    pub blocks_max: u32,
    /// The algorithm to use wherever a kernel of it exists.
    pub algorithm: Option<Algorithm>,
    /// Blocks per launch, if they are not to be chosen.
    pub ctas: Option<u32>,
    /// Most threads per block, if they are not to be chosen.
    pub threads: Option<u32>,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kernel.
    pub kernel: &'static KernelSpec,
    /// Its launch.
    pub shape: LaunchShape,
    /// 8-byte words per block, for LL kernels.
    pub words_per_block: u32,
}

/// Messages up to this many bytes per rank and peer go by LL packets, whose two halves double the traffic but save two
/// barriers.
const LL_BYTES_MAX: u64 = 512 << 10;
/// Threads of the small LL blocks.
const LL_THREADS_SMALL: u32 = 128;
/// LL messages are spread over this many blocks before the blocks grow.
const LL_BLOCKS_SMALL: u32 = 64;
/// Bytes that one block of a barrier kernel should have to move at least.
const BYTES_PER_BARRIER_BLOCK: u64 = 16 << 10;

impl Problem {
    /// Bytes of the message or share; `None` if they do not fit in 64 bits.
    fn bytes(&self) -> Option<u64> {
        self.count.checked_mul(self.dtype.bytes())
    }

    fn kernel(&self, algorithm: Algorithm) -> Option<&'static KernelSpec> {
        let found = find(self.collective, algorithm, self.dtype, self.op);
        found.filter(|kernel| kernel.sm_min <= self.capabilities.sm)
    }

    fn name(&self) -> String {
        let op = self.op.map_or(String::new(), |op| format!(" {op}"));
        format!("{} of {}{op}", self.collective, self.dtype)
    }
}

/// The kernel and the shape for a problem.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`] if no kernel does it, [`ErrorKind::SizeOverflow`] if its bytes do not fit in 64 bits.
pub fn plan(problem: &Problem) -> Result<Plan> {
    let bytes = problem.bytes().ok_or_else(|| ErrorKind::SizeOverflow { what: problem.name() })?;
    let chosen = candidates(problem).find(|candidate| candidate.rejected.is_none());
    let kernel = chosen.and_then(|candidate| candidate.kernel).ok_or_else(|| ErrorKind::Unsupported {
        what: problem.name(),
        hint: "no kernel in the table does this combination".into(),
    })?;
    Ok(match kernel.algorithm {
        Algorithm::Ll => ll_shape(kernel, bytes, problem)?,
        Algorithm::TwoShotLdSt | Algorithm::St => barrier_shape(kernel, bytes, problem),
    })
}

/// The choice for a problem, the candidates, and why each of the others was not chosen.
pub fn explain(problem: &Problem) -> String {
    let head = match plan(problem) {
        Ok(plan) => format!(
            "{} × {} on {} ranks: {}, {} blocks of {} threads",
            problem.name(),
            problem.count,
            problem.n_ranks,
            plan.kernel.algorithm,
            plan.shape.blocks,
            plan.shape.threads
        ),
        Err(error) => error.to_string(),
    };
    let others = candidates(problem).filter_map(|candidate| {
        candidate.rejected.map(|why| format!("\n  not {}: {why}", candidate.algorithm))
    });
    others.fold(head, |text, line| text + &line)
}

struct Candidate {
    algorithm: Algorithm,
    kernel: Option<&'static KernelSpec>,
    rejected: Option<Rejection>,
}

/// Why an algorithm is not the choice. Put into words only when somebody asks.
enum Rejection {
    NoKernel,
    AnotherWasAskedFor(Algorithm),
    TooManyBytes { bytes: u64, bytes_max: u64 },
    TooFewBytes { bytes: u64, bytes_max: u64 },
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel => write!(f, "no kernel for this type and operation on these GPUs"),
            Self::AnotherWasAskedFor(algorithm) => write!(f, "{algorithm} was asked for"),
            Self::TooManyBytes { bytes, bytes_max } => {
                write!(f, "{bytes} bytes are more than {bytes_max}, up to which LL pays")
            }
            Self::TooFewBytes { bytes, bytes_max } => {
                write!(f, "{bytes} bytes are at most {bytes_max}, up to which LL saves its barriers")
            }
        }
    }
}

/// All algorithms, each with the reason why it is not the choice.
fn candidates(problem: &Problem) -> impl Iterator<Item = Candidate> {
    let bytes = problem.bytes().unwrap_or(u64::MAX);
    let wanted = problem.capabilities.algorithm.filter(|algorithm| problem.kernel(*algorithm).is_some());
    let bytes_max = LL_BYTES_MAX / u64::from(problem.n_ranks.max(2) - 1);
    Algorithm::ALL.iter().map(move |&algorithm| {
        let kernel = problem.kernel(algorithm);
        let is_ll = algorithm == Algorithm::Ll;
        let rejected = match (kernel, wanted) {
            (None, _) => Some(Rejection::NoKernel),
            (_, Some(wanted)) if wanted == algorithm => None,
            (_, Some(wanted)) => Some(Rejection::AnotherWasAskedFor(wanted)),
            _ if is_ll && bytes > bytes_max => Some(Rejection::TooManyBytes { bytes, bytes_max }),
            _ if !is_ll && bytes <= bytes_max => Some(Rejection::TooFewBytes { bytes, bytes_max }),
            _ => None,
        };
        Candidate { algorithm, kernel, rejected }
    })
}

/// One word a thread as long as that keeps the blocks few, then larger and more blocks.
fn ll_shape(kernel: &'static KernelSpec, bytes: u64, problem: &Problem) -> Result<Plan> {
    let words = bytes.div_ceil(LL_PAYLOAD_BYTES).max(1);
    let most = u64::from(threads_max(problem));
    let least = most.min(LL_THREADS_SMALL.into());
    let small_blocks = words.div_ceil(least).min(LL_BLOCKS_SMALL.into());
    let threads = words.div_ceil(small_blocks).next_multiple_of(32).clamp(least, most);
    let blocks = words.div_ceil(threads);
    let blocks = limited(blocks, LL_BLOCKS_MAX, problem);
    let shape = LaunchShape { blocks, threads: threads as u32, shared_bytes: 0, waits_itself: false };
    let words_per_block = u32::try_from(words.div_ceil(blocks.into()))
        .map_err(|_| ErrorKind::SizeOverflow { what: format!("{} by LL packets", problem.name()) })?;
    Ok(Plan { kernel, shape, words_per_block })
}

/// As many blocks as have enough to move.
fn barrier_shape(kernel: &'static KernelSpec, bytes: u64, problem: &Problem) -> Plan {
    let moved = match problem.collective {
        Collective::AllReduce => bytes.div_ceil(problem.n_ranks.max(1).into()),
        Collective::AllGather => bytes,
    };
    let blocks = limited(moved.div_ceil(BYTES_PER_BARRIER_BLOCK), BARRIER_BLOCKS_MAX.min(128), problem);
    let shape = LaunchShape { blocks, threads: threads_max(problem), shared_bytes: 0, waits_itself: false };
    Plan { kernel, shape, words_per_block: 0 }
}

/// Most threads of a block: whole warps.
fn threads_max(problem: &Problem) -> u32 {
    let wanted = problem.capabilities.threads.map_or(THREADS_MAX, |threads| threads.next_multiple_of(32));
    wanted.clamp(32, THREADS_MAX)
}

/// Never more blocks than can be resident, since a block waits for its peers.
fn limited(blocks: u64, algorithm_max: u32, problem: &Problem) -> u32 {
    let wanted = problem.capabilities.ctas.map_or(blocks, u64::from);
    wanted.clamp(1, algorithm_max.min(problem.capabilities.blocks_max).max(1).into()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use symmem_device::abi::DevBaseLayout;

    fn problem() -> impl Strategy<Value = Problem> {
        let op = prop::sample::select(Op::ALL);
        let dtype = prop::sample::select(Dtype::ALL);
        let collective = prop::sample::select(Collective::ALL);
        let wanted = prop::option::of(prop::sample::select(Algorithm::ALL));
        let ctas = prop::option::of(1u32..1000);
        let threads = prop::option::of(1u32..1000);
        let values = (collective, 0u64..1 << 32, dtype, op, 1u32..=72, 1u32..600, wanted, (ctas, threads));
        values.prop_map(|(collective, count, dtype, op, n_ranks, blocks_max, algorithm, limits)| Problem {
            collective,
            count,
            dtype,
            op: (collective == Collective::AllReduce).then_some(op),
            n_ranks,
            capabilities: Capabilities { sm: 90, blocks_max, algorithm, ctas: limits.0, threads: limits.1 },
        })
    }

    proptest! {
        /// Every plan is resident, inside DevBase, covers the message, and explains itself. Only for more words than
        /// 32 bits count may there be none.
        #[test]
        fn plans_are_launchable(problem in problem()) {
            let words = (problem.count * problem.dtype.bytes()).div_ceil(LL_PAYLOAD_BYTES);
            let plan = match plan(&problem) {
                Ok(plan) => plan,
                Err(error) => {
                    let is_too_large = matches!(error.kind(), ErrorKind::SizeOverflow { .. });
                    prop_assert!(is_too_large && words > u32::MAX.into(), "{}", error);
                    return Ok(());
                }
            };
            let blocks = plan.shape.blocks;
            prop_assert!(blocks >= 1 && blocks <= problem.capabilities.blocks_max);
            prop_assert!(plan.shape.threads.is_multiple_of(32) && plan.shape.threads <= THREADS_MAX);
            let limit = if plan.kernel.algorithm == Algorithm::Ll { LL_BLOCKS_MAX } else { BARRIER_BLOCKS_MAX };
            prop_assert!(blocks <= limit);
            if plan.kernel.algorithm == Algorithm::Ll {
                prop_assert!(u64::from(plan.words_per_block) * u64::from(blocks) >= words);
            }
            let text = explain(&problem);
            prop_assert!(text.contains(plan.kernel.algorithm.name()));
            prop_assert_eq!(text.matches("not ").count(), Algorithm::ALL.len() - 1);
        }
    }

    #[test]
    fn an_override_holds_where_a_kernel_exists() {
        let mut problem = Problem {
            collective: Collective::AllReduce,
            count: 2,
            dtype: Dtype::F32,
            op: Some(Op::Sum),
            n_ranks: 2,
            capabilities: Capabilities {
                sm: 90,
                blocks_max: 132,
                algorithm: Some(Algorithm::TwoShotLdSt),
                ctas: Some(9),
                threads: None,
            },
        };
        let chosen = plan(&problem).expect("exists");
        assert_eq!((chosen.kernel.algorithm, chosen.shape.blocks), (Algorithm::TwoShotLdSt, 9));
        problem.capabilities.algorithm = Some(Algorithm::St);
        assert_eq!(plan(&problem).expect("exists").kernel.algorithm, Algorithm::Ll);
    }

    #[test]
    fn dev_base_is_small_at_eight_ranks() {
        assert!(DevBaseLayout::new(8).len_bytes() <= 64 << 20);
    }
}
