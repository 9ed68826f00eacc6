//! One function per PTX instruction: the only file of the project with `asm!`.
//!
//! The name of an access spells the instruction: `ld_relaxed_sys_v2_b64` is `ld.relaxed.sys.global.v2.b64`. `weak`
//! accesses have no order and no scope: other threads' accesses to the same bytes must be ordered around them (PTX ISA
//! 8.4). Addresses are global addresses and must be multiples of the size of the access.
//!
//! `multimem` functions take multicast addresses, reach the memory of all ranks at once, and need sm_90 (PTX ISA
//! 9.7.9.14); `ld_reduce` joins values in an order that the switch chooses, and a vector is several elements in no promised
//! order.
//!
//! No `core::sync::atomic` here or anywhere in device code: the backend drops the orderings.
//!
//! Functions that touch memory are `unsafe`: the caller vouches that the bytes are mapped for this device with the
//! rights the access needs.
#![expect(clippy::missing_safety_doc, reason = "the module documentation gives the one rule for all")]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "each block is one instruction, vouched for by the caller"
)]

use core::arch::asm;

macro_rules! loads {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal -> $class:ident $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: u64) -> $type {
            let value: $type;
            unsafe {
                asm!(concat!($mnemonic, " {value}, [{address}];"),
                    value = out($class) value, address = in(reg64) address, options(nostack, preserves_flags));
            }
            value
        }
    )*};
}

macro_rules! stores {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal <- $class:ident $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: u64, value: $type) {
            unsafe {
                asm!(concat!($mnemonic, " [{address}], {value};"),
                    address = in(reg64) address, value = in($class) value, options(nostack, preserves_flags));
            }
        }
    )*};
}

macro_rules! loads_v2 {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: u64) -> [u64; 2] {
            let (low, high): (u64, u64);
            unsafe {
                asm!(concat!($mnemonic, " {{{low}, {high}}}, [{address}];"),
                    low = out(reg64) low, high = out(reg64) high, address = in(reg64) address,
                    options(nostack, preserves_flags));
            }
            [low, high]
        }
    )*};
}

macro_rules! stores_v2 {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: u64, value: [u64; 2]) {
            unsafe {
                asm!(concat!($mnemonic, " [{address}], {{{low}, {high}}};"),
                    address = in(reg64) address, low = in(reg64) value[0], high = in(reg64) value[1],
                    options(nostack, preserves_flags));
            }
        }
    )*};
}

loads! {
    /// 1 byte.
    ld_weak_b8 = "ld.global.b8" -> reg16 u16;
    /// 2 bytes.
    ld_weak_b16 = "ld.global.b16" -> reg16 u16;
    /// 4 bytes.
    ld_weak_b32 = "ld.global.b32" -> reg32 u32;
    /// 8 bytes.
    ld_weak_b64 = "ld.global.b64" -> reg64 u64;
    /// 4 bytes, coherent between all devices and the host.
    ld_relaxed_sys_b32 = "ld.relaxed.sys.global.b32" -> reg32 u32;
    /// 4 bytes, coherent between all devices and the host; nothing behind it is performed before it.
    ld_acquire_sys_b32 = "ld.acquire.sys.global.b32" -> reg32 u32;
}

stores! {
    /// 1 byte: the low one.
    st_weak_b8 = "st.global.b8" <- reg16 u16;
    /// 2 bytes.
    st_weak_b16 = "st.global.b16" <- reg16 u16;
    /// 4 bytes.
    st_weak_b32 = "st.global.b32" <- reg32 u32;
    /// 8 bytes.
    st_weak_b64 = "st.global.b64" <- reg64 u64;
    /// 4 bytes, coherent between all devices and the host.
    st_relaxed_sys_b32 = "st.relaxed.sys.global.b32" <- reg32 u32;
    /// 4 bytes, behind everything that happened before in this thread's causality order.
    st_release_sys_b32 = "st.release.sys.global.b32" <- reg32 u32;
}

loads_v2! {
    /// 16 bytes as two elements, in no promised order. Bypasses the allocation of an L1 line: for data read once.
    ld_weak_v2_b64 = "ld.global.L1::no_allocate.v2.b64";
    /// 16 bytes as two elements, each single-copy atomic and coherent.
    ld_relaxed_sys_v2_b64 = "ld.relaxed.sys.global.v2.b64";
}

stores_v2! {
    /// 16 bytes as two elements, in no promised order.
    st_weak_v2_b64 = "st.global.v2.b64";
    /// 16 bytes as two elements, each single-copy atomic and coherent.
    st_relaxed_sys_v2_b64 = "st.relaxed.sys.global.v2.b64";
}

/// `ld.relaxed.sys.global.b128` (sm_90, PTX 8.4): 16 bytes, single-copy atomic and coherent, if they were stored by
/// [`st_relaxed_sys_b128`] (PTX ISA 8.2.2, 9.7.9.8).
#[inline(always)]
pub unsafe fn ld_relaxed_sys_b128(address: u64) -> [u64; 2] {
    let (low, high): (u64, u64);
    unsafe {
        asm!("{{ .reg .b128 %v; ld.relaxed.sys.global.b128 %v, [{address}]; mov.b128 {{{low}, {high}}}, %v; }}",
            low = out(reg64) low, high = out(reg64) high, address = in(reg64) address,
            options(nostack, preserves_flags));
    }
    [low, high]
}

/// `st.relaxed.sys.global.b128` (sm_90, PTX 8.4): 16 bytes, single-copy atomic and coherent.
#[inline(always)]
pub unsafe fn st_relaxed_sys_b128(address: u64, value: [u64; 2]) {
    unsafe {
        asm!("{{ .reg .b128 %v; mov.b128 %v, {{{low}, {high}}}; st.relaxed.sys.global.b128 [{address}], %v; }}",
            address = in(reg64) address, low = in(reg64) value[0], high = in(reg64) value[1],
            options(nostack, preserves_flags));
    }
}

macro_rules! moves {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal $class:ident $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(value: $type) -> $type {
            let moved: $type;
            // SAFETY: moves one register to another.
            unsafe {
                asm!(concat!($mnemonic, " {moved}, {value};"),
                    moved = out($class) moved, value = in($class) value, options(nostack, preserves_flags));
            }
            moved
        }
    )*};
}

moves! {
    /// `mov.b32`, which stays where it stands: what it moves is computed before whatever follows.
    mov_b32 = "mov.b32" reg32 u32;
    /// `mov.b64`, likewise.
    mov_b64 = "mov.b64" reg64 u64;
}

macro_rules! multimem_loads {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal -> $class:ident $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: u64) -> $type {
            let value: $type;
            unsafe {
                asm!(concat!("multimem.ld_reduce.relaxed.sys.global.", $mnemonic, " {value}, [{address}];"),
                    value = out($class) value, address = in(reg64) address, options(nostack, preserves_flags));
            }
            value
        }
    )*};
}

macro_rules! multimem_loads_v4 {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub unsafe fn $name(address: u64) -> [u32; 4] {
            let (a, b, c, d): (u32, u32, u32, u32);
            unsafe {
                asm!(
                    concat!("multimem.ld_reduce.relaxed.sys.global.", $mnemonic, " {{{a}, {b}, {c}, {d}}}, [{address}];"),
                    a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
                    address = in(reg64) address, options(nostack, preserves_flags));
            }
            [a, b, c, d]
        }
    )*};
}

multimem_loads! {
    /// Sum of f32.
    multimem_ld_reduce_relaxed_sys_add_f32 = "add.f32" -> reg32 f32;
    /// Sum of f64.
    multimem_ld_reduce_relaxed_sys_add_f64 = "add.f64" -> reg64 f64;
    /// Sums of two f16, added in f32.
    multimem_ld_reduce_relaxed_sys_add_acc_f32_f16x2 = "add.acc::f32.f16x2" -> reg32 u32;
    /// Sums of two bf16, added in f32.
    multimem_ld_reduce_relaxed_sys_add_acc_f32_bf16x2 = "add.acc::f32.bf16x2" -> reg32 u32;
    /// Least of each of two f16; a number is less than NaN.
    multimem_ld_reduce_relaxed_sys_min_f16x2 = "min.f16x2" -> reg32 u32;
    /// Greatest of each of two f16; a number is greater than NaN.
    multimem_ld_reduce_relaxed_sys_max_f16x2 = "max.f16x2" -> reg32 u32;
    /// Least of each of two bf16; a number is less than NaN.
    multimem_ld_reduce_relaxed_sys_min_bf16x2 = "min.bf16x2" -> reg32 u32;
    /// Greatest of each of two bf16; a number is greater than NaN.
    multimem_ld_reduce_relaxed_sys_max_bf16x2 = "max.bf16x2" -> reg32 u32;
    /// Sum of 32-bit integers, wrapping.
    multimem_ld_reduce_relaxed_sys_add_u32 = "add.u32" -> reg32 u32;
    /// Sum of 64-bit integers, wrapping.
    multimem_ld_reduce_relaxed_sys_add_u64 = "add.u64" -> reg64 u64;
    /// Least of unsigned integers.
    multimem_ld_reduce_relaxed_sys_min_u32 = "min.u32" -> reg32 u32;
    /// Greatest of unsigned integers.
    multimem_ld_reduce_relaxed_sys_max_u32 = "max.u32" -> reg32 u32;
    /// Least of signed integers.
    multimem_ld_reduce_relaxed_sys_min_s32 = "min.s32" -> reg32 i32;
    /// Greatest of signed integers.
    multimem_ld_reduce_relaxed_sys_max_s32 = "max.s32" -> reg32 i32;
    /// Least of unsigned integers.
    multimem_ld_reduce_relaxed_sys_min_u64 = "min.u64" -> reg64 u64;
    /// Greatest of unsigned integers.
    multimem_ld_reduce_relaxed_sys_max_u64 = "max.u64" -> reg64 u64;
    /// Least of signed integers.
    multimem_ld_reduce_relaxed_sys_min_s64 = "min.s64" -> reg64 i64;
    /// Greatest of signed integers.
    multimem_ld_reduce_relaxed_sys_max_s64 = "max.s64" -> reg64 i64;
}

multimem_loads_v4! {
    /// Sums of four f32.
    multimem_ld_reduce_relaxed_sys_add_v4_f32 = "add.v4.f32";
    /// Sums of eight f16, added in f32.
    multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_f16x2 = "add.acc::f32.v4.f16x2";
    /// Sums of eight bf16, added in f32.
    multimem_ld_reduce_relaxed_sys_add_acc_f32_v4_bf16x2 = "add.acc::f32.v4.bf16x2";
    /// Least of each of eight f16; a number is less than NaN.
    multimem_ld_reduce_relaxed_sys_min_v4_f16x2 = "min.v4.f16x2";
    /// Greatest of each of eight f16; a number is greater than NaN.
    multimem_ld_reduce_relaxed_sys_max_v4_f16x2 = "max.v4.f16x2";
    /// Least of each of eight bf16; a number is less than NaN.
    multimem_ld_reduce_relaxed_sys_min_v4_bf16x2 = "min.v4.bf16x2";
    /// Greatest of each of eight bf16; a number is greater than NaN.
    multimem_ld_reduce_relaxed_sys_max_v4_bf16x2 = "max.v4.bf16x2";
}

stores! {
    /// 4 bytes to all ranks, by a multicast address.
    multimem_st_relaxed_sys_b32 = "multimem.st.relaxed.sys.global.b32" <- reg32 u32;
    /// 8 bytes to all ranks, by a multicast address: single-copy atomic at each.
    multimem_st_relaxed_sys_b64 = "multimem.st.relaxed.sys.global.b64" <- reg64 u64;
    /// Adds 1 word at all ranks, by a multicast address.
    multimem_red_relaxed_sys_add_u32 = "multimem.red.relaxed.sys.global.add.u32" <- reg32 u32;
    /// The same, behind everything that happened before in this thread's causality order.
    multimem_red_release_sys_add_u32 = "multimem.red.release.sys.global.add.u32" <- reg32 u32;
}

/// `multimem.st.relaxed.sys.global.v4.f32`: 16 bytes to all ranks, by a multicast address, as four elements in no promised
/// order. Of this size there are floating-point types alone; the bits are stored as they are.
#[inline(always)]
pub unsafe fn multimem_st_relaxed_sys_v4_f32(address: u64, value: [u32; 4]) {
    unsafe {
        asm!("multimem.st.relaxed.sys.global.v4.f32 [{address}], {{{a}, {b}, {c}, {d}}};",
            address = in(reg64) address, a = in(reg32) value[0], b = in(reg32) value[1], c = in(reg32) value[2],
            d = in(reg32) value[3], options(nostack, preserves_flags));
    }
}

/// `fence.proxy.alias`: between accesses to the same bytes by two addresses, as a unicast and a multicast one (PTX ISA
/// 9.7.13.4).
#[inline(always)]
pub fn fence_proxy_alias() {
    unsafe { asm!("fence.proxy.alias;", options(nostack, preserves_flags)) }
}

/// `fence.acq_rel.sys`: behind a relaxed load it acquires, before a relaxed store it releases (PTX ISA 9.7.13.4).
#[inline(always)]
pub fn fence_acq_rel_sys() {
    unsafe { asm!("fence.acq_rel.sys;", options(nostack, preserves_flags)) }
}

/// `atom.relaxed.gpu.global.cas.b32`: stores `new` where `expected` stands; gives what stood there.
#[inline(always)]
pub unsafe fn atom_relaxed_gpu_cas_b32(address: u64, expected: u32, new: u32) -> u32 {
    let old: u32;
    unsafe {
        asm!("atom.relaxed.gpu.global.cas.b32 {old}, [{address}], {expected}, {new};",
            old = out(reg32) old, address = in(reg64) address, expected = in(reg32) expected, new = in(reg32) new,
            options(nostack, preserves_flags));
    }
    old
}

/// `%globaltimer`: nanoseconds since an arbitrary moment, in coarse steps.
#[inline(always)]
pub fn globaltimer_ns() -> u64 {
    let now: u64;
    unsafe {
        asm!("mov.u64 {now}, %globaltimer;", now = out(reg64) now, options(nostack, preserves_flags, nomem))
    }
    now
}

/// `bar.warp.sync`: converges the lanes of `mask`, which must name every lane that executes it.
#[inline(always)]
pub fn bar_warp_sync(mask: u32) {
    unsafe { asm!("bar.warp.sync {mask};", mask = in(reg32) mask, options(nostack, preserves_flags)) }
}

/// `griddepcontrol.wait` (sm_90): waits until the kernels before this one have ended and their accesses are performed. A
/// kernel that starts with it may be launched before they end.
#[inline(always)]
pub fn griddepcontrol_wait() {
    unsafe { asm!("griddepcontrol.wait;", options(nostack, preserves_flags)) }
}

/// `griddepcontrol.launch_dependents` (sm_90): once every block of the grid has come here or ended, the kernel behind this
/// one is launched, if it waits by itself.
#[inline(always)]
pub fn griddepcontrol_launch_dependents() {
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags)) }
}

/// `min.NaN.f32`: NaN if either is NaN; −0 is less than +0.
#[inline(always)]
pub fn min_nan_f32(a: f32, b: f32) -> f32 {
    let least: f32;
    unsafe {
        asm!("min.NaN.f32 {d}, {a}, {b};", d = out(reg32) least, a = in(reg32) a, b = in(reg32) b,
            options(nostack, preserves_flags, pure, nomem));
    }
    least
}

/// `max.NaN.f32`: NaN if either is NaN; −0 is less than +0.
#[inline(always)]
pub fn max_nan_f32(a: f32, b: f32) -> f32 {
    let greatest: f32;
    unsafe {
        asm!("max.NaN.f32 {d}, {a}, {b};", d = out(reg32) greatest, a = in(reg32) a, b = in(reg32) b,
            options(nostack, preserves_flags, pure, nomem));
    }
    greatest
}

/// `cvt.f32.f16`: exact.
#[inline(always)]
pub fn cvt_f32_f16(bits: u16) -> f32 {
    let wide: f32;
    unsafe {
        asm!("cvt.f32.f16 {d}, {a};", d = out(reg32) wide, a = in(reg16) bits,
            options(nostack, preserves_flags, pure, nomem));
    }
    wide
}

macro_rules! narrow_pairs {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal -> $class:ident $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(high: f32, low: f32) -> $type {
            let bits: $type;
            unsafe {
                asm!(concat!($mnemonic, " {bits}, {high}, {low};"),
                    bits = out($class) bits, high = in(reg32) high, low = in(reg32) low,
                    options(nostack, preserves_flags, pure, nomem));
            }
            bits
        }
    )*};
}

narrow_pairs! {
    /// Rounds two values to nearest, ties to even.
    cvt_rn_f16x2_f32 = "cvt.rn.f16x2.f32" -> reg32 u32;
    /// Rounds two values to nearest, ties to even.
    cvt_rn_bf16x2_f32 = "cvt.rn.bf16x2.f32" -> reg32 u32;
    /// Rounds two values to nearest, ties to even; what is too large becomes the largest finite value (sm_89).
    cvt_rn_satfinite_e4m3x2_f32 = "cvt.rn.satfinite.e4m3x2.f32" -> reg16 u16;
    /// Rounds two values to nearest, ties to even; what is too large becomes the largest finite value (sm_89).
    cvt_rn_satfinite_e5m2x2_f32 = "cvt.rn.satfinite.e5m2x2.f32" -> reg16 u16;
}

macro_rules! widened_pairs {
    ($($(#[$doc:meta])* $name:ident = $mnemonic:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(bits: u16) -> u32 {
            let wide: u32;
            unsafe {
                asm!(concat!($mnemonic, " {wide}, {bits};"), wide = out(reg32) wide, bits = in(reg16) bits,
                    options(nostack, preserves_flags, pure, nomem));
            }
            wide
        }
    )*};
}

widened_pairs! {
    /// Two fp8 values to f16: exact (sm_89).
    cvt_rn_f16x2_e4m3x2 = "cvt.rn.f16x2.e4m3x2";
    /// Two fp8 values to f16: exact (sm_89).
    cvt_rn_f16x2_e5m2x2 = "cvt.rn.f16x2.e5m2x2";
}
