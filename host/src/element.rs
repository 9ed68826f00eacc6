//! Element types of the host.

use bytemuck::{Pod, Zeroable};
use symmem_device::kernels::Dtype;

mod sealed {
    pub trait Sealed {}
}

/// A type that collectives work on.
pub trait Element: Pod + Send + Sync + sealed::Sealed {
    /// Its name for the kernels.
    const DTYPE: Dtype;
}

/// The bits of an 8-bit float with 4 bits of exponent and 3 of mantissa: bias 7, largest value 448, no infinity, NaN
/// where all bits but the sign are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// The bits of an 8-bit float with 5 bits of exponent and 2 of mantissa: bias 15, the upper byte of an f16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct E5m2(pub u8);

impl E4m3 {
    /// Its value.
    pub fn to_f32(self) -> f32 {
        let (exponent, mantissa) = (i32::from(self.0 >> 3 & 15), f32::from(self.0 & 7));
        let magnitude = match (exponent, self.0 & 7) {
            (15, 7) => f32::NAN,
            (0, _) => mantissa / 8.0 * 2f32.powi(-6),
            _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
        };
        if self.0 >> 7 == 1 { -magnitude } else { magnitude }
    }

    /// The nearest one, ties to even; the largest finite one for what is too large.
    pub fn from_f32(value: f32) -> Self {
        Self(nearest(value, 0x7e, |bits| Self(bits).to_f32()))
    }
}

impl E5m2 {
    /// Its value.
    pub fn to_f32(self) -> f32 {
        half::f16::from_bits(u16::from(self.0) << 8).to_f32()
    }

    /// The nearest one, ties to even; the largest finite one for what is too large.
    pub fn from_f32(value: f32) -> Self {
        Self(nearest(value, 0x7b, |bits| Self(bits).to_f32()))
    }
}

/// Bits of the value nearest to `value` among those from 0 to `largest`, whose values ascend; sign and NaN as in both
/// formats.
fn nearest(value: f32, largest: u8, value_of: impl Fn(u8) -> f32) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let magnitude = value.abs();
    // The first that is not below it, or one past the last.
    let (mut low, mut high) = (0, largest + 1);
    while low < high {
        let middle = (low + high) / 2;
        if value_of(middle) < magnitude { low = middle + 1 } else { high = middle }
    }
    let bits = match low {
        0 => 0,
        above if above > largest => largest,
        above => {
            let (below, to_above) = (magnitude - value_of(above - 1), value_of(above) - magnitude);
            if below < to_above || (below == to_above && above & 1 == 1) { above - 1 } else { above }
        }
    };
    bits | (u8::from(value.is_sign_negative()) << 7)
}

macro_rules! elements {
    ($($type:ty = $dtype:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

elements! {
    f64 = F64;
    f32 = F32;
    half::f16 = F16;
    half::bf16 = Bf16;
    E4m3 = E4m3;
    E5m2 = E5m2;
    i8 = I8;
    u8 = U8;
    i32 = I32;
    u32 = U32;
    i64 = I64;
    u64 = U64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_floats_are_what_their_values_say() {
        for bits in 0..=u8::MAX {
            let (four, five) = (E4m3(bits).to_f32(), E5m2(bits).to_f32());
            if !four.is_nan() {
                assert_eq!(E4m3::from_f32(four), E4m3(bits), "{four}");
            }
            if five.is_finite() {
                assert_eq!(E5m2::from_f32(five), E5m2(bits), "{five}");
            }
        }
        for (value, four, five) in [
            (1.0, 0x38, 0x3c),
            (-448.0, 0xfe, 0xdf),
            (1e9, 0x7e, 0x7b),
            (f32::NEG_INFINITY, 0xfe, 0xfb),
            (f32::NAN, 0x7f, 0x7f),
            // Halfway between two: the even one.
            (1.0625, 0x38, 0x3c),
            (1.1875, 0x3a, 0x3d),
            (0.0009765625, 0, 0x14),
        ] {
            assert_eq!((E4m3::from_f32(value).0, E5m2::from_f32(value).0), (four, five), "{value}");
        }
    }
}
