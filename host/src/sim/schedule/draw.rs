//! Random numbers of a schedule.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). Any seed is as good as any
/// other.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    state: u64,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Any 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in 0..n; n is at least 1.
    pub(super) fn below(&mut self, n: usize) -> usize {
        below(self.bits(), n)
    }
}

/// The finaliser of SplitMix64: a bijection in which every input bit changes half of the output bits.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps the high half of a random word to 0..n.
pub(super) fn below(random: u64, n: usize) -> usize {
    (((random >> 32) * n as u64) >> 32) as usize
}

/// Length of a burst: mostly long, for speed; one in eight is only a few instructions long, so that close interleavings
/// occur too.
pub(super) fn burst(random: u64) -> u32 {
    let length = (random >> 16) as u32;
    if random >> 4 & 7 == 0 { 1 + length % 8 } else { 64 + length % 128 }
}
