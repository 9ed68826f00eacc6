//! Splitting a range of bytes into wide accesses and ragged ends.

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

/// Loads up to 8 bytes as one word, by the widest accesses that their address and number allow.
///
/// # Safety
///
/// `len_bytes` (1 to 8) from `address` on are mapped for reading.
#[inline(always)]
pub unsafe fn load_word(address: u64, len_bytes: u64) -> u64 {
    // SAFETY: as the caller says; the low bits of address and length say which accesses are aligned and inside.
    unsafe {
        // Tests in a row, the likely ones first: a jump table costs more than all of them.
        let low_bits = address | len_bytes;
        if low_bits & 7 == 0 {
            ptx::ld_weak_b64(address)
        } else if low_bits & 3 == 0 {
            let high = if len_bytes == 8 { ptx::ld_weak_b32(address + 4) as u64 } else { 0 };
            ptx::ld_weak_b32(address) as u64 | high << 32
        } else if low_bits & 1 == 0 {
            gather::<2>(address, len_bytes)
        } else {
            gather::<1>(address, len_bytes)
        }
    }
}

/// Stores the low `len_bytes` of a word; see [`load_word`].
///
/// # Safety
///
/// `len_bytes` (1 to 8) from `address` on are mapped for writing.
#[inline(always)]
pub unsafe fn store_word(address: u64, len_bytes: u64, word: u64) {
    // SAFETY: as in `load_word`.
    unsafe {
        let low_bits = address | len_bytes;
        if low_bits & 7 == 0 {
            ptx::st_weak_b64(address, word)
        } else if low_bits & 3 == 0 {
            ptx::st_weak_b32(address, word as u32);
            if len_bytes == 8 {
                ptx::st_weak_b32(address + 4, (word >> 32) as u32);
            }
        } else if low_bits & 1 == 0 {
            scatter::<2>(address, len_bytes, word)
        } else {
            scatter::<1>(address, len_bytes, word)
        }
    }
}

#[inline(always)]
unsafe fn gather<const W: u64>(address: u64, len_bytes: u64) -> u64 {
    let (mut word, mut at) = (0, 0);
    while at < len_bytes {
        // SAFETY: `at` is inside the caller's bytes.
        word |= unsafe { load_pack::<W>(address + at) }[0] << (8 * at);
        at += W;
    }
    word
}

#[inline(always)]
unsafe fn scatter<const W: u64>(address: u64, len_bytes: u64, word: u64) {
    let mut at = 0;
    while at < len_bytes {
        // SAFETY: `at` is inside the caller's bytes.
        unsafe { store_pack::<W>(address + at, [word >> (8 * at), 0]) };
        at += W;
    }
}
