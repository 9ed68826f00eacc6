//! Which multiples sizes and addresses must have.

use crate::{ErrorKind, Result};

/// The multiple that sizes and addresses of memory must have which is mapped and, if `multicast_bytes` is given, bound
/// to a multicast object too: the larger of both granularities, since each is a power of two. A binding refuses offsets
/// and sizes that are multiples of the allocation granularity alone (CUDA driver API, section 6.15 "Multicast Object
/// Management").
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] for a granularity that is no power of two.
pub fn common_granularity_bytes(allocation_bytes: u64, multicast_bytes: Option<u64>) -> Result<u64> {
    for bytes in [Some(allocation_bytes), multicast_bytes].into_iter().flatten() {
        if !bytes.is_power_of_two() {
            let (found, allowed) = (bytes.to_string(), "a power of two".into());
            return Err(ErrorKind::InvalidArgument { what: "granularity in bytes", found, allowed }.into());
        }
    }
    Ok(multicast_bytes.map_or(allocation_bytes, |bytes| bytes.max(allocation_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmm::round_up;
    use proptest::prelude::*;

    proptest! {
        /// What is rounded up to it fits both rules, and nothing smaller does.
        #[test]
        fn rounded_sizes_fit_both(
            allocation in 0..40_u32,
            multicast in prop::option::of(0..40_u32),
            len_bytes in 1..1_u64 << 50,
        ) {
            let (allocation, multicast) = (1 << allocation, multicast.map(|shift| 1 << shift));
            let common = common_granularity_bytes(allocation, multicast).unwrap();
            let rounded = round_up(len_bytes, common).unwrap();
            let fits = |bytes: u64| bytes.is_multiple_of(allocation) && multicast.is_none_or(|its| bytes.is_multiple_of(its));
            prop_assert!(fits(rounded) && rounded >= len_bytes && rounded - len_bytes < common);
            prop_assert!(common == 1 || !fits(common / 2));
        }
    }

    #[test]
    fn refuses_what_is_no_power_of_two() {
        for (allocation, multicast) in [(0, None), (3, None), (2 << 20, Some(0)), (2 << 20, Some(3 << 20))] {
            let error = common_granularity_bytes(allocation, multicast).unwrap_err().to_string();
            assert!(error.contains("a power of two"), "{error}");
        }
    }
}
