//! Random numbers, and element values as bytes.

use half::{bf16, f16};
use symmem::{Dtype, E4m3, E5m2};
use symmem_device::abi::{SENTINEL_POISON, SENTINEL_SUBSTITUTE};

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
    /// Every bit 1: of floats a NaN, and the word that sentinel slots take for nothing.
    Ones,
    /// Among plain ones the 8-byte words that sentinel slots of any words take for nothing, or send in place of it.
    Poison,
    /// Floats are small multiples of 3^5: sums of few of them, and their averages over up to four ranks, are exact in any
    /// order, five times over.
    Whole,
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
        let mut elements: Vec<u8> = (0..count).flat_map(|_| self.element(dtype, values)).collect();
        if values == Values::Poison {
            self.poison(&mut elements);
        }
        elements
    }

    /// Overwrites a third of the whole words.
    fn poison(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_exact_mut(8) {
            if self.below(3) == 0 {
                word.copy_from_slice(&self.choose(&[SENTINEL_POISON, SENTINEL_SUBSTITUTE]).to_le_bytes());
            }
        }
    }

    fn element(&mut self, dtype: Dtype, values: Values) -> Vec<u8> {
        match values {
            Values::Ones => return vec![0xff; dtype.bytes() as usize],
            Values::Special if self.below(2) == 0 => return self.special(dtype),
            Values::Special | Values::Plain | Values::Whole | Values::Poison => {}
        }
        let sign = if self.below(2) == 0 { 1.0 } else { -1.0 };
        let mantissa = 1.0 + (self.bits() >> 40) as f32 / (1u64 << 24) as f32;
        let whole = sign * 243.0 * self.below(9) as f32;
        let plain = if values == Values::Whole {
            whole
        } else {
            sign * mantissa * 2f32.powi(self.below(8) as i32 - 4)
        };
        match dtype {
            Dtype::F64 => f64::from(plain).to_le_bytes().into(),
            Dtype::F32 => plain.to_le_bytes().into(),
            Dtype::F16 => f16::from_f32(plain).to_le_bytes().into(),
            Dtype::Bf16 => bf16::from_f32(plain).to_le_bytes().into(),
            Dtype::E4m3 => vec![E4m3::from_f32(plain).0],
            Dtype::E5m2 => vec![E5m2::from_f32(plain).0],
            integer => self.bytes(integer.bytes() as usize),
        }
    }

    fn special(&mut self, dtype: Dtype) -> Vec<u8> {
        const F64: [u64; 8] =
            [0, 1 << 63, 0x7ff << 52, 0xfff << 52, u64::MAX, 0x7ff0_0000_0000_0001, 1, 0x7fef_ffff_ffff_ffff];
        const E4M3: [u8; 7] = [0, 0x80, 0x7f, 0xff, 0x7e, 0xfe, 1];
        const E5M2: [u8; 9] = [0, 0x80, 0x7c, 0xfc, 0x7d, 0xff, 0x7b, 0xfb, 1];
        const BYTES: [u8; 4] = [0, 1, 0x7f, 0x80];
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
            Dtype::F64 => if any { bits } else { *self.choose(&F64) }.to_le_bytes().into(),
            Dtype::E4m3 => vec![if any { bits as u8 } else { *self.choose(&E4M3) }],
            Dtype::E5m2 => vec![if any { bits as u8 } else { *self.choose(&E5M2) }],
            integer => {
                // The ends of the range, and what lies around 0.
                let (low, high) = (*self.choose(&[0, 0xff]), *self.choose(&BYTES));
                let mut bytes = vec![low; integer.bytes() as usize];
                *bytes.last_mut().expect("an element has bytes") = high;
                bytes
            }
        }
    }
}
