//! Random numbers, and element values as bytes.

use half::{bf16, f16};
use symmem::Dtype;

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// What values to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Finite, of moderate size.
    Plain,
    /// ±0, NaNs, infinities, subnormals, extremes and any bits at all among plain ones.
    Special,
}

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end` (at least 1).
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// One of the items.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Puts the items in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Any bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.bits() as u8).collect()
    }

    /// `count` elements as they lie in memory.
    pub fn elements(&mut self, dtype: Dtype, values: Values, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.element(dtype, values)).collect()
    }

    fn element(&mut self, dtype: Dtype, values: Values) -> Vec<u8> {
        if values == Values::Special && self.below(2) == 0 {
            return self.special(dtype);
        }
        let sign = if self.below(2) == 0 { 1.0 } else { -1.0 };
        let mantissa = 1.0 + (self.bits() >> 40) as f32 / (1u64 << 24) as f32;
        let plain = sign * mantissa * 2f32.powi(self.below(8) as i32 - 4);
        match dtype {
            Dtype::F32 => plain.to_le_bytes().into(),
            Dtype::F16 => f16::from_f32(plain).to_le_bytes().into(),
            Dtype::Bf16 => bf16::from_f32(plain).to_le_bytes().into(),
        }
    }

    fn special(&mut self, dtype: Dtype) -> Vec<u8> {
        const F32: [u32; 14] = [
            0x0000_0000,
            0x8000_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x7fff_ffff,
            0xffff_ffff,
            0x7f80_0001,
            0x0000_0001,
            0x807f_ffff,
            0x0080_0000,
            0x7f7f_ffff,
            0xff7f_ffff,
            0x3f80_0001,
        ];
        const F16: [u16; 13] = [
            0x0000, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7fff, 0xffff, 0x7c01, 0x0001, 0x83ff, 0x0400, 0x7bff,
            0xfbff,
        ];
        const BF16: [u16; 13] = [
            0x0000, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0x7fff, 0xffff, 0x7f81, 0x0001, 0x807f, 0x0080, 0x7f7f,
            0xff7f,
        ];
        let any = self.below(4) == 0;
        let bits = self.bits();
        match dtype {
            Dtype::F32 => if any { bits as u32 } else { *self.choose(&F32) }.to_le_bytes().into(),
            Dtype::F16 => if any { bits as u16 } else { *self.choose(&F16) }.to_le_bytes().into(),
            Dtype::Bf16 => if any { bits as u16 } else { *self.choose(&BF16) }.to_le_bytes().into(),
        }
    }
}
