//! The symmetric space.

use crate::Result;
use crate::machine::Machine;
use crate::symmetric::FlatOffset;
use crate::symmetric::ledger::Ledger;
use crate::vmm::Reservation;
use std::sync::Arc;

/// A reservation of `n_ranks × stride` bytes in which rank r's memory appears at `base_uc + r·stride + offset`, with the
/// same offset for every rank. One per communicator and process.
#[derive(Debug)]
pub struct SymmetricSpace {
    reservation: Arc<Reservation>,
    stride_bytes: u64,
    ledger: Arc<Ledger>,
}

impl SymmetricSpace {
    /// Reserves the space.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::SizeOverflow`], or what the machine answers.
    pub(crate) fn new(machine: &Machine, n_ranks: u32, stride_bytes: u64, align_bytes: u64) -> Result<Self> {
        let len_bytes = stride_bytes.checked_mul(n_ranks.into()).ok_or_else(|| {
            let what = format!("a symmetric space of {n_ranks} ranks × {stride_bytes} bytes");
            crate::ErrorKind::SizeOverflow { what }
        })?;
        let reservation = Arc::new(Reservation::new(machine, len_bytes, align_bytes)?);
        Ok(Self { reservation, stride_bytes, ledger: Arc::default() })
    }

    /// Address of rank 0's byte 0.
    pub fn base_uc(&self) -> u64 {
        self.reservation.base()
    }

    /// Bytes from one rank's part to the next one's.
    pub fn stride_bytes(&self) -> u64 {
        self.stride_bytes
    }

    /// Address at which `rank`'s byte at `offset` appears.
    pub fn address(&self, rank: u32, offset: FlatOffset) -> u64 {
        self.base_uc() + u64::from(rank) * self.stride_bytes + offset.bytes
    }

    /// Offset of an address in the part of `rank`; `None` if it lies elsewhere.
    pub fn offset_of(&self, rank: u32, address: u64) -> Option<FlatOffset> {
        let bytes = address.checked_sub(self.address(rank, FlatOffset::new(0)))?;
        (bytes < self.stride_bytes).then_some(FlatOffset::new(bytes))
    }

    /// What is mapped in it.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    pub(crate) fn reservation(&self) -> &Arc<Reservation> {
        &self.reservation
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRIDE: u64 = 64 << 20;

    proptest! {
        /// An address in the space belongs to one rank and one offset.
        #[test]
        fn addresses_and_offsets_are_each_others(rank in 0u32..3, other in 0u32..3, bytes in 0..STRIDE) {
            let space = SymmetricSpace::new(&Machine::sim()?, 3, STRIDE, 2 << 20)?;
            let address = space.address(rank, FlatOffset::new(bytes));
            let found = space.offset_of(other, address);
            prop_assert_eq!(found, (rank == other).then_some(FlatOffset::new(bytes)));
        }
    }
}
