//! Which kernel does a collective, and in what shape: a pure function of values that are equal on all ranks.
//!
//! The algorithm that was asked for, if it has a kernel for the type and operation; else the one that was measured to be
//! fastest, if it has; else the fastest by the model.

mod choice;
mod table;
#[cfg(test)]
mod tests;
mod tuning;

use crate::backend::{GraphFacts, LaunchShape};
use crate::kernels::THREADS_MAX;
use crate::{ErrorKind, Result};
use choice::{Choice, Rejection, candidates};
use symmem_device::kernels::{Algorithm, Collective, Dtype, KERNELS, KernelSpec, Multicast, Op, find};
pub use table::{TuningKey, TuningRow, TuningTable, TypeClass};
pub(crate) use tuning::{Form, form_of};

/// A collective to plan. Equal on all ranks: the call's values by contract, the rest by exchange at init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem<'a> {
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
    pub capabilities: Capabilities<'a>,
}

/// What all ranks can do, and what rank 0 wants and knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities<'a> {
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
    /// What was measured.
    pub tuning: &'a TuningTable,
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
    /// rank's own part. Where calls are checked ([`crate::CommConfig::check`]) there are two kernel nodes more.
    pub fn nodes(&self, n_ranks: u32, in_place: bool) -> GraphFacts {
        match self.kernel.algorithm {
            Algorithm::Ce => GraphFacts { n_nodes: 2 + n_ranks - u32::from(in_place), n_kernel_nodes: 2 },
            _ => GraphFacts { n_nodes: 1, n_kernel_nodes: 1 },
        }
    }
}

impl Problem<'_> {
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
pub fn plan(problem: &Problem<'_>) -> Result<Plan> {
    let bytes = problem.bytes().ok_or_else(|| ErrorKind::SizeOverflow { what: problem.name() })?;
    let chosen = candidates(problem).find(|candidate| candidate.rejected.is_none());
    let kernel = chosen.and_then(|candidate| candidate.kernel).ok_or_else(|| ErrorKind::Unsupported {
        what: problem.name(),
        hint: "no kernel in the table does this combination".into(),
    })?;
    Ok(Plan { kernel, shape: shape(kernel.algorithm, bytes, problem) })
}

/// The choice for a problem, the candidates, and why each of the others was not chosen.
pub fn explain(problem: &Problem<'_>) -> String {
    let head = match plan(problem) {
        Ok(plan) => format!(
            "{} × {} on {} ranks: {}, {} block{} of {} threads",
            problem.name(),
            problem.count,
            problem.n_ranks,
            plan.kernel.algorithm,
            plan.shape.blocks,
            if plan.shape.blocks == 1 { "" } else { "s" },
            plan.shape.threads
        ),
        Err(error) => error.to_string(),
    };
    let others = candidates(problem).filter_map(|candidate| {
        candidate.rejected.map(|why| format!("\n  not {}: {why}", candidate.algorithm))
    });
    let choice = problem.bytes().and_then(|bytes| Choice::of(problem, bytes));
    let head = choice.map_or(head.clone(), |choice| format!("{head}\n  since {choice}"));
    others.fold(head, |text, line| text + &line)
}

/// A slot a thread as long as that keeps the blocks few, then larger blocks, then more of them.
fn shape(algorithm: Algorithm, bytes: u64, problem: &Problem<'_>) -> LaunchShape {
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
