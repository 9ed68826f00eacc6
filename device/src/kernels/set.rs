//! How the kernels are divided into modules that are loaded one by one. For the host alone.

use super::{Dtype, KERNELS, KernelSpec, LOOPS, Op};

/// The kernels of one module: those of one element type and one operation, of whichever collective and algorithm; or all
/// loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelSet {
    /// Element type; `None` for kernels that move bytes of any type.
    pub dtype: Option<Dtype>,
    /// Reduction; `None` for kernels that do not reduce.
    pub op: Option<Op>,
    /// Whether these are the loops ([`LOOPS`]), whatever they reduce.
    pub is_loops: bool,
}

impl KernelSet {
    /// The kernels that do not reduce.
    pub const BYTES: Self = Self { dtype: None, op: None, is_loops: false };
    /// The loops.
    pub const LOOPS: Self = Self { is_loops: true, ..Self::BYTES };

    /// Every set that the table of kernels has, each once, in the table's order. The loops are none of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let is_first =
            |at: usize| KERNELS[..at].iter().all(|earlier| Self::of(earlier) != Self::of(&KERNELS[at]));
        (0..KERNELS.len()).filter(move |at| is_first(*at)).map(|at| Self::of(&KERNELS[at]))
    }

    /// Every set that the PTX for `sm` (80, 89 or 90) has kernels of, that of the loops last.
    pub fn all_for(sm: u32) -> impl Iterator<Item = Self> {
        let has_kernels = move |set: &Self| {
            KERNELS.iter().any(|kernel| Self::of(kernel) == *set && kernel.is_compiled_for(sm))
        };
        let loops = LOOPS.iter().any(|spec| spec.is_compiled_for(sm)).then_some(Self::LOOPS);
        Self::all().filter(has_kernels).chain(loops)
    }

    /// The set of the kernels that do `op` on `dtype`.
    pub fn for_op(dtype: Dtype, op: Op) -> Self {
        Self { dtype: Some(dtype.computed_as(op)), op: Some(op), is_loops: false }
    }

    /// The set of one kernel.
    pub fn of(kernel: &KernelSpec) -> Self {
        Self { dtype: kernel.dtype, op: kernel.op, is_loops: false }
    }
}

impl core::fmt::Display for KernelSet {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (dtype, op) = (self.dtype.map_or("any", Dtype::name), self.op.map_or("any", Op::name));
        match *self {
            Self::BYTES => write!(f, "bytes"),
            Self::LOOPS => write!(f, "loops"),
            _ => write!(f, "{dtype} {op}"),
        }
    }
}
