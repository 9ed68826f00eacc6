//! Floating-point formats and the one place that rounds (PTX ISA 5.2.3, 9.7.3).

/// Rounding mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even.
    Nearest,
    /// `.rz`: toward zero.
    Zero,
    /// `.rm`: toward negative infinity.
    Down,
    /// `.rp`: toward positive infinity.
    Up,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Bits of the fraction as stored.
    pub(crate) fraction_bits: u32,
    /// Bits of the exponent.
    pub(crate) exponent_bits: u32,
    /// The largest finite value, without its sign.
    pub(crate) max_finite: u64,
    /// The canonical NaN.
    pub(crate) nan: u64,
}

/// IEEE binary16.
pub(crate) const F16: Format =
    Format { fraction_bits: 10, exponent_bits: 5, max_finite: 0x7bff, nan: 0x7fff };
/// bfloat16.
pub(crate) const BF16: Format =
    Format { fraction_bits: 7, exponent_bits: 8, max_finite: 0x7f7f, nan: 0x7fff };
/// IEEE binary32.
pub(crate) const F32: Format =
    Format { fraction_bits: 23, exponent_bits: 8, max_finite: 0x7f7f_ffff, nan: 0x7fff_ffff };
/// IEEE binary64.
pub(crate) const F64: Format = Format {
    fraction_bits: 52,
    exponent_bits: 11,
    max_finite: 0x7fef_ffff_ffff_ffff,
    nan: 0xfff8_0000_0000_0000,
};
/// tf32, without the 13 low bits that its register form adds.
pub(crate) const TF32: Format =
    Format { fraction_bits: 10, exponent_bits: 8, max_finite: 0x3_fbff, nan: 0x3_ffff };
/// fp8 E4M3: no infinity, one NaN of each sign.
pub(crate) const E4M3: Format = Format { fraction_bits: 3, exponent_bits: 4, max_finite: 0x7e, nan: 0x7f };
/// fp8 E5M2.
pub(crate) const E5M2: Format = Format { fraction_bits: 2, exponent_bits: 5, max_finite: 0x7b, nan: 0x7f };

/// What a bit pattern stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Not a number.
    Nan,
    /// An infinity.
    Infinite {
        /// Below zero.
        negative: bool,
    },
    /// `significand · 2^exponent`. A significand with more bits than any format holds may have its lowest bit set to
    /// stand for everything below it.
    Finite {
        /// Sign, of zero too.
        negative: bool,
        /// Magnitude.
        significand: u128,
        /// Power of two.
        exponent: i32,
    },
}

impl Value {
    /// An integer, exactly.
    pub(crate) fn of_integer(value: i128) -> Self {
        Self::Finite { negative: value < 0, significand: value.unsigned_abs(), exponent: 0 }
    }

    /// The value with the other sign.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Nan => Self::Nan,
            Self::Infinite { negative } => Self::Infinite { negative: !negative },
            Self::Finite { negative, significand, exponent } => {
                Self::Finite { negative: !negative, significand, exponent }
            }
        }
    }

    /// Whether the sign bit is set; false for NaN.
    pub(crate) fn is_negative(self) -> bool {
        match self {
            Self::Nan => false,
            Self::Infinite { negative } | Self::Finite { negative, .. } => negative,
        }
    }
}

impl Format {
    fn bias(&self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The sign bit.
    pub(crate) fn sign(&self) -> u64 {
        1 << (self.fraction_bits + self.exponent_bits)
    }

    /// The smallest normal value.
    pub(crate) fn min_normal(&self) -> u64 {
        1 << self.fraction_bits
    }

    /// Infinity, or the NaN of a format that has none.
    fn infinity(&self) -> u64 {
        self.max_finite + 1
    }

    /// `bits` with a subnormal replaced by zero of its sign (`.ftz`).
    pub(crate) fn flush(&self, bits: u64) -> u64 {
        if bits & (self.sign() - 1) < self.min_normal() { bits & self.sign() } else { bits }
    }

    /// What `bits` stand for.
    pub(crate) fn unpack(&self, bits: u64) -> Value {
        let negative = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        let has_infinity = self.max_finite & (self.min_normal() - 1) == self.min_normal() - 1;
        if magnitude > self.max_finite {
            let is_infinite = has_infinity && magnitude == self.infinity();
            return if is_infinite { Value::Infinite { negative } } else { Value::Nan };
        }
        let fraction = u128::from(magnitude & (self.min_normal() - 1));
        let biased = (magnitude >> self.fraction_bits) as i32;
        let significand = if biased == 0 { fraction } else { fraction | u128::from(self.min_normal()) };
        let exponent = biased.max(1) - self.bias() - self.fraction_bits as i32;
        Value::Finite { negative, significand, exponent }
    }

    /// The value of this format that `value` rounds to.
    pub(crate) fn round(&self, value: Value, rounding: Rounding) -> u64 {
        match value {
            Value::Nan => self.nan,
            Value::Infinite { negative } => self.signed(negative, self.infinity()),
            Value::Finite { negative, significand: 0, .. } => self.signed(negative, 0),
            Value::Finite { negative, significand, exponent } => {
                let magnitude = self.round_magnitude(negative, significand, exponent, rounding);
                let rounded =
                    if magnitude > self.max_finite { self.overflow(negative, rounding) } else { magnitude };
                self.signed(negative, rounded)
            }
        }
    }

    fn signed(&self, negative: bool, magnitude: u64) -> u64 {
        if negative { magnitude | self.sign() } else { magnitude }
    }

    fn overflow(&self, negative: bool, rounding: Rounding) -> u64 {
        let away = match rounding {
            Rounding::Nearest | Rounding::NearestAway => true,
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        };
        if away { self.infinity() } else { self.max_finite }
    }

    /// Bits of the rounded magnitude; past `max_finite` on overflow.
    fn round_magnitude(&self, negative: bool, significand: u128, exponent: i32, rounding: Rounding) -> u64 {
        let top = exponent + 127 - significand.leading_zeros() as i32;
        let min_exponent = 1 - self.bias();
        let unit = top.max(min_exponent) - self.fraction_bits as i32;
        let rounded = round_shifted(significand, unit - exponent, negative, rounding) as u64;
        // A significand of fraction_bits + 1 bits carries its top bit into the exponent field, and so does a
        // significand that rounding made one bit longer.
        let biased_below = (unit + self.fraction_bits as i32 - min_exponent) as u64;
        if biased_below > 1 << self.exponent_bits {
            return u64::MAX;
        }
        (biased_below << self.fraction_bits) + rounded
    }
}

/// `significand / 2^shift`, rounded to an integer. `negative` tells which way is down.
pub(crate) fn round_shifted(significand: u128, shift: i32, negative: bool, rounding: Rounding) -> u128 {
    if shift <= 0 {
        return significand << -shift;
    }
    let (kept, lost, half) = match shift {
        ..128 => (significand >> shift, significand & ((1 << shift) - 1), 1 << (shift - 1)),
        // Everything is lost, and it is less than half.
        _ => (0, u128::from(significand != 0), 2),
    };
    let up = match rounding {
        Rounding::Nearest => lost > half || (lost == half && kept & 1 == 1),
        Rounding::NearestAway => lost >= half,
        Rounding::Zero => false,
        Rounding::Down => negative && lost != 0,
        Rounding::Up => !negative && lost != 0,
    };
    kept + u128::from(up)
}
