//! How the kernels are divided into modules.

use symmem_device::kernels::{Dtype, KERNELS, KernelSpec, Op};

/// The kernels of one element type and operation, which are loaded together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Set {
    dtype: Option<Dtype>,
    op: Option<Op>,
}

/// Every set that the table has for `sm`, each once.
pub(crate) fn sets(sm: u32) -> Vec<Set> {
    let mut sets = Vec::new();
    for kernel in KERNELS.iter().filter(|kernel| kernel.is_compiled_for(sm)) {
        let set = Set { dtype: kernel.dtype, op: kernel.op };
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
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

    /// The names of its kernels.
    pub(crate) fn kernels(&self) -> Vec<&'static str> {
        let is_one = |kernel: &&KernelSpec| Set { dtype: kernel.dtype, op: kernel.op } == *self;
        KERNELS.iter().filter(is_one).map(|kernel| kernel.name).collect()
    }
}
