//! Sizes as the command line gives them, and the element counts that follow.

use symmem::{Collective, Dtype};

/// Reads a size in bytes: a whole number with an optional suffix K, M, G or T, powers of 1024 as in nccl-tests.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        suffix => return Err(format!("unknown suffix {suffix:?}; K, M, G and T are powers of 1024")),
    };
    let number: u64 = digits.parse().map_err(|error| format!("{error}; a size is e.g. 8, 256K or 128M"))?;
    number.checked_mul(1 << shift).ok_or_else(|| "it does not fit in 64 bits".to_owned())
}

/// Bytes as a person reads them, exact: `256 KiB`, `1000003 B`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

/// `min`, `min · factor`, … up to and including `max`.
pub(crate) fn geometric(min: u64, max: u64, factor: u64) -> Vec<u64> {
    let grown = |size: &u64| size.checked_mul(factor).filter(|next| *next <= max && next > size);
    std::iter::successors(Some(min).filter(|min| *min <= max), grown).collect()
}

/// Elements of the message or of one rank's share in `bytes`, rounded down, but at least one.
pub(crate) fn count_of(bytes: u64, collective: Collective, dtype: Dtype, n_ranks: u32) -> u64 {
    let (inputs, outputs) = collective.parts(n_ranks);
    (bytes / u64::from(inputs.max(outputs)) / dtype.bytes()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes() {
        let good =
            [("8", 8), ("0", 0), ("1k", 1024), ("256K", 256 << 10), ("128M", 128 << 20), ("2GiB", 2 << 30)];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5M", "3X", "8 K", "16777216T", "99999999999999999999"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_sizes() {
        for (bytes, text) in
            [(0, "0 B"), (8, "8 B"), (1025, "1025 B"), (262_144, "256 KiB"), (3 << 30, "3 GiB")]
        {
            assert_eq!(human_bytes(bytes), text);
        }
    }

    #[test]
    fn steps_include_the_end_and_never_overflow() {
        assert_eq!(geometric(8, 128, 4), [8, 32, 128]);
        assert_eq!(geometric(8, 100, 4), [8, 32]);
        assert_eq!(geometric(8, 8, 2), [8]);
        assert_eq!(geometric(9, 8, 2), [0; 0]);
        assert_eq!(geometric(u64::MAX / 2, u64::MAX, 2), [u64::MAX / 2, u64::MAX - 1]);
        assert_eq!(geometric(0, 8, 2), [0]);
    }

    #[test]
    fn counts_are_whole_and_at_least_one() {
        let (reduce, gather) = (Collective::AllReduce, Collective::AllGather);
        assert_eq!(count_of(8, reduce, Dtype::F32, 4), 2);
        assert_eq!(count_of(7, reduce, Dtype::Bf16, 4), 3);
        assert_eq!(count_of(8, gather, Dtype::F32, 4), 1);
        assert_eq!(count_of(1 << 20, gather, Dtype::F16, 4), 1 << 17);
        assert_eq!(count_of(1, reduce, Dtype::F32, 1), 1);
    }
}
