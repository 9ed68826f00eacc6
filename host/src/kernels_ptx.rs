//! The kernels' PTX, which the crate carries compressed: one module per compute capability, element type and operation,
//! checked when the crate was built.

use symmem_device::kernels::{Dtype, KERNELS, KernelSpec, Op};

/// The kernels of one module: those of one element type and one operation, of whichever collective and algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelSet {
    /// Element type; `None` for kernels that move bytes of any type.
    pub dtype: Option<Dtype>,
    /// Reduction; `None` for kernels that do not reduce.
    pub op: Option<Op>,
}

/// One module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPtx {
    /// Lowest compute capability that runs it, as major × 10 + minor.
    pub sm: u32,
    /// PTX ISA version (major, minor). A driver reads it from the CUDA version on that brought it: 8.4 from CUDA 12.4.
    pub version: (u32, u32),
    /// What is in it.
    pub set: KernelSet,
    /// The text, deflated.
    compressed: &'static [u8],
}

/// Every module, in ascending order of compute capability.
pub const MODULES: &[KernelPtx] = include!(concat!(env!("OUT_DIR"), "/kernels_ptx.rs"));

impl KernelSet {
    /// Every set that the table of kernels has, each once, in the table's order.
    pub fn all() -> Vec<Self> {
        let mut sets = Vec::new();
        for kernel in KERNELS {
            let set = Self::of(kernel);
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        sets
    }

    /// The set of one kernel.
    pub fn of(kernel: &KernelSpec) -> Self {
        Self { dtype: kernel.dtype, op: kernel.op }
    }

    /// The set of the kernels that do `op` on `dtype`.
    pub fn for_op(dtype: Dtype, op: Op) -> Self {
        Self { dtype: Some(dtype.computed_as(op)), op: Some(op) }
    }
}

impl std::fmt::Display for KernelSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dtype, op) = (self.dtype.map_or("any", Dtype::name), self.op.map_or("any", Op::name));
        if (self.dtype, self.op) == (None, None) { write!(f, "bytes") } else { write!(f, "{dtype} {op}") }
    }
}

impl KernelPtx {
    /// The text.
    ///
    /// # Panics
    ///
    /// Never: the crate's own build has made what is unpacked here.
    pub fn text(&self) -> String {
        let bytes = miniz_oxide::inflate::decompress_to_vec(self.compressed).expect("deflated by the build");
        String::from_utf8(bytes).expect("PTX that the build read as text")
    }
}

/// What most modules for a device of compute capability `sm` (major × 10 + minor) were compiled for: the highest that
/// the device runs, or `None` if it is older than all.
pub fn sm_for(sm: u32) -> Option<u32> {
    MODULES.iter().rev().map(|module| module.sm).find(|its| *its <= sm)
}

/// The module of `set` for a device of compute capability `sm`: the highest that the device runs.
pub fn ptx_for(sm: u32, set: KernelSet) -> Option<&'static KernelPtx> {
    MODULES.iter().rev().find(|module| module.sm <= sm && module.set == set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_module_that_runs_is_taken() {
        for (sm, module) in
            [(75, None), (80, Some(80)), (86, Some(80)), (89, Some(89)), (90, Some(90)), (100, Some(90))]
        {
            assert_eq!(sm_for(sm), module, "sm_{sm}");
            for (dtype, sms) in [(Dtype::F32, &[80, 90][..]), (Dtype::E4m3, &[89, 90])] {
                let expected = sms.iter().copied().rfind(|its| *its <= sm);
                let set = KernelSet::for_op(dtype, Op::Sum);
                assert_eq!(ptx_for(sm, set).map(|module| module.sm), expected, "sm_{sm} {dtype}");
            }
        }
    }

    #[test]
    fn every_kernel_is_in_the_module_of_its_set_and_in_no_other() {
        for module in MODULES {
            let (text, (major, minor)) = (module.text(), module.version);
            assert!(text.contains(&format!(".version {major}.{minor}")), "sm_{} {}", module.sm, module.set);
            assert!(text.contains(&format!(".target sm_{}", module.sm)), "sm_{} {}", module.sm, module.set);
            for kernel in KERNELS.iter().filter(|kernel| kernel.is_compiled_for(module.sm)) {
                let is_there = text.contains(&format!(".visible .entry {}(", kernel.name));
                assert_eq!(
                    is_there,
                    KernelSet::of(kernel) == module.set,
                    "{} in {}",
                    kernel.name,
                    module.set
                );
            }
        }
        let mut names: Vec<_> = MODULES.iter().map(|module| (module.sm, module.set)).collect();
        names.dedup();
        assert_eq!(names.len(), MODULES.len());
    }
}
