//! Numbers that stand for bytes.

/// FNV-1a: each byte goes through a bijection of the sum so far, so any single change is seen.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
