//! One rank's allocation in the symmetric space.

use crate::Result;
use crate::backend::Access;
use crate::symmetric::{FlatOffset, SymmetricSpace};
use crate::vmm::{Mapping, PhysicalAllocation};
use std::sync::Arc;

/// A physical allocation mapped into its rank's part of the space. Windows share it; it is unmapped with the last.
#[derive(Debug)]
pub(crate) struct Backing {
    flat: FlatOffset,
    /// What ranks of other processes have at the same offset of their parts. They go first.
    peers: Vec<Mapping>,
    /// Held for its destructor.
    mapping: Mapping,
}

impl Backing {
    /// Maps `physical` at `flat` in `rank`'s part and lets `devices` load and store it.
    pub(crate) fn map(
        space: &SymmetricSpace,
        rank: u32,
        flat: FlatOffset,
        physical: &Arc<PhysicalAllocation>,
        devices: &[u32],
    ) -> Result<Self> {
        let offset = space.address(rank, flat) - space.base_uc();
        let mapping = Mapping::new(space.reservation(), offset, physical)?;
        for &device in devices {
            mapping.set_access(device, Access::ReadWrite)?;
        }
        Ok(Self { flat, peers: Vec::new(), mapping })
    }

    /// Where the allocation starts in each rank's part.
    pub(crate) fn flat(&self) -> FlatOffset {
        self.flat
    }

    /// The rank's own memory.
    pub(crate) fn physical(&self) -> &PhysicalAllocation {
        self.mapping.physical()
    }

    /// Keeps the mappings of other processes' memory beside its own; those it had are unmapped.
    pub(crate) fn set_peers(&mut self, peers: Vec<Mapping>) {
        self.peers = peers;
    }

    /// Whether it is this allocation.
    pub(crate) fn is_of(&self, physical: &PhysicalAllocation) -> bool {
        self.mapping.physical().handle() == physical.handle()
    }
}
