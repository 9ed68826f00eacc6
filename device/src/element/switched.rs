//! Reductions that the switch does: what `multimem.ld_reduce` has (PTX ISA 9.7.9.14), and no more.
//!
//! It adds f32, f64, f16 and bf16 (these two in f32, with one rounding), and u32 and u64; it finds the least and the
//! greatest of 32- and 64-bit integers. It has no products and no types of 8 bits before sm_100. Its least and greatest
//! of floats lose NaN, so they are not used, and neither are its sums of f16 and bf16 for averages, which would be rounded
//! before the division as well as behind it.

use super::{Avg, Bf16, F16, F32, F64, I32, I64, Max, Min, Pack, Sum, U32, U64};
use crate::ptx;

/// A reduction `O` of elements that the switch does, all but its last step, [`super::Reduction::finish`].
pub trait Switched<O> {
    /// Joins 16 bytes at the same place of all ranks, in an order that the switch chooses.
    ///
    /// # Safety
    ///
    /// `address` is a multiple of 16 and a multicast address whose memory is bound at every rank.
    unsafe fn load_reduce(address: u64) -> Pack;
}

/// One vector of four words.
macro_rules! by_vectors {
    ($($type:ident $op:ident = $load:ident;)*) => {$(
        impl Switched<$op> for $type {
            #[inline(always)]
            unsafe fn load_reduce(address: u64) -> Pack {
                // SAFETY: as the caller says.
                let [a, b, c, d] = unsafe { ptx::$load(address) };
                [a as u64 | (b as u64) << 32, c as u64 | (d as u64) << 32]
            }
        }
    )*};
}

/// Four words one by one: integers have no vectors.
macro_rules! by_words {
    ($($type:ident $op:ident = $load:ident;)*) => {$(
        impl Switched<$op> for $type {
            #[inline(always)]
            unsafe fn load_reduce(address: u64) -> Pack {
                // SAFETY: as the caller says.
                let word = |at: u64| unsafe { ptx::$load(address + at) as u32 as u64 };
                [word(0) | word(4) << 32, word(8) | word(12) << 32]
            }
        }
    )*};
}

/// Two words of 8 bytes one by one.
macro_rules! by_long_words {
    ($($type:ident $op:ident = $load:ident as $bits:expr;)*) => {$(
        impl Switched<$op> for $type {
            #[inline(always)]
            unsafe fn load_reduce(address: u64) -> Pack {
                // SAFETY: as the caller says.
                unsafe { [$bits(ptx::$load(address)), $bits(ptx::$load(address + 8))] }
            }
        }
    )*};
}

by_vectors! {
    F32 Sum = multimem_ld_reduce_relaxed_sys_add_v4_f32;
    F32 Avg = multimem_ld_reduce_relaxed_sys_add_v4_f32;
    F16 Sum = multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_f16x2;
    Bf16 Sum = multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_bf16x2;
}

by_words! {
    U32 Sum = multimem_ld_reduce_relaxed_sys_add_u32;
    U32 Avg = multimem_ld_reduce_relaxed_sys_add_u32;
    U32 Min = multimem_ld_reduce_relaxed_sys_min_u32;
    U32 Max = multimem_ld_reduce_relaxed_sys_max_u32;
    I32 Avg = multimem_ld_reduce_relaxed_sys_add_u32;
    I32 Min = multimem_ld_reduce_relaxed_sys_min_s32;
    I32 Max = multimem_ld_reduce_relaxed_sys_max_s32;
}

by_long_words! {
    F64 Sum = multimem_ld_reduce_relaxed_sys_add_f64 as f64::to_bits;
    F64 Avg = multimem_ld_reduce_relaxed_sys_add_f64 as f64::to_bits;
    U64 Sum = multimem_ld_reduce_relaxed_sys_add_u64 as u64::from;
    U64 Avg = multimem_ld_reduce_relaxed_sys_add_u64 as u64::from;
    U64 Min = multimem_ld_reduce_relaxed_sys_min_u64 as u64::from;
    U64 Max = multimem_ld_reduce_relaxed_sys_max_u64 as u64::from;
    I64 Avg = multimem_ld_reduce_relaxed_sys_add_u64 as u64::from;
    I64 Min = multimem_ld_reduce_relaxed_sys_min_s64 as i64::cast_unsigned;
    I64 Max = multimem_ld_reduce_relaxed_sys_max_s64 as i64::cast_unsigned;
}
