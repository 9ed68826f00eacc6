//! What memory holds before a run.

use crate::program::{REGIONS, Types, region_bytes};
use symmem::{Algorithm, Dtype};
use symmem_device::abi::{SENTINEL_POISON, SENTINEL_SUBSTITUTE};
use symmem_tests::random::{Random, Values};

/// Bytes after which such words come again: an odd number of words, so that each comes in both halves of a slot.
const PERIOD_BYTES: usize = 21 * size_of::<u64>();
/// Where in the period the poison stands and where the substitute, in bytes: alone in a slot and both in one, in either
/// order, and off the grid of 8 bytes, by 4 and by 1, as ragged messages are.
const POISON_AT: [usize; 5] = [8, 56, 84, 104, 129];
const SUBSTITUTE_AT: [usize; 6] = [16, 33, 48, 92, 120, 137];

/// What each rank's window holds at first: random elements, other ones on every rank and in every region.
/// Where a switch adds them in an order of its own, the order makes no difference.
pub(crate) fn first_content(types: Types, n_ranks: u32) -> Vec<Vec<u8>> {
    let Types { algorithm, dtype, .. } = types;
    let is_ordered = !matches!(algorithm, Algorithm::Mc | Algorithm::LdMc);
    let values = if is_ordered { Values::Plain } else { Values::Whole };
    let mut random = Random::new(1);
    let count = REGIONS as u64 * region_bytes(algorithm, n_ranks) / dtype.bytes();
    let mut windows: Vec<_> = (0..n_ranks).map(|_| random.elements(dtype, values, count as usize)).collect();
    if matches!(algorithm, Algorithm::Sentinel | Algorithm::SentinelTwoShot) {
        let words = words_of_sentinels(types);
        windows.iter_mut().for_each(|window| add_words(window, words));
    }
    windows
}

/// The poison of sentinel slots and what is sent in its place.
fn words_of_sentinels(types: Types) -> [u64; 2] {
    match types.collective.reduces() {
        true => [u64::MAX, canonical_nans(types.dtype)],
        false => [SENTINEL_POISON, SENTINEL_SUBSTITUTE],
    }
}

/// A word of the NaN that arithmetic makes: all bits but the sign.
fn canonical_nans(dtype: Dtype) -> u64 {
    let mut bytes = [0xff; size_of::<u64>()];
    bytes.chunks_exact_mut(dtype.bytes() as usize).for_each(|element| element[element.len() - 1] = 0x7f);
    u64::from_le_bytes(bytes)
}

/// Puts the words in a window, again and again.
fn add_words(window: &mut [u8], [poison, substitute]: [u64; 2]) {
    for period in window.chunks_exact_mut(PERIOD_BYTES) {
        for (places, word) in [(&POISON_AT[..], poison), (&SUBSTITUTE_AT, substitute)] {
            for &at in places {
                period[at..][..size_of::<u64>()].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}
