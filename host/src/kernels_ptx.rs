//! The kernels' PTX, which the crate carries: one module per compute capability, checked when the crate was built.

/// One module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelPtx {
    /// Lowest compute capability that runs it, as major × 10 + minor.
    pub sm: u32,
    /// PTX ISA version (major, minor). A driver reads it from the CUDA version on that brought it: 8.4 from CUDA 12.4.
    pub version: (u32, u32),
    /// The text.
    pub text: &'static str,
}

/// Every module, in ascending order of compute capability.
pub const MODULES: &[KernelPtx] = include!(concat!(env!("OUT_DIR"), "/kernels_ptx.rs"));

/// The module for a device of compute capability `sm` (major × 10 + minor): the highest that the device runs, or `None`
/// if it is older than all.
pub fn ptx_for(sm: u32) -> Option<&'static KernelPtx> {
    MODULES.iter().rev().find(|module| module.sm <= sm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_module_that_runs_is_taken() {
        for (sm, module) in
            [(75, None), (80, Some(80)), (86, Some(80)), (89, Some(80)), (90, Some(90)), (100, Some(90))]
        {
            assert_eq!(ptx_for(sm).map(|module| module.sm), module, "sm_{sm}");
        }
    }

    #[test]
    fn every_module_is_whole() {
        for module in MODULES {
            let (major, minor) = module.version;
            assert!(module.text.contains(&format!(".version {major}.{minor}")), "sm_{}", module.sm);
            assert!(module.text.contains(&format!(".target sm_{}", module.sm)), "sm_{}", module.sm);
        }
    }
}
