//! Which algorithm is the choice, why, and why each of the others is not.

use super::table::{Size, TuningKey, TuningRow, TypeClass};
use super::{Problem, tuning};
use std::fmt;
use symmem_device::kernels::{Algorithm, KernelSpec};

/// An algorithm, its kernel, and why it is not the choice.
pub(super) struct Candidate {
    pub(super) algorithm: Algorithm,
    pub(super) kernel: Option<&'static KernelSpec>,
    pub(super) rejected: Option<Rejection>,
}

/// Why an algorithm is not the choice. Put into words only when somebody asks.
pub(super) enum Rejection {
    NoKernel,
    NotByMultimem,
    NoMulticast(&'static str),
    AnotherWasAskedFor(Algorithm),
    AnotherWasMeasured { fastest: Algorithm, bytes: u64 },
    Slower { modelled_ns: u64, fastest: Algorithm, fastest_ns: u64 },
    NotModelled,
}

/// Why the chosen algorithm is the choice.
#[derive(Clone, Copy)]
pub(super) enum Choice<'a> {
    Asked(Algorithm),
    /// It, the row that says so, and up to how many bytes.
    Measured(Algorithm, &'a TuningRow, u64),
    /// It, and its time in nanoseconds.
    Modelled(Algorithm, u64),
}

impl<'a> Choice<'a> {
    /// `None` if nothing has a kernel.
    pub(super) fn of(problem: &Problem<'a>, bytes: u64) -> Option<Self> {
        let can_be = |algorithm: &Algorithm| problem.obstacle(*algorithm).is_none();
        if let Some(wanted) = problem.capabilities.algorithm.filter(can_be) {
            return Some(Self::Asked(wanted));
        }
        let measured = rows(problem).find_map(|row| {
            let (bytes_max, fastest) = row.at(bytes).filter(|(_, fastest)| can_be(fastest))?;
            Some(Self::Measured(fastest, row, bytes_max))
        });
        if measured.is_some() {
            return measured;
        }
        let all = Algorithm::ALL.iter().copied().filter(can_be);
        let timed = all.filter_map(|algorithm| {
            tuning::modelled_ns(algorithm, bytes, problem.n_ranks).map(|ns| (ns, algorithm))
        });
        timed.min_by_key(|(ns, _)| *ns).map(|(ns, algorithm)| Self::Modelled(algorithm, ns))
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Self::Asked(algorithm) | Self::Measured(algorithm, ..) | Self::Modelled(algorithm, _) => {
                algorithm
            }
        }
    }

    /// Why `other` is not it.
    fn rejects(self, other: Algorithm, bytes: u64, n_ranks: u32) -> Rejection {
        match (self, tuning::modelled_ns(other, bytes, n_ranks)) {
            (Self::Asked(wanted), _) => Rejection::AnotherWasAskedFor(wanted),
            (_, None) => Rejection::NotModelled,
            (Self::Measured(fastest, ..), _) => Rejection::AnotherWasMeasured { fastest, bytes },
            (Self::Modelled(fastest, fastest_ns), Some(modelled_ns)) => {
                Rejection::Slower { modelled_ns, fastest, fastest_ns }
            }
        }
    }
}

/// The rows of the tuning table that are for a problem, the best first: ranks that have multicast can do without.
fn rows<'a>(problem: &Problem<'a>) -> impl Iterator<Item = &'a TuningRow> {
    let capabilities = problem.capabilities;
    let key = TuningKey {
        sm: capabilities.sm,
        n_ranks: problem.n_ranks,
        has_multicast: false,
        collective: problem.collective,
        types: TypeClass::of(problem.collective, problem.dtype),
    };
    let with = problem.multicast.map(|_| TuningKey { has_multicast: true, ..key });
    with.into_iter().chain([key]).filter_map(move |key| capabilities.tuning.row(&key))
}

/// All algorithms, each with the reason why it is not the choice.
pub(super) fn candidates(problem: &Problem<'_>) -> impl Iterator<Item = Candidate> {
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

impl fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked(_) => write!(f, "it was asked for"),
            Self::Measured(_, row, u64::MAX) => {
                write!(f, "measured to be the fastest for all that is more: `{row}`")
            }
            Self::Measured(_, row, bytes_max) => {
                write!(f, "measured to be the fastest up to {} bytes: `{row}`", Size(*bytes_max))
            }
            Self::Modelled(_, ns) => write!(f, "the fastest by the model, {ns} ns; it was not measured"),
        }
    }
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
            Self::NotModelled => {
                write!(f, "is taken only where it is asked for, by name or in the tuning table")
            }
        }
    }
}
