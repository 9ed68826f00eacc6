//! Single accesses to mapped bytes.
//!
//! Every access up to 8 bytes is one hardware atomic of its width, so that the host and other processes, which may use
//! the same bytes at any time, see it whole (PTX ISA 8.2.1, "scalar accesses"). Loads acquire and stores release, which
//! no PTX order asks more of on x86-64.
//!
//! A 16-byte `.b128` access is single-copy atomic too (PTX ISA 8.2.2). On x86-64 it is one aligned 16-byte move, which
//! Intel and AMD guarantee to be atomic on every processor with AVX, and `cmpxchg16b` where there is no AVX. On other
//! architectures it is two 8-byte accesses, whole only among the threads of one machine, which run one at a time.

use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

macro_rules! atomic_at {
    ($type:ty, $address:expr) => {
        // SAFETY: the caller vouches for the range and its alignment; atomics may be shared with other processes.
        unsafe { <$type>::from_ptr(with_exposed_provenance_mut($address as usize)) }
    };
}

/// Loads `width_bytes` (1, 2, 4 or 8), zero-extended.
///
/// # Safety
///
/// The bytes are mapped for reading and writing, the address is a multiple of the width, and this process touches
/// them only by atomics.
#[inline(always)]
pub(crate) unsafe fn load(address: u64, width_bytes: u8) -> u64 {
    match width_bytes {
        1 => atomic_at!(AtomicU8, address).load(Ordering::Acquire).into(),
        2 => atomic_at!(AtomicU16, address).load(Ordering::Acquire).into(),
        4 => atomic_at!(AtomicU32, address).load(Ordering::Acquire).into(),
        _ => atomic_at!(AtomicU64, address).load(Ordering::Acquire),
    }
}

/// Stores the low `width_bytes` (1, 2, 4 or 8) of `value`.
///
/// # Safety
///
/// As [`load`].
#[inline(always)]
pub(crate) unsafe fn store(address: u64, width_bytes: u8, value: u64) {
    match width_bytes {
        1 => atomic_at!(AtomicU8, address).store(value as u8, Ordering::Release),
        2 => atomic_at!(AtomicU16, address).store(value as u16, Ordering::Release),
        4 => atomic_at!(AtomicU32, address).store(value as u32, Ordering::Release),
        _ => atomic_at!(AtomicU64, address).store(value, Ordering::Release),
    }
}

/// Replaces `width_bytes` (1, 2, 4 or 8) by `update` of what is there, whole; gives what was there and what is now.
///
/// # Safety
///
/// As [`load`].
pub(crate) unsafe fn modify(address: u64, width_bytes: u8, update: impl Fn(u64) -> u64) -> (u64, u64) {
    macro_rules! modify {
        ($type:ty, $word:ty) => {{
            let cell = atomic_at!($type, address);
            let mut old = cell.load(Ordering::Acquire);
            loop {
                let new = update(old.into()) as $word;
                match cell.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Acquire) {
                    Ok(_) => return (old.into(), new.into()),
                    Err(found) => old = found,
                }
            }
        }};
    }
    match width_bytes {
        1 => modify!(AtomicU8, u8),
        2 => modify!(AtomicU16, u16),
        4 => modify!(AtomicU32, u32),
        _ => modify!(AtomicU64, u64),
    }
}

/// Loads 16 bytes, low word first.
///
/// # Safety
///
/// As [`load`], with a width of 16.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn load_16(address: u64) -> [u64; 2] {
    if !std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: as promised by the caller.
        return unsafe { exchange_16(address, [0; 2], [0; 2]) };
    }
    let (low, high): (u64, u64);
    // SAFETY: an aligned 16-byte load of mapped memory; `pextrq` is part of SSE4.1, which AVX includes.
    unsafe {
        std::arch::asm!(
            "vmovdqa {vector}, xmmword ptr [{address}]",
            "vmovq {low}, {vector}",
            "vpextrq {high}, {vector}, 1",
            address = in(reg) address,
            vector = out(xmm_reg) _,
            low = out(reg) low,
            high = out(reg) high,
            options(nostack, preserves_flags),
        );
    }
    [low, high]
}

/// Stores 16 bytes, low word first.
///
/// # Safety
///
/// As [`load`], with a width of 16.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn store_16(address: u64, value: [u64; 2]) {
    if !std::arch::is_x86_feature_detected!("avx") {
        let mut expect = [0; 2];
        loop {
            // SAFETY: as promised by the caller.
            let found = unsafe { exchange_16(address, expect, value) };
            if found == expect {
                return;
            }
            expect = found;
        }
    }
    // SAFETY: an aligned 16-byte store to mapped memory; AVX was found.
    unsafe {
        std::arch::asm!(
            "vmovq {vector}, {low}",
            "vpinsrq {vector}, {vector}, {high}, 1",
            "vmovdqa xmmword ptr [{address}], {vector}",
            address = in(reg) address,
            vector = out(xmm_reg) _,
            low = in(reg) value[0],
            high = in(reg) value[1],
            options(nostack, preserves_flags),
        );
    }
}

/// Compares 16 bytes and swaps them if equal; gives what was there.
///
/// # Safety
///
/// As [`load`], with a width of 16.
#[cfg(target_arch = "x86_64")]
unsafe fn exchange_16(address: u64, expect: [u64; 2], new: [u64; 2]) -> [u64; 2] {
    let (low, high): (u64, u64);
    // SAFETY: an aligned exchange of mapped memory. `rbx` belongs to the compiler, so it is put back; the operands have
    // registers of their own, so that none of them is `rbx`.
    unsafe {
        std::arch::asm!(
            "xchg rbx, rsi",
            "lock cmpxchg16b xmmword ptr [rdi]",
            "mov rbx, rsi",
            in("rdi") address,
            inout("rsi") new[0] => _,
            in("rcx") new[1],
            inout("rax") expect[0] => low,
            inout("rdx") expect[1] => high,
            options(nostack),
        );
    }
    [low, high]
}

/// Loads 16 bytes, low word first.
///
/// # Safety
///
/// As [`load`], with a width of 16.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn load_16(address: u64) -> [u64; 2] {
    // SAFETY: as promised by the caller.
    unsafe { [load(address, 8), load(address + 8, 8)] }
}

/// Stores 16 bytes, low word first.
///
/// # Safety
///
/// As [`load`], with a width of 16.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn store_16(address: u64, value: [u64; 2]) {
    // SAFETY: as promised by the caller.
    unsafe {
        store(address, 8, value[0]);
        store(address + 8, 8, value[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(16))]
    struct Bytes([u8; 32]);

    fn address(bytes: &mut Bytes) -> u64 {
        bytes.0.as_mut_ptr().expose_provenance() as u64
    }

    #[test]
    fn each_width_touches_its_own_bytes() {
        for (width, expect) in [(1, 0x11), (2, 0x2211), (4, 0x4433_2211), (8, 0x8877_6655_4433_2211_u64)] {
            let mut bytes = Bytes([0xee; 32]);
            let at = address(&mut bytes) + 8;
            // SAFETY: the address lies in `bytes`, aligned, unshared.
            let found = unsafe {
                store(at, width, 0x8877_6655_4433_2211);
                load(at, width)
            };
            assert_eq!(found, expect);
            let changed = bytes.0.iter().filter(|&&byte| byte != 0xee).count();
            assert_eq!(changed, width as usize);
            // SAFETY: as above.
            assert_eq!(unsafe { modify(at, width, |old| old.wrapping_add(1)) }, (expect, expect + 1));
        }
    }

    #[test]
    fn sixteen_bytes_go_whole() {
        let mut bytes = Bytes([0; 32]);
        let at = address(&mut bytes) + 16;
        // SAFETY: the address lies in `bytes`, aligned, unshared.
        unsafe {
            store_16(at, [1, 2]);
            assert_eq!(load_16(at), [1, 2]);
            #[cfg(target_arch = "x86_64")]
            {
                assert_eq!(exchange_16(at, [1, 2], [3, 4]), [1, 2]);
                assert_eq!(exchange_16(at, [1, 2], [5, 6]), [3, 4]);
                assert_eq!(load_16(at), [3, 4]);
            }
        }
        assert_eq!(bytes.0[..16], [0; 16]);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn sixteen_bytes_never_tear() {
        const ROUNDS: u64 = 100_000;
        let mut bytes = Bytes([0; 32]);
        let at = address(&mut bytes);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // SAFETY: the address lies in `bytes`, aligned; both threads touch it by 16-byte accesses alone.
                (1..=ROUNDS).for_each(|round| unsafe { store_16(at, [round, !round]) });
            });
            let mut last = 0;
            while last < ROUNDS {
                // SAFETY: as above.
                let [low, high] = unsafe { load_16(at) };
                assert!(high == !low || [low, high] == [0, 0], "{low:#x} {high:#x}");
                assert!(low >= last);
                last = low;
            }
        });
    }
}
