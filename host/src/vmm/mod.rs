//! Virtual memory management: owners of physical memory, addresses and mappings.
//!
//! Ownership spells out the order of release: a [`Mapping`] holds its [`Reservation`] and its [`PhysicalAllocation`], so
//! neither goes before it. What a release answers is kept for the machine's next call
//! ([`crate::Machine::take_deferred`]).
//!
//! | what | by |
//! |---|---|
//! | multiples of sizes and addresses | [`crate::Device::granularity`], [`common_granularity_bytes`] |
//! | physical memory, export and import | [`PhysicalAllocation`], [`ShareBy`], [`fabric_support`] |
//! | addresses, also at a hint | [`Reservation`], [`Placed`] |
//! | memory at addresses, rights of each device | [`Mapping`] |
//! | one address for memory of several devices | [`MulticastObject`], [`Binding`], [`MulticastMapping`] |
//! | memory of one device alone | [`PlainAllocation`] |
//! | vectors that grow | [`VmmVec`] (maps), [`CopyVec`] (copies), [`DeviceVec`] (what both can do) |

mod copy_vec;
mod device_vec;
mod granularity;
mod mapping;
mod multicast;
mod physical;
mod plain;
mod range;
mod reservation;
mod share;
#[cfg(all(test, feature = "sim"))]
mod tests;
mod vec;

pub use copy_vec::CopyVec;
pub use device_vec::{DeviceVec, Growth};
pub use granularity::common_granularity_bytes;
pub use mapping::Mapping;
pub use multicast::{Binding, MulticastMapping, MulticastObject};
pub use physical::PhysicalAllocation;
pub use plain::PlainAllocation;
pub use reservation::{Placed, Reservation};
pub use share::{FabricSupport, ShareBy, fabric_support};
pub use vec::VmmVec;

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
