//! The one table of kernels. Compiled for the GPU a row becomes entry points; compiled for the CPU it becomes what
//! eligibility and dispatch read. A combination that is not here does not exist.
//!
//! The entries of each algorithm and type are a module of their own, so that the compiler makes code for several at once,
//! and after an edit for those alone that it reaches.

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
    ($($collective:ident $algorithm:ident $kernel:ident { $($sm:ident { $($dtype:ident [$($op:ident)*])* })* })*) => {
        /// All kernels.
        pub static KERNELS: &[KernelSpec] = &[$($($($(KernelSpec {
            name: concat!("symmem_", stringify!($kernel), "_", stringify!($dtype), "_", stringify!($op)),
            collective: super::Collective::$collective,
            algorithm: super::Algorithm::$algorithm,
            dtype: dtype::$dtype,
            op: op::$op,
            sm_min: $sm,
        },)*)*)*)*];
    };
}

#[cfg(all(target_arch = "nvptx64", not(feature = "kernels")))]
macro_rules! table {
    ($($row:tt)*) => {};
}

#[cfg(all(target_arch = "nvptx64", feature = "kernels"))]
macro_rules! table {
    ($($collective:ident $algorithm:ident $kernel:ident { $($sm:ident { $($dtype:ident [$($op:ident)*])* })* })*) => {
        $(mod $kernel {
            $($(mod $dtype {
                #[allow(unused_imports, reason = "kernels of bytes name no type")]
                use super::super::{dtype, op};
                $(table! { @entry $sm $kernel $dtype $op })*
            })*)*
        })*
    };
    // The module for sm_89 has what is new there; the rest of such a device's kernels are those of sm_80. A kernel of
    // sm_80 whose source asks for no device is, but for `griddepcontrol`, that of sm_90: with `symmem_by_sm` only the
    // others are compiled.
    (@entry by_sm $kernel:ident $dtype:ident $op:ident) => {
        #[cfg(any(not(target_feature = "sm_89"), target_feature = "sm_90"))]
        table! { @one $kernel $dtype $op }
    };
    (@entry sm_80 $kernel:ident $dtype:ident $op:ident) => {
        #[cfg(all(not(symmem_by_sm), any(not(target_feature = "sm_89"), target_feature = "sm_90")))]
        table! { @one $kernel $dtype $op }
    };
    (@entry sm_89 $kernel:ident $dtype:ident $op:ident) => {
        #[cfg(target_feature = "sm_89")]
        table! { @one $kernel $dtype $op }
    };
    (@entry sm_90 $kernel:ident $dtype:ident $op:ident) => {
        #[cfg(target_feature = "sm_90")]
        table! { @one $kernel $dtype $op }
    };
    // A mutant has one kernel for each source: the others are the same code in other types.
    (@one $kernel:ident f32 sum) => { table! { @make $kernel f32 sum } };
    (@one $kernel:ident any any) => { table! { @make $kernel any any } };
    (@one $kernel:ident $dtype:ident $op:ident) => {
        #[cfg(not(symmem_mutant))]
        table! { @make $kernel $dtype $op }
    };
    (@make $kernel:ident $dtype:ident $op:ident) => {
        const _: () = {
            #[unsafe(export_name = concat!("symmem_", stringify!($kernel), "_", stringify!($dtype), "_", stringify!($op)))]
            extern "ptx-kernel" fn entry(args: crate::abi::CollectiveArgs) {
                table!(@run $kernel $dtype $op (&args));
            }
        };
    };
    (@run $kernel:ident any any ($args:expr)) => { crate::kernels::$kernel($args) };
    (@run $kernel:ident $dtype:ident $op:ident ($args:expr)) => {
        crate::kernels::$kernel::<dtype::$dtype, op::$op>($args)
    };
}

/// Writes out the lists that rows name: the types, by the first device that has their kernels, each with its operations.
/// The first argument is every operation, the second those of signed whole numbers.
macro_rules! list {
    (all $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* {
        sm_80 {
            f64 $all f32 $all f16 $all bf16 $all
            u8 $all i8 $signed u32 $all i32 $signed u64 $all i64 $signed
        }
        sm_89 { e4m3 $all e5m2 $all }
    } } };
    // All; the source of some asks which device it is for.
    (all_by_sm $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* {
        by_sm { f64 $all f32 $all u32 $all i32 $signed u64 $all i64 $signed }
        sm_80 { f16 $all bf16 $all u8 $all i8 $signed }
        sm_89 { e4m3 $all e5m2 $all }
    } } };
    // Types of which 12 bytes are a whole number.
    (narrow $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* {
        sm_90 { f32 $all f16 $all bf16 $all e4m3 $all e5m2 $all u8 $all i8 $signed u32 $all i32 $signed }
    } } };
    // Types with a value to spare.
    (floats $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* {
        sm_80 { f64 $all f32 $all f16 $all bf16 $all }
        sm_89 { e4m3 $all e5m2 $all }
    } } };
    // The floats that are mostly reduced.
    (common $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* {
        sm_90 { f32 $all f16 $all bf16 $all }
    } } };
    // What the switch reduces: see `element::switched`.
    (switched $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* {
        sm_90 {
            f64 [sum avg] f32 [sum avg] f16 [sum] bf16 [sum]
            u32 [sum min max avg] i32 $signed u64 [sum min max avg] i64 $signed
        }
    } } };
    // Bytes of any type.
    (bytes $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* { sm_80 { any [any] } } } };
    // Bytes of any type, by instructions of sm_90.
    (bytes_sm_90 $all:tt $signed:tt => $($then:tt)*) => { kernels! { $($then)* { sm_90 { any [any] } } } };
}

/// Puts the list in the place of its name, row by row.
macro_rules! kernels {
    (@rows $done:tt $collective:ident $algorithm:ident $kernel:ident: $list:ident; $($rest:tt)*) => {
        list! { $list [sum prod min max avg] [min max avg] => @row $done [$($rest)*] $collective $algorithm $kernel }
    };
    (@row [$($done:tt)*] [$($rest:tt)*] $collective:ident $algorithm:ident $kernel:ident $types:tt) => {
        kernels! { @rows [$($done)* $collective $algorithm $kernel $types] $($rest)* }
    };
    (@rows [$($done:tt)*]) => { table! { $($done)* } };
    ($($row:tt)*) => { kernels! { @rows [] $($row)* } };
}

kernels! {
    AllReduce Ll all_reduce_ll: all;
    AllReduce Ll128 all_reduce_ll_128: narrow;
    AllReduce LlTwoShot all_reduce_ll_two_shot: all;
    AllReduce Sentinel all_reduce_sentinel: floats;
    AllReduce SentinelTwoShot all_reduce_sentinel_two_shot: floats;
    AllReduce TwoShotLdSt all_reduce_two_shot_ld_st: all;
    AllReduce TwoShotPush all_reduce_two_shot_push: all_by_sm;
    AllReduce Mc all_reduce_mc: switched;
    AllReduce LlMc all_reduce_ll_mc: common;
    ReduceScatter Ll reduce_scatter_ll: all;
    ReduceScatter Ll128 reduce_scatter_ll_128: narrow;
    ReduceScatter Sentinel reduce_scatter_sentinel: floats;
    ReduceScatter Ld reduce_scatter_ld: all;
    ReduceScatter Push reduce_scatter_push: all_by_sm;
    ReduceScatter LdMc reduce_scatter_ld_mc: switched;
    AllGather Ll all_gather_ll: bytes;
    AllGather Ll128 all_gather_ll_128: bytes_sm_90;
    AllGather Sentinel all_gather_sentinel: bytes;
    AllGather St all_gather_st: bytes;
    AllGather Ce all_gather_ce: bytes;
    AllGather LlMc all_gather_ll_mc: bytes_sm_90;
    AllGather StMc all_gather_st_mc: bytes_sm_90;
    Broadcast Ll broadcast_ll: bytes;
    Broadcast St broadcast_st: bytes;
    AllToAll Ll all_to_all_ll: bytes;
    AllToAll St all_to_all_st: bytes;
}

#[cfg(not(target_arch = "nvptx64"))]
#[allow(non_upper_case_globals, reason = "they are the table's words")]
const sm_80: u32 = 80;
#[cfg(not(target_arch = "nvptx64"))]
#[allow(non_upper_case_globals, reason = "they are the table's words")]
const by_sm: u32 = 80;
#[cfg(not(target_arch = "nvptx64"))]
#[allow(non_upper_case_globals, reason = "they are the table's words")]
const sm_89: u32 = 89;
#[cfg(not(target_arch = "nvptx64"))]
#[allow(non_upper_case_globals, reason = "they are the table's words")]
const sm_90: u32 = 90;

/// The words of the table as types of the device.
#[cfg(target_arch = "nvptx64")]
#[allow(non_camel_case_types, reason = "they are the table's words")]
#[cfg_attr(any(symmem_mutant, symmem_by_sm), allow(dead_code, reason = "not all kernels are there"))]
mod dtype {
    pub(super) type f64 = crate::element::F64;
    pub(super) type f32 = crate::element::F32;
    pub(super) type f16 = crate::element::F16;
    pub(super) type bf16 = crate::element::Bf16;
    pub(super) type e4m3 = crate::element::E4m3;
    pub(super) type e5m2 = crate::element::E5m2;
    pub(super) type i8 = crate::element::I8;
    pub(super) type u8 = crate::element::U8;
    pub(super) type i32 = crate::element::I32;
    pub(super) type u32 = crate::element::U32;
    pub(super) type i64 = crate::element::I64;
    pub(super) type u64 = crate::element::U64;
}

#[cfg(target_arch = "nvptx64")]
#[allow(non_camel_case_types, reason = "they are the table's words")]
#[cfg_attr(any(symmem_mutant, symmem_by_sm), allow(dead_code, reason = "not all kernels are there"))]
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
    pub(super) const f64: Option<Dtype> = Some(Dtype::F64);
    pub(super) const f32: Option<Dtype> = Some(Dtype::F32);
    pub(super) const f16: Option<Dtype> = Some(Dtype::F16);
    pub(super) const bf16: Option<Dtype> = Some(Dtype::Bf16);
    pub(super) const e4m3: Option<Dtype> = Some(Dtype::E4m3);
    pub(super) const e5m2: Option<Dtype> = Some(Dtype::E5m2);
    pub(super) const i8: Option<Dtype> = Some(Dtype::I8);
    pub(super) const u8: Option<Dtype> = Some(Dtype::U8);
    pub(super) const i32: Option<Dtype> = Some(Dtype::I32);
    pub(super) const u32: Option<Dtype> = Some(Dtype::U32);
    pub(super) const i64: Option<Dtype> = Some(Dtype::I64);
    pub(super) const u64: Option<Dtype> = Some(Dtype::U64);
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
            && self.dtype.is_none_or(|its| op.is_some_and(|op| its == dtype.computed_as(op)))
            && self.op.is_none_or(|its| Some(its) == op)
    }

    /// Whether the PTX for `sm` (80, 89 or 90) has it. That for 89 has only what 80 has not.
    pub fn is_compiled_for(&self, sm: u32) -> bool {
        if sm == 89 { self.sm_min == 89 } else { self.sm_min <= sm }
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
