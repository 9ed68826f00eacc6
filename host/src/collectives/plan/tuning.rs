//! What the plan knows of algorithms: how they are launched, and a model for what was not measured.

use symmem_device::abi::{
    BARRIER_BLOCKS_MAX, LL_128_PAYLOAD_BYTES, LL_BLOCKS_MAX, LL_PAYLOAD_BYTES, PUSH_BLOCKS_MAX,
    SENTINEL_BLOCKS_MAX, SENTINEL_PAYLOAD_BYTES,
};
use symmem_device::kernels::Algorithm;

/// How an algorithm is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Bytes of a slot or pack.
    pub(crate) slot_bytes: u64,
    /// Whether the message is divided among the ranks.
    pub(crate) is_divided: bool,
    /// Threads of a block, at least and at most; they grow once there are [`Self::blocks_small`] blocks.
    pub(crate) threads: (u32, u32),
    /// A message is spread over this many blocks before blocks grow.
    pub(crate) blocks_small: u32,
    /// Most blocks.
    pub(crate) blocks_max: u32,
    /// Slots that a thread should have at least before there is another block.
    pub(crate) slots_per_thread: u32,
}

/// The form of an algorithm's kernels.
pub(crate) fn form_of(algorithm: Algorithm) -> Form {
    let packets = |slot_bytes, is_divided, blocks_small, blocks_max| Form {
        slot_bytes,
        is_divided,
        threads: (128, 512),
        blocks_small,
        blocks_max,
        slots_per_thread: 1,
    };
    let between_barriers = |is_divided, threads, slots_per_thread, blocks_max: u32| Form {
        slot_bytes: 16,
        is_divided,
        threads: (threads, threads),
        blocks_small: 1,
        blocks_max,
        slots_per_thread,
    };
    match algorithm {
        Algorithm::Ll => packets(LL_PAYLOAD_BYTES, false, 64, LL_BLOCKS_MAX),
        Algorithm::Ll128 => packets(LL_128_PAYLOAD_BYTES, false, 64, LL_BLOCKS_MAX),
        Algorithm::LlTwoShot => packets(LL_PAYLOAD_BYTES, true, 64, LL_BLOCKS_MAX),
        // Two blocks of 512 threads on a multiprocessor take a quarter longer than one at 8 MiB.
        Algorithm::Sentinel => packets(SENTINEL_PAYLOAD_BYTES, false, 64, SENTINEL_BLOCKS_MAX),
        Algorithm::SentinelTwoShot => packets(SENTINEL_PAYLOAD_BYTES, true, 64, SENTINEL_BLOCKS_MAX),
        Algorithm::TwoShotLdSt => between_barriers(true, 512, 2, BARRIER_BLOCKS_MAX),
        Algorithm::Ld => between_barriers(false, 512, 2, BARRIER_BLOCKS_MAX),
        // More blocks, or larger ones, are slower from 32 MiB on.
        Algorithm::St => between_barriers(false, 256, 2, 128),
        Algorithm::LlMc => {
            Form { threads: (128, 128), ..packets(LL_PAYLOAD_BYTES, false, LL_BLOCKS_MAX, LL_BLOCKS_MAX) }
        }
        Algorithm::Mc => between_barriers(true, 512, 2, BARRIER_BLOCKS_MAX),
        Algorithm::LdMc | Algorithm::StMc => between_barriers(false, 512, 2, BARRIER_BLOCKS_MAX),
        Algorithm::TwoShotPush => between_barriers(true, 256, 2, PUSH_BLOCKS_MAX),
        Algorithm::Push => between_barriers(false, 256, 2, PUSH_BLOCKS_MAX),
        // The kernel is a barrier alone.
        Algorithm::Ce => between_barriers(false, 128, 1, 1),
    }
}

/// The model's time in nanoseconds; `None` for an algorithm that is taken only where it was measured to be fastest. A
/// constant for hops and barriers, and the bytes that a rank sends, or loads, over the rate of the link. The constants are
/// those of H200s with NVLink; ratios are what matters.
pub(crate) fn modelled_ns(algorithm: Algorithm, bytes: u64, n_ranks: u32) -> Option<u64> {
    let peers = f64::from(n_ranks.max(2) - 1);
    let divided = peers / f64::from(n_ranks.max(2));
    // Nanoseconds, bytes on the link for one of the message or part, bytes per nanosecond.
    let (hops_ns, factor, rate) = match algorithm {
        Algorithm::Ll => (1900.0, 2.0 * peers, 300.0),
        Algorithm::Ll128 => (2100.0, 4.0 / 3.0 * peers, 315.0),
        Algorithm::LlTwoShot => (3600.0, 4.0 * divided, 330.0),
        Algorithm::Sentinel => (2100.0, peers, 315.0),
        Algorithm::SentinelTwoShot => (3600.0, 2.0 * divided, 315.0),
        Algorithm::TwoShotLdSt => (7000.0, 2.0 * divided, 322.0),
        Algorithm::TwoShotPush => (6500.0, 2.0 * divided, 362.0),
        Algorithm::St => (4800.0, peers, 365.0),
        Algorithm::Ld => (7000.0, peers, 312.0),
        Algorithm::Push => (6000.0, peers, 345.0),
        Algorithm::Ce | Algorithm::Mc | Algorithm::LlMc | Algorithm::StMc | Algorithm::LdMc => return None,
    };
    Some((hops_ns + factor * bytes as f64 / rate) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags beside the data save hops, parts and barriers save bytes.
    #[test]
    fn the_model_knows_small_from_large() {
        for n_ranks in [2, 4, 8, 72] {
            let time = |algorithm, bytes| modelled_ns(algorithm, bytes, n_ranks).expect("it is modelled");
            assert!(time(Algorithm::Ll, 8) < time(Algorithm::TwoShotPush, 8));
            assert!(time(Algorithm::Ll, 1 << 30) > time(Algorithm::SentinelTwoShot, 1 << 30));
            assert!(time(Algorithm::SentinelTwoShot, 1 << 30) > time(Algorithm::TwoShotPush, 1 << 30));
        }
    }
}
