//! The one table of kernels. Compiled for the GPU a row becomes entry points; compiled for the CPU it becomes what
//! eligibility and dispatch read. A combination that is not here does not exist.

/// What the host knows of one kernel.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// Name of the entry point in the PTX.
    pub name: &'static str,
    /// What it does.
    pub collective: super::Collective,
    /// How.
    pub algorithm: super::Algorithm,
    /// Element type; `None` if the kernel moves bytes of any type.
    pub dtype: Option<super::Dtype>,
    /// Reduction; `None` if it does not reduce.
    pub op: Option<super::Op>,
    /// The least compute capability, as major × 10 + minor.
    pub sm_min: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! table {
    ($($collective:ident $algorithm:ident sm_min $sm:literal $kernel:ident { $($dtype:ident [$($op:ident)*])* })*) => {
        /// All kernels.
        pub static KERNELS: &[KernelSpec] = &[$($($(KernelSpec {
            name: concat!("symmem_", stringify!($kernel), "_", stringify!($dtype), "_", stringify!($op)),
            collective: super::Collective::$collective,
            algorithm: super::Algorithm::$algorithm,
            dtype: dtype::$dtype,
            op: op::$op,
            sm_min: $sm,
        },)*)*)*];
    };
}

#[cfg(all(target_arch = "nvptx64", not(feature = "kernels")))]
macro_rules! table {
    ($($row:tt)*) => {};
}

#[cfg(all(target_arch = "nvptx64", feature = "kernels"))]
macro_rules! table {
    ($($collective:ident $algorithm:ident sm_min $sm:literal $kernel:ident { $($dtype:ident [$($op:ident)*])* })*) => {
        $($($(const _: () = {
            #[unsafe(export_name = concat!("symmem_", stringify!($kernel), "_", stringify!($dtype), "_", stringify!($op)))]
            extern "ptx-kernel" fn entry(args: crate::abi::CollectiveArgs) {
                // The host launches these early: see `LaunchShape::waits_itself`.
                #[cfg(target_feature = "sm_90")]
                crate::ptx::griddepcontrol_wait();
                table!(@run $kernel $dtype $op (&args))
            }
        };)*)*)*
    };
    (@run $kernel:ident any any ($args:expr)) => { super::$kernel::$kernel($args) };
    (@run $kernel:ident $dtype:ident $op:ident ($args:expr)) => {
        super::$kernel::$kernel::<dtype::$dtype, op::$op>($args)
    };
}

#[cfg(not(symmem_mutant))]
table! {
    AllReduce Ll sm_min 80 all_reduce_ll {
        f32 [sum prod min max avg]
        f16 [sum prod min max avg]
        bf16 [sum prod min max avg]
    }
    AllReduce TwoShotLdSt sm_min 80 all_reduce_two_shot_ld_st {
        f32 [sum prod min max avg]
        f16 [sum prod min max avg]
        bf16 [sum prod min max avg]
    }
    AllGather Ll sm_min 80 all_gather_ll { any [any] }
    AllGather St sm_min 80 all_gather_st { any [any] }
}

// A mutant has one kernel for each source: the others are the same code in other types.
#[cfg(symmem_mutant)]
table! {
    AllReduce Ll sm_min 80 all_reduce_ll { f32 [sum] }
    AllReduce TwoShotLdSt sm_min 80 all_reduce_two_shot_ld_st { f32 [sum] }
    AllGather Ll sm_min 80 all_gather_ll { any [any] }
    AllGather St sm_min 80 all_gather_st { any [any] }
}

/// The words of the table as types of the device.
#[cfg(target_arch = "nvptx64")]
#[allow(non_camel_case_types, reason = "they are the table's words")]
#[cfg_attr(symmem_mutant, allow(dead_code, reason = "a mutant has few kernels"))]
mod dtype {
    pub(super) type f32 = crate::element::F32;
    pub(super) type f16 = crate::element::F16;
    pub(super) type bf16 = crate::element::Bf16;
}

#[cfg(target_arch = "nvptx64")]
#[allow(non_camel_case_types, reason = "they are the table's words")]
#[cfg_attr(symmem_mutant, allow(dead_code, reason = "a mutant has few kernels"))]
mod op {
    pub(super) type sum = crate::element::Sum;
    pub(super) type prod = crate::element::Prod;
    pub(super) type min = crate::element::Min;
    pub(super) type max = crate::element::Max;
    pub(super) type avg = crate::element::Avg;
}

/// The words of the table as values of the host.
#[cfg(not(target_arch = "nvptx64"))]
#[allow(non_upper_case_globals, reason = "they are the table's words")]
mod dtype {
    use crate::kernels::Dtype;
    pub(super) const f32: Option<Dtype> = Some(Dtype::F32);
    pub(super) const f16: Option<Dtype> = Some(Dtype::F16);
    pub(super) const bf16: Option<Dtype> = Some(Dtype::Bf16);
    pub(super) const any: Option<Dtype> = None;
}

#[cfg(not(target_arch = "nvptx64"))]
#[allow(non_upper_case_globals, reason = "they are the table's words")]
mod op {
    use crate::kernels::Op;
    pub(super) const sum: Option<Op> = Some(Op::Sum);
    pub(super) const prod: Option<Op> = Some(Op::Prod);
    pub(super) const min: Option<Op> = Some(Op::Min);
    pub(super) const max: Option<Op> = Some(Op::Max);
    pub(super) const avg: Option<Op> = Some(Op::Avg);
    pub(super) const any: Option<Op> = None;
}

#[cfg(not(target_arch = "nvptx64"))]
impl KernelSpec {
    /// Whether this kernel does `collective` on `dtype` with `op`.
    pub fn does(&self, collective: super::Collective, dtype: super::Dtype, op: Option<super::Op>) -> bool {
        self.collective == collective
            && self.dtype.is_none_or(|its| its == dtype)
            && self.op.is_none_or(|its| Some(its) == op)
    }
}

/// The kernel that does `collective` by `algorithm` on `dtype` with `op`, if there is one.
#[cfg(not(target_arch = "nvptx64"))]
pub fn find(
    collective: super::Collective,
    algorithm: super::Algorithm,
    dtype: super::Dtype,
    op: Option<super::Op>,
) -> Option<&'static KernelSpec> {
    KERNELS.iter().find(|kernel| kernel.algorithm == algorithm && kernel.does(collective, dtype, op))
}
