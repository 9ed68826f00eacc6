//! How a message is cut into slots and these are divided among blocks: what the kernels' arguments say of it. All values
//! are equal on all ranks.

use super::plan::Form;
use crate::{ErrorKind, Result};
use symmem_device::kernels::Collective;

/// Slots of one part, and of one block in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) slots_per_part: u64,
    pub(crate) slots_per_block: u32,
}

/// Cuts a message, or parts that lie behind each other, of `len_bytes` from `input_offset` on.
///
/// # Errors
///
/// [`ErrorKind::SizeOverflow`] if one block had more slots than 32 bits count.
pub(crate) fn cut(
    collective: Collective,
    form: Form,
    (input_offset, len_bytes): (u64, u64),
    n_ranks: u32,
    n_blocks: u32,
) -> Result<Cut> {
    // Slots start at multiples of their size, if that is a power of two: the first may be a short one.
    let lead_bytes = match collective {
        _ if !form.slot_bytes.is_power_of_two() => 0,
        // In place, the share lies elsewhere on each rank.
        Collective::AllGather => 0,
        // Parts that are no multiples of a slot start anywhere in one.
        Collective::ReduceScatter | Collective::AllToAll if !len_bytes.is_multiple_of(form.slot_bytes) => {
            form.slot_bytes - 1
        }
        _ => input_offset % form.slot_bytes,
    };
    let slots = (len_bytes + lead_bytes).div_ceil(form.slot_bytes);
    let slots_per_part = if form.is_divided { slots.div_ceil(n_ranks.into()) } else { slots };
    let slots_per_block = u32::try_from(slots_per_part.div_ceil(n_blocks.into())).map_err(|_| {
        ErrorKind::SizeOverflow { what: format!("{collective} of {len_bytes} bytes in {n_blocks} blocks") }
    })?;
    Ok(Cut { slots_per_part, slots_per_block })
}

#[cfg(test)]
mod tests {
    use super::super::plan::form_of;
    use super::*;
    use symmem_device::kernels::Algorithm;

    #[test]
    fn every_byte_is_in_a_slot() {
        for (collective, algorithm, offset, len_bytes, n_ranks, n_blocks, expected) in [
            (Collective::AllReduce, Algorithm::Ll, 0, 8, 2, 1, (1, 1)),
            (Collective::AllReduce, Algorithm::Ll, 4, 8, 2, 1, (2, 2)),
            (Collective::AllReduce, Algorithm::Ll128, 4, 25, 2, 2, (3, 2)),
            (Collective::AllReduce, Algorithm::SentinelTwoShot, 2, 31, 2, 1, (2, 2)),
            (Collective::AllReduce, Algorithm::TwoShotPush, 0, 1 << 30, 4, 128, (1 << 24, 1 << 17)),
            (Collective::ReduceScatter, Algorithm::Push, 0, 20, 2, 1, (3, 3)),
            (Collective::ReduceScatter, Algorithm::Push, 0, 32, 2, 1, (2, 2)),
        ] {
            let cut = cut(collective, form_of(algorithm), (offset, len_bytes), n_ranks, n_blocks);
            let cut = cut.expect("small enough");
            assert_eq!(
                (cut.slots_per_part, cut.slots_per_block),
                expected,
                "{algorithm} {offset} {len_bytes}"
            );
        }
        cut(Collective::AllReduce, form_of(Algorithm::Ll), (0, 1 << 40), 2, 1)
            .expect_err("too many for a block");
    }
}
