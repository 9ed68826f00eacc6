//! The kernels' PTX, which the crate carries compressed: one module per compute capability, element type and operation,
//! checked when the crate was built.

pub use symmem_device::kernels::KernelSet;
use symmem_device::kernels::{Dtype, Op};

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
    use symmem_device::kernels::KERNELS;

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
