//! Copies between host slices and mapped bytes, by atomics: other processes and the host may use the bytes meanwhile.

use super::access::{load, store};

/// Splits a range into single bytes up to a multiple of 8, words, and single bytes.
fn parts(address: u64, len_bytes: usize) -> (usize, usize) {
    let head = ((8 - address % 8) % 8) as usize;
    let head = head.min(len_bytes);
    (head, head + (len_bytes - head) / 8 * 8)
}

/// Copies `source` to mapped bytes.
///
/// # Safety
///
/// The bytes are mapped, and this process touches them only by atomics.
pub(crate) unsafe fn copy_in(address: u64, source: &[u8]) {
    let (head, body) = parts(address, source.len());
    let byte = |index: usize| {
        // SAFETY: `index` lies in the range that the caller vouches for.
        unsafe { store(address + index as u64, 1, source[index].into()) }
    };
    (0..head).chain(body..source.len()).for_each(byte);
    for (index, chunk) in source[head..body].as_chunks::<8>().0.iter().enumerate() {
        // SAFETY: the word lies in the range that the caller vouches for, at a multiple of 8.
        unsafe { store(address + (head + index * 8) as u64, 8, u64::from_ne_bytes(*chunk)) }
    }
}

/// Copies mapped bytes to `target`.
///
/// # Safety
///
/// As [`copy_in`].
pub(crate) unsafe fn copy_out(address: u64, target: &mut [u8]) {
    let (head, body) = parts(address, target.len());
    for index in (0..head).chain(body..target.len()) {
        // SAFETY: `index` lies in the range that the caller vouches for.
        target[index] = unsafe { load(address + index as u64, 1) } as u8;
    }
    for (index, chunk) in target[head..body].as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // SAFETY: the word lies in the range that the caller vouches for, at a multiple of 8.
        *chunk = unsafe { load(address + (head + index * 8) as u64, 8) }.to_ne_bytes();
    }
}

/// Sets mapped bytes.
///
/// # Safety
///
/// As [`copy_in`].
pub(crate) unsafe fn set(address: u64, byte: u8, len_bytes: u64) {
    let (head, body) = parts(address, len_bytes as usize);
    for index in (0..head).chain(body..len_bytes as usize) {
        // SAFETY: `index` lies in the range that the caller vouches for.
        unsafe { store(address + index as u64, 1, byte.into()) }
    }
    let word = u64::from_ne_bytes([byte; 8]);
    for index in (head..body).step_by(8) {
        // SAFETY: the word lies in the range that the caller vouches for, at a multiple of 8.
        unsafe { store(address + index as u64, 8, word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_and_length() {
        for (start, len) in (0..9).flat_map(|start| (0..30).map(move |len| (start, len))) {
            let mut bytes = [0xee_u8; 48];
            let source: Vec<u8> = (1..=len).collect();
            let mut back = vec![0; source.len()];
            let address = bytes.as_mut_ptr().expose_provenance() as u64 + start;
            // SAFETY: the range lies in `bytes`, which nothing else touches.
            unsafe {
                copy_in(address, &source);
                copy_out(address, &mut back);
            }
            assert_eq!(back, source);
            assert_eq!(bytes.iter().filter(|&&byte| byte == 0xee).count(), 48 - source.len());
            // SAFETY: as above.
            unsafe { set(address, 0xee, len.into()) };
            assert_eq!(bytes, [0xee; 48]);
        }
    }
}
