//! Which kernel does a collective, and in what shape: a pure function of values that are equal on all ranks.
//!
//! The algorithm that was asked for, if it has a kernel for the type and operation; else the one that was measured to be
//! fastest, if it has; else the fastest by the model.

mod tuning;

use crate::backend::{GraphFacts, LaunchShape};
use crate::kernels::THREADS_MAX;
use crate::{ErrorKind, Result};
use std::fmt;
use symmem_device::kernels::{Algorithm, Collective, Dtype, KERNELS, KernelSpec, Multicast, Op, find};
pub(crate) use tuning::{Form, form_of};

/// A collective to plan. Equal on all ranks: the call's values by contract, the rest by exchange at init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is done.
    pub collective: Collective,
    /// Elements: of the message in an all-reduce or a broadcast, of one rank's part in every other collective.
    pub count: u64,
    /// Their type.
    pub dtype: Dtype,
    /// The reduction, where there is one.
    pub op: Option<Op>,
    /// Ranks.
    pub n_ranks: u32,
    /// Which windows have multicast; `None` if the communicator has none.
    pub multicast: Option<Multicast>,
    /// What the ranks can do and want.
    pub capabilities: Capabilities,
}

/// What all ranks can do, and what rank 0 wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The least compute capability of a rank, as major × 10 + minor.
    pub sm: u32,
    /// Blocks of the largest size that every rank can have resident at once, of each algorithm's kernel.
    pub blocks_max: ByAlgorithm,
    /// The algorithm to use wherever a kernel of it exists.
    pub algorithm: Option<Algorithm>,
    /// Blocks per launch, if they are not to be chosen.
    pub ctas: Option<u32>,
    /// Most threads per block, if they are not to be chosen.
    pub threads: Option<u32>,
}

/// A number for each algorithm, in the order of [`Algorithm::ALL`].
pub type ByAlgorithm = [u32; Algorithm::ALL.len()];

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kernel.
    pub kernel: &'static KernelSpec,
    /// Its launch.
    pub shape: LaunchShape,
}

impl Plan {
    /// What one capture of it adds to a graph: a kernel node, or copy nodes between two. `in_place` spares the copy of a
    /// rank's own part.
    pub fn nodes(&self, n_ranks: u32, in_place: bool) -> GraphFacts {
        match self.kernel.algorithm {
            Algorithm::Ce => GraphFacts { n_nodes: 2 + n_ranks - u32::from(in_place), n_kernel_nodes: 2 },
            _ => GraphFacts { n_nodes: 1, n_kernel_nodes: 1 },
        }
    }
}

impl Problem {
    /// Bytes of the message or share; `None` if they do not fit in 64 bits.
    fn bytes(&self) -> Option<u64> {
        self.count.checked_mul(self.dtype.bytes())
    }

    fn kernel(&self, algorithm: Algorithm) -> Option<&'static KernelSpec> {
        let found = find(self.collective, algorithm, self.dtype, self.op);
        found.filter(|kernel| kernel.sm_min <= self.capabilities.sm)
    }

    /// Why an algorithm cannot be taken, if it cannot.
    fn obstacle(&self, algorithm: Algorithm) -> Option<Rejection> {
        let needs = algorithm.multicast();
        if self.kernel(algorithm).is_none() {
            let is_its = |kernel: &KernelSpec| {
                (kernel.collective, kernel.algorithm) == (self.collective, algorithm)
                    && kernel.sm_min <= self.capabilities.sm
            };
            let is_done = needs.is_some() && KERNELS.iter().any(is_its);
            return Some(if is_done { Rejection::NotByMultimem } else { Rejection::NoKernel });
        }
        let (needs, has) = (needs?, self.multicast);
        let lacks = match has {
            None => "the communicator",
            Some(has) if needs.input && !has.input => "the input",
            Some(has) if needs.output && !has.output => "the output",
            Some(_) => return None,
        };
        Some(Rejection::NoMulticast(lacks))
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
    Ok(Plan { kernel, shape: shape(kernel.algorithm, bytes, problem) })
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
    NotByMultimem,
    NoMulticast(&'static str),
    AnotherWasAskedFor(Algorithm),
    AnotherWasMeasured { fastest: Algorithm, bytes: u64 },
    Slower { modelled_ns: u64, fastest: Algorithm, fastest_ns: u64 },
    NotModelled,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel => write!(f, "no kernel for this collective, type and operation on these GPUs"),
            Self::NotByMultimem => write!(f, "multimem does not do this type and operation"),
            Self::NoMulticast(lacks) => write!(f, "{lacks} has no multicast"),
            Self::AnotherWasAskedFor(algorithm) => write!(f, "{algorithm} was asked for"),
            Self::AnotherWasMeasured { fastest, bytes } => {
                write!(f, "{fastest} was measured to be the fastest for {bytes} bytes")
            }
            Self::Slower { modelled_ns, fastest, fastest_ns } => {
                write!(f, "takes {modelled_ns} ns by the model, {fastest} {fastest_ns} ns")
            }
            Self::NotModelled => write!(f, "is taken only where it was measured to be the fastest"),
        }
    }
}

/// Why the chosen algorithm is the choice.
#[derive(Clone, Copy)]
enum Choice {
    Asked(Algorithm),
    Measured(Algorithm),
    /// It, and its time in nanoseconds.
    Modelled(Algorithm, u64),
}

impl Choice {
    /// `None` if nothing has a kernel.
    fn of(problem: &Problem, bytes: u64) -> Option<Self> {
        let can_be = |algorithm: &Algorithm| problem.obstacle(*algorithm).is_none();
        if let Some(wanted) = problem.capabilities.algorithm.filter(can_be) {
            return Some(Self::Asked(wanted));
        }
        let sm = problem.capabilities.sm;
        let fastest = tuning::fastest(sm, problem.n_ranks, problem.collective, bytes);
        if let Some(fastest) = fastest.filter(can_be) {
            return Some(Self::Measured(fastest));
        }
        let all = Algorithm::ALL.iter().copied().filter(can_be);
        let timed = all.filter_map(|algorithm| {
            tuning::modelled_ns(algorithm, bytes, problem.n_ranks).map(|ns| (ns, algorithm))
        });
        timed.min_by_key(|(ns, _)| *ns).map(|(ns, algorithm)| Self::Modelled(algorithm, ns))
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Self::Asked(algorithm) | Self::Measured(algorithm) | Self::Modelled(algorithm, _) => algorithm,
        }
    }

    /// Why `other` is not it.
    fn rejects(self, other: Algorithm, bytes: u64, n_ranks: u32) -> Rejection {
        match self {
            Self::Asked(wanted) => Rejection::AnotherWasAskedFor(wanted),
            Self::Measured(fastest) => Rejection::AnotherWasMeasured { fastest, bytes },
            Self::Modelled(fastest, fastest_ns) => match tuning::modelled_ns(other, bytes, n_ranks) {
                Some(modelled_ns) => Rejection::Slower { modelled_ns, fastest, fastest_ns },
                None => Rejection::NotModelled,
            },
        }
    }
}

/// All algorithms, each with the reason why it is not the choice.
fn candidates(problem: &Problem) -> impl Iterator<Item = Candidate> {
    let bytes = problem.bytes().unwrap_or(u64::MAX);
    let choice = Choice::of(problem, bytes);
    Algorithm::ALL.iter().map(move |&algorithm| {
        let rejected = problem.obstacle(algorithm).or_else(|| match choice {
            None => Some(Rejection::NoKernel),
            Some(choice) if choice.algorithm() == algorithm => None,
            Some(choice) => Some(choice.rejects(algorithm, bytes, problem.n_ranks)),
        });
        Candidate { algorithm, kernel: problem.kernel(algorithm), rejected }
    })
}

/// A slot a thread as long as that keeps the blocks few, then larger blocks, then more of them.
fn shape(algorithm: Algorithm, bytes: u64, problem: &Problem) -> LaunchShape {
    let form = form_of(algorithm);
    let n_parts = if form.is_divided { u64::from(problem.n_ranks.max(1)) } else { 1 };
    let slots = bytes.div_ceil(form.slot_bytes).div_ceil(n_parts).max(1);
    let threads_wanted = slots.div_ceil(form.slots_per_thread.into());
    let limit = problem.capabilities.threads.map_or(THREADS_MAX, |threads| threads.next_multiple_of(32));
    // A barrier takes a thread for each peer.
    let least = problem.n_ranks.next_multiple_of(32).clamp(32, THREADS_MAX);
    let [threads_min, threads_max] = [form.threads.0, form.threads.1]
        .map(|threads| u64::from(threads.min(limit.clamp(least, THREADS_MAX))));
    let small_blocks = threads_wanted.div_ceil(threads_min).min(form.blocks_small.into());
    let threads = threads_wanted.div_ceil(small_blocks).next_multiple_of(32).clamp(threads_min, threads_max);
    let capabilities = &problem.capabilities;
    // Blocks of the largest size leave as many registers to twice as many of half the size.
    let resident = capabilities.blocks_max[algorithm as usize] * (THREADS_MAX / threads as u32);
    let wanted = capabilities.ctas.map_or(threads_wanted.div_ceil(threads), u64::from);
    // Never more blocks than can be resident, since a block waits for its peers.
    let blocks = wanted.clamp(1, form.blocks_max.min(resident).max(1).into()) as u32;
    LaunchShape { blocks, threads: threads as u32, shared_bytes: 0, waits_itself: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem() -> impl Strategy<Value = Problem> {
        let op = prop::sample::select(Op::ALL);
        let dtype = prop::sample::select(Dtype::ALL);
        let collective = prop::sample::select(Collective::ALL);
        let wanted = prop::option::of(prop::sample::select(Algorithm::ALL));
        let windows = (any::<bool>(), any::<bool>()).prop_map(|(input, output)| Multicast { input, output });
        let limits = (prop::option::of(1u32..1000), prop::option::of(1u32..1000));
        let wishes = (wanted, prop::option::of(windows));
        let values = (collective, 0u64..1 << 40, dtype, op, 1u32..=72, 1u32..600, wishes, limits);
        values.prop_map(|(collective, count, dtype, op, n_ranks, blocks_max, wishes, limits)| Problem {
            collective,
            count,
            dtype,
            op: collective.reduces().then_some(op),
            n_ranks,
            multicast: wishes.1,
            capabilities: Capabilities {
                sm: 90,
                blocks_max: [blocks_max; Algorithm::ALL.len()],
                algorithm: wishes.0,
                ctas: limits.0,
                threads: limits.1,
            },
        })
    }

    proptest! {
        /// Every plan is resident, inside DevBase, and explains itself.
        #[test]
        fn plans_are_launchable(problem in problem()) {
            let plan = plan(&problem).expect("every combination has a kernel");
            let blocks = plan.shape.blocks;
            let resident = problem.capabilities.blocks_max[0] * (THREADS_MAX / plan.shape.threads);
            prop_assert!(blocks >= 1 && blocks <= resident);
            prop_assert!(plan.shape.threads.is_multiple_of(32) && plan.shape.threads <= THREADS_MAX);
            prop_assert!(plan.shape.threads >= problem.n_ranks);
            prop_assert!(blocks <= form_of(plan.kernel.algorithm).blocks_max);
            let text = explain(&problem);
            prop_assert!(text.contains(plan.kernel.algorithm.name()));
            let needs = plan.kernel.algorithm.multicast().unwrap_or(NONE);
            let has = problem.multicast.unwrap_or(NONE);
            prop_assert!(needs.input <= has.input && needs.output <= has.output);
            prop_assert_eq!(text.matches("\n  not ").count(), Algorithm::ALL.len() - 1);
        }
    }

    const NONE: Multicast = Multicast { input: false, output: false };

    fn on_two(collective: Collective, count: u64, dtype: Dtype, algorithm: Option<Algorithm>) -> Problem {
        let capabilities = Capabilities {
            sm: 90,
            blocks_max: [132; Algorithm::ALL.len()],
            algorithm,
            ctas: None,
            threads: None,
        };
        let op = collective.reduces().then_some(Op::Sum);
        Problem { collective, count, dtype, op, n_ranks: 2, multicast: None, capabilities }
    }

    #[test]
    fn an_override_holds_where_a_kernel_exists() {
        for (wanted, chosen) in [
            (Algorithm::TwoShotLdSt, Algorithm::TwoShotLdSt),
            (Algorithm::SentinelTwoShot, Algorithm::SentinelTwoShot),
            (Algorithm::St, Algorithm::Ll),
        ] {
            let mut problem = on_two(Collective::AllReduce, 2, Dtype::F32, Some(wanted));
            problem.capabilities.ctas = Some(9);
            let plan = plan(&problem).expect("exists");
            assert_eq!((plan.kernel.algorithm, plan.shape.blocks), (chosen, 9));
        }
    }

    /// What multimem does is what is asked for; all else goes on without it, and says why.
    #[test]
    fn multicast_is_for_what_has_it() {
        let both = Some(Multicast { input: true, output: true });
        let one = Some(Multicast { input: true, output: false });
        for (collective, dtype, algorithm, multicast, expected) in [
            (Collective::AllReduce, Dtype::Bf16, Algorithm::Mc, both, None),
            (Collective::AllReduce, Dtype::I64, Algorithm::Mc, both, None),
            (Collective::AllReduce, Dtype::E4m3, Algorithm::Mc, both, Some("mc: multimem does not do this")),
            (Collective::AllReduce, Dtype::F32, Algorithm::Mc, one, Some("mc: the output has no multicast")),
            (Collective::AllReduce, Dtype::F32, Algorithm::Mc, None, Some("mc: the communicator has no")),
            (Collective::AllReduce, Dtype::F32, Algorithm::LlMc, one, None),
            (Collective::ReduceScatter, Dtype::F32, Algorithm::LdMc, one, None),
            (Collective::ReduceScatter, Dtype::F32, Algorithm::Mc, both, Some("mc: no kernel")),
            (
                Collective::AllGather,
                Dtype::U8,
                Algorithm::StMc,
                one,
                Some("st_mc: the output has no multicast"),
            ),
            (Collective::AllGather, Dtype::U8, Algorithm::LlMc, one, None),
        ] {
            let problem = Problem { multicast, ..on_two(collective, 5, dtype, Some(algorithm)) };
            let chosen = plan(&problem).expect("exists").kernel.algorithm;
            let text = explain(&problem);
            match expected {
                None => assert_eq!(chosen, algorithm, "{text}"),
                Some(why) => assert!(chosen.multicast().is_none() && text.contains(why), "{text}"),
            }
        }
        let problem = Problem { multicast: both, ..on_two(Collective::AllReduce, 5, Dtype::F32, None) };
        assert!(explain(&problem).contains("not mc: "), "{}", explain(&problem));
    }

    #[test]
    fn small_goes_in_one_hop_and_large_by_parts() {
        for (collective, bytes, dtype, chosen) in [
            (Collective::AllReduce, 8, Dtype::F32, Algorithm::Ll),
            (Collective::AllReduce, 128 << 10, Dtype::F32, Algorithm::Sentinel),
            (Collective::AllReduce, 4 << 20, Dtype::Bf16, Algorithm::SentinelTwoShot),
            // Integers have no value to spare.
            (Collective::AllReduce, 1 << 20, Dtype::I32, Algorithm::Ll128),
            (Collective::AllReduce, 1 << 20, Dtype::U64, Algorithm::Ll),
            (Collective::AllReduce, 1 << 29, Dtype::F32, Algorithm::TwoShotPush),
            (Collective::ReduceScatter, 1 << 29, Dtype::F64, Algorithm::Push),
            (Collective::AllGather, 1 << 29, Dtype::U8, Algorithm::St),
        ] {
            let problem = on_two(collective, bytes / dtype.bytes(), dtype, None);
            let plan = plan(&problem).expect("exists");
            assert_eq!(plan.kernel.algorithm, chosen, "{collective} {bytes} {dtype}");
        }
    }
}
