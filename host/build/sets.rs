//! A set of kernels as the build script writes it.

use symmem_device::kernels::{Dtype, KernelSet, Op};

/// For names of files.
pub(crate) fn name(set: KernelSet) -> String {
    if set == KernelSet::LOOPS {
        return "loops".into();
    }
    format!("{}_{}", set.dtype.map_or("any", Dtype::name), set.op.map_or("any", Op::name))
}

/// As an expression of the crate.
pub(crate) fn code(set: KernelSet) -> String {
    let dtype = set.dtype.map_or("None".into(), |dtype| format!("Some(Dtype::{dtype:?})"));
    let op = set.op.map_or("None".into(), |op| format!("Some(Op::{op:?})"));
    format!("KernelSet {{ dtype: {dtype}, op: {op}, is_loops: {} }}", set.is_loops)
}
