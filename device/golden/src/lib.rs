//! One kernel for each primitive of `symmem_device::ptx`, so that a test can compare what each became with what its name
//! says. Also the smallest example of a device crate of one's own: it has kernels, and takes the DSL as a dependency.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]
#![cfg(target_arch = "nvptx64")]

use symmem_device::ptx;

macro_rules! kernels {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {$(
        /// The primitive of this name.
        ///
        /// # Safety
        ///
        /// Never launched.
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($($argument: $type),*) {
            // SAFETY: never launched.
            #[allow(unused_unsafe, reason = "some primitives are safe")]
            unsafe { $body }
        }
    )*};
}

kernels! {
    ld_weak_b8(a: u64, out: *mut u16) { *out = ptx::ld_weak_b8(a) }
    ld_weak_b16(a: u64, out: *mut u16) { *out = ptx::ld_weak_b16(a) }
    ld_weak_b32(a: u64, out: *mut u32) { *out = ptx::ld_weak_b32(a) }
    ld_weak_b64(a: u64, out: *mut u64) { *out = ptx::ld_weak_b64(a) }
    ld_weak_v2_b64(a: u64, out: *mut [u64; 2]) { *out = ptx::ld_weak_v2_b64(a) }
    ld_relaxed_sys_b32(a: u64, out: *mut u32) { *out = ptx::ld_relaxed_sys_b32(a) }
    ld_acquire_sys_b32(a: u64, out: *mut u32) { *out = ptx::ld_acquire_sys_b32(a) }
    mov_b32(a: u32, out: *mut u32) { *out = ptx::mov_b32(a) }
    mov_b64(a: u64, out: *mut u64) { *out = ptx::mov_b64(a) }
    ld_relaxed_sys_v2_b64(a: u64, out: *mut [u64; 2]) { *out = ptx::ld_relaxed_sys_v2_b64(a) }
    st_weak_b8(a: u64, value: u16) { ptx::st_weak_b8(a, value) }
    st_weak_b16(a: u64, value: u16) { ptx::st_weak_b16(a, value) }
    st_weak_b32(a: u64, value: u32) { ptx::st_weak_b32(a, value) }
    st_weak_b64(a: u64, value: u64) { ptx::st_weak_b64(a, value) }
    st_weak_v2_b64(a: u64, low: u64, high: u64) { ptx::st_weak_v2_b64(a, [low, high]) }
    st_relaxed_sys_b32(a: u64, value: u32) { ptx::st_relaxed_sys_b32(a, value) }
    st_relaxed_sys_v2_b64(a: u64, low: u64, high: u64) { ptx::st_relaxed_sys_v2_b64(a, [low, high]) }
    st_release_sys_b32(a: u64, value: u32) { ptx::st_release_sys_b32(a, value) }
    fence_acq_rel_sys() { ptx::fence_acq_rel_sys() }
    fence_proxy_alias() { ptx::fence_proxy_alias() }
    atom_relaxed_gpu_cas_b32(a: u64, expected: u32, new: u32, out: *mut u32) {
        *out = ptx::atom_relaxed_gpu_cas_b32(a, expected, new)
    }
    globaltimer_ns(out: *mut u64) { *out = ptx::globaltimer_ns() }
    griddepcontrol_wait() { ptx::griddepcontrol_wait() }
    griddepcontrol_launch_dependents() { ptx::griddepcontrol_launch_dependents() }
    bar_warp_sync(mask: u32) { ptx::bar_warp_sync(mask) }
    min_nan_f32(a: f32, b: f32, out: *mut f32) { *out = ptx::min_nan_f32(a, b) }
    max_nan_f32(a: f32, b: f32, out: *mut f32) { *out = ptx::max_nan_f32(a, b) }
    cvt_f32_f16(a: u16, out: *mut f32) { *out = ptx::cvt_f32_f16(a) }
    cvt_rn_f16x2_f32(high: f32, low: f32, out: *mut u32) { *out = ptx::cvt_rn_f16x2_f32(high, low) }
    cvt_rn_bf16x2_f32(high: f32, low: f32, out: *mut u32) { *out = ptx::cvt_rn_bf16x2_f32(high, low) }
    sync_threads() { symmem_device::thread::sync_threads() }
}

#[cfg(target_feature = "sm_90")]
kernels! {
    cvt_rn_satfinite_e4m3x2_f32(high: f32, low: f32, out: *mut u16) {
        *out = ptx::cvt_rn_satfinite_e4m3x2_f32(high, low)
    }
    cvt_rn_satfinite_e5m2x2_f32(high: f32, low: f32, out: *mut u16) {
        *out = ptx::cvt_rn_satfinite_e5m2x2_f32(high, low)
    }
    cvt_rn_f16x2_e4m3x2(a: u16, out: *mut u32) { *out = ptx::cvt_rn_f16x2_e4m3x2(a) }
    cvt_rn_f16x2_e5m2x2(a: u16, out: *mut u32) { *out = ptx::cvt_rn_f16x2_e5m2x2(a) }
    ld_relaxed_sys_b128(a: u64, out: *mut [u64; 2]) { *out = ptx::ld_relaxed_sys_b128(a) }
    st_relaxed_sys_b128(a: u64, low: u64, high: u64) { ptx::st_relaxed_sys_b128(a, [low, high]) }
    multimem_ld_reduce_relaxed_sys_add_f32(a: u64, out: *mut f32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_f32(a)
    }
    multimem_ld_reduce_relaxed_sys_add_f64(a: u64, out: *mut f64) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_f64(a)
    }
    multimem_ld_reduce_relaxed_sys_add_acc_f32_f16x2(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_acc_f32_f16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_add_acc_f32_bf16x2(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_acc_f32_bf16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_min_f16x2(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_f16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_max_f16x2(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_f16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_min_bf16x2(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_bf16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_max_bf16x2(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_bf16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_add_u32(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_u32(a)
    }
    multimem_ld_reduce_relaxed_sys_add_u64(a: u64, out: *mut u64) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_u64(a)
    }
    multimem_ld_reduce_relaxed_sys_min_u32(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_u32(a)
    }
    multimem_ld_reduce_relaxed_sys_max_u32(a: u64, out: *mut u32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_u32(a)
    }
    multimem_ld_reduce_relaxed_sys_min_s32(a: u64, out: *mut i32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_s32(a)
    }
    multimem_ld_reduce_relaxed_sys_max_s32(a: u64, out: *mut i32) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_s32(a)
    }
    multimem_ld_reduce_relaxed_sys_min_u64(a: u64, out: *mut u64) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_u64(a)
    }
    multimem_ld_reduce_relaxed_sys_max_u64(a: u64, out: *mut u64) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_u64(a)
    }
    multimem_ld_reduce_relaxed_sys_min_s64(a: u64, out: *mut i64) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_s64(a)
    }
    multimem_ld_reduce_relaxed_sys_max_s64(a: u64, out: *mut i64) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_s64(a)
    }
    multimem_ld_reduce_relaxed_sys_add_v4_f32(a: u64, out: *mut [u32; 4]) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_v4_f32(a)
    }
    multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_f16x2(a: u64, out: *mut [u32; 4]) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_f16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_bf16x2(a: u64, out: *mut [u32; 4]) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_bf16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_min_v4_f16x2(a: u64, out: *mut [u32; 4]) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_v4_f16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_max_v4_f16x2(a: u64, out: *mut [u32; 4]) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_v4_f16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_min_v4_bf16x2(a: u64, out: *mut [u32; 4]) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_min_v4_bf16x2(a)
    }
    multimem_ld_reduce_relaxed_sys_max_v4_bf16x2(a: u64, out: *mut [u32; 4]) {
        *out = ptx::multimem_ld_reduce_relaxed_sys_max_v4_bf16x2(a)
    }
    multimem_st_relaxed_sys_b32(a: u64, value: u32) { ptx::multimem_st_relaxed_sys_b32(a, value) }
    multimem_st_relaxed_sys_b64(a: u64, value: u64) { ptx::multimem_st_relaxed_sys_b64(a, value) }
    multimem_red_relaxed_sys_add_u32(a: u64, value: u32) { ptx::multimem_red_relaxed_sys_add_u32(a, value) }
    multimem_red_release_sys_add_u32(a: u64, value: u32) { ptx::multimem_red_release_sys_add_u32(a, value) }
    multimem_st_relaxed_sys_v4_f32(x: u64, a: u32, b: u32, c: u32, d: u32) {
        ptx::multimem_st_relaxed_sys_v4_f32(x, [a, b, c, d])
    }
}
