//! Splitting a range of bytes into wide accesses and ragged ends.

use crate::element::{Pack, Unit};
use crate::ptx;

/// How a range is split: a head and a tail that go element by element, and a body of packs of `width_bytes`.
#[derive(Clone, Copy)]
pub struct Span {
    /// Bytes of a pack: 16, 8, 4 or 2 (or 1); the widest that both ends of a copy share.
    pub width_bytes: u64,
    /// Bytes before the first pack.
    pub head_bytes: u64,
    /// Packs.
    pub n_packs: u64,
    /// Bytes behind the last pack.
    pub tail_bytes: u64,
}

impl Span {
    /// Splits `len_bytes` at offset `a` and `b` of two buffers. `unit_bytes` divides all three.
    #[inline(always)]
    pub fn new(a: u64, b: u64, len_bytes: u64, unit_bytes: u64) -> Self {
        let width_bytes = widest(a ^ b, unit_bytes);
        let to_pack = a.wrapping_neg() & (width_bytes - 1);
        let head_bytes = if to_pack < len_bytes { to_pack } else { len_bytes };
        let body_bytes = len_bytes - head_bytes;
        Self {
            width_bytes,
            head_bytes,
            n_packs: body_bytes / width_bytes,
            tail_bytes: body_bytes & (width_bytes - 1),
        }
    }

    /// Where the tail starts.
    #[inline(always)]
    pub fn tail_start(self) -> u64 {
        self.head_bytes + self.n_packs * self.width_bytes
    }
}

#[inline(always)]
fn widest(difference: u64, unit_bytes: u64) -> u64 {
    let mut width = 16;
    while width > unit_bytes && difference & (width - 1) != 0 {
        width /= 2;
    }
    width
}

/// Loads a pack of `W` bytes as two words; narrower packs fill the low end.
///
/// # Safety
///
/// `address` is a multiple of `W` and mapped for reading.
#[inline(always)]
pub unsafe fn load_pack<const W: u64>(address: u64) -> [u64; 2] {
    // SAFETY: as the caller says.
    unsafe {
        match W {
            16 => ptx::ld_weak_v2_b64(address),
            8 => [ptx::ld_weak_b64(address), 0],
            4 => [ptx::ld_weak_b32(address) as u64, 0],
            2 => [ptx::ld_weak_b16(address) as u64, 0],
            _ => [ptx::ld_weak_b8(address) as u64, 0],
        }
    }
}

/// Stores a pack of `W` bytes; see [`load_pack`].
///
/// # Safety
///
/// `address` is a multiple of `W` and mapped for writing.
#[inline(always)]
pub unsafe fn store_pack<const W: u64>(address: u64, pack: [u64; 2]) {
    // SAFETY: as the caller says.
    unsafe {
        match W {
            16 => ptx::st_weak_v2_b64(address, pack),
            8 => ptx::st_weak_b64(address, pack[0]),
            4 => ptx::st_weak_b32(address, pack[0] as u32),
            2 => ptx::st_weak_b16(address, pack[0] as u16),
            _ => ptx::st_weak_b8(address, pack[0] as u16),
        }
    }
}

/// Loads the 8, 12 or 16 bytes of a slot by the widest accesses.
///
/// # Safety
///
/// `slot_bytes` from `address` on are mapped for reading; the address is a multiple of them, or of 4 if they are 12.
#[inline(always)]
pub unsafe fn load_whole(address: u64, slot_bytes: u64) -> Pack {
    // SAFETY: as the caller says.
    unsafe {
        match slot_bytes {
            16 => ptx::ld_weak_v2_b64(address),
            8 => [ptx::ld_weak_b64(address), 0],
            _ => {
                let load = |at: u64| ptx::ld_weak_b32(address + at) as u64;
                [load(0) | load(4) << 32, load(8)]
            }
        }
    }
}

/// Stores the 8, 12 or 16 bytes of a slot; see [`load_whole`].
///
/// # Safety
///
/// As for [`load_whole`], for writing.
#[inline(always)]
pub unsafe fn store_whole(address: u64, slot_bytes: u64, pack: Pack) {
    // SAFETY: as the caller says.
    unsafe {
        match slot_bytes {
            16 => ptx::st_weak_v2_b64(address, pack),
            8 => ptx::st_weak_b64(address, pack[0]),
            _ => {
                ptx::st_weak_b32(address, pack[0] as u32);
                ptx::st_weak_b32(address + 4, (pack[0] >> 32) as u32);
                ptx::st_weak_b32(address + 8, pack[1] as u32);
            }
        }
    }
}

/// Loads one unit.
///
/// # Safety
///
/// It is mapped for reading at `address`, a multiple of its size.
#[inline(always)]
pub unsafe fn load_unit<T: Unit>(address: u64) -> u64 {
    // SAFETY: as the caller says.
    unsafe {
        match T::BYTES {
            8 => ptx::ld_weak_b64(address),
            4 => ptx::ld_weak_b32(address) as u64,
            2 => ptx::ld_weak_b16(address) as u64,
            _ => ptx::ld_weak_b8(address) as u64,
        }
    }
}

/// Stores one unit: the low end of `bits`.
///
/// # Safety
///
/// It is mapped for writing at `address`, a multiple of its size.
#[inline(always)]
pub unsafe fn store_unit<T: Unit>(address: u64, bits: u64) {
    // SAFETY: as the caller says.
    unsafe {
        match T::BYTES {
            8 => ptx::st_weak_b64(address, bits),
            4 => ptx::st_weak_b32(address, bits as u32),
            2 => ptx::st_weak_b16(address, bits as u16),
            _ => ptx::st_weak_b8(address, bits as u16),
        }
    }
}
