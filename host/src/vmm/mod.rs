//! Virtual memory management: owners of physical memory, addresses and mappings.
//!
//! Ownership spells out the order of release: a [`Mapping`] holds its [`Reservation`] and its [`PhysicalAllocation`], so
//! neither goes before it. What a release answers is kept for the machine's next call
//! ([`crate::Machine::take_deferred`]).

mod mapping;
mod physical;
mod reservation;

pub use mapping::Mapping;
pub use physical::PhysicalAllocation;
pub use reservation::Reservation;

use crate::{ErrorKind, Result};

/// `value` rounded up to a multiple of `multiple`, a power of two.
///
/// # Errors
///
/// [`ErrorKind::SizeOverflow`].
pub(crate) fn round_up(value: u64, multiple: u64) -> Result<u64> {
    value.checked_next_multiple_of(multiple).ok_or_else(|| {
        ErrorKind::SizeOverflow { what: format!("{value} bytes, rounded up to a multiple of {multiple},") }
            .into()
    })
}
