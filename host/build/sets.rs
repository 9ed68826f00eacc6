//! How the kernels are divided into modules.

use symmem_device::kernels::{Dtype, KERNELS, Op};

/// The kernels of one element type and operation, which are loaded together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set {
    dtype: Option<Dtype>,
    op: Option<Op>,
}

/// Every set of the table, each once.
pub(crate) fn sets() -> Vec<Set> {
    let mut sets: Vec<Set> =
        KERNELS.iter().map(|kernel| Set { dtype: kernel.dtype, op: kernel.op }).collect();
    let mut seen = Vec::new();
    sets.retain(|set| {
        !seen.contains(set) && {
            seen.push(*set);
            true
        }
    });
    sets
}

impl Set {
    /// For names of files.
    pub(crate) fn name(&self) -> String {
        format!("{}_{}", self.dtype.map_or("any", Dtype::name), self.op.map_or("any", Op::name))
    }

    /// As an expression of the crate.
    pub(crate) fn code(&self) -> String {
        let dtype = self.dtype.map_or("None".into(), |dtype| format!("Some(Dtype::{dtype:?})"));
        let op = self.op.map_or("None".into(), |op| format!("Some(Op::{op:?})"));
        format!("KernelSet {{ dtype: {dtype}, op: {op} }}")
    }

    /// Whether a kernel is one of the set.
    pub(crate) fn has(&self, name: &str) -> bool {
        KERNELS
            .iter()
            .any(|kernel| kernel.name == name && Set { dtype: kernel.dtype, op: kernel.op } == *self)
    }
}
