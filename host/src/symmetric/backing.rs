//! One rank's allocations in the symmetric space.

use crate::Result;
use crate::backend::Access;
use crate::symmetric::ledger::{Ledger, Mapped};
use crate::symmetric::{AllocOffset, FlatOffset, SymmetricSpace};
use crate::vmm::{Mapping, PhysicalAllocation};
use std::sync::Arc;

/// Physical allocations mapped into their rank's part of the space, each behind the other. Windows share them; they are
/// unmapped with the last.
#[derive(Debug)]
pub(crate) struct Backing {
    flat: FlatOffset,
    /// What ranks of other processes have at the same offset of their parts. They go first.
    peers: Vec<Mapping>,
    segments: Vec<Segment>,
}

/// One of them.
#[derive(Debug)]
struct Segment {
    rank: u32,
    flat: FlatOffset,
    mapping: Mapping,
    ledger: Arc<Ledger>,
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
        Self::map_all(space, rank, flat, std::slice::from_ref(physical), devices)
    }

    /// Maps allocations from `flat` on, each behind the other. If one fails, those before it are unmapped.
    pub(crate) fn map_all(
        space: &SymmetricSpace,
        rank: u32,
        flat: FlatOffset,
        physical: &[Arc<PhysicalAllocation>],
        devices: &[u32],
    ) -> Result<Self> {
        let mut segments = Vec::with_capacity(physical.len());
        let mut at = AllocOffset::new(0);
        for one in physical {
            segments.push(Segment::map(space, rank, at.in_space(flat), one, devices)?);
            at.bytes += one.len_bytes();
        }
        Ok(Self { flat, peers: Vec::new(), segments })
    }

    /// The rank's own memory, allocation by allocation.
    pub(crate) fn physical(&self) -> impl Iterator<Item = &PhysicalAllocation> {
        self.segments.iter().map(|segment| &**segment.mapping.physical())
    }

    /// Keeps the mappings of other processes' memory beside its own; those it had are unmapped.
    pub(crate) fn set_peers(&mut self, peers: Vec<Mapping>) {
        self.peers = peers;
    }

    /// Where the first allocation starts in each rank's part.
    pub(crate) fn flat(&self) -> FlatOffset {
        self.flat
    }

    /// Bytes of all its allocations.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.mapping.physical().len_bytes()).sum()
    }

    /// Where these allocations lie here, if they lie behind each other as given.
    pub(crate) fn place_of(&self, physical: &[Arc<PhysicalAllocation>]) -> Option<AllocOffset> {
        let is = |segment: &Segment, one: &Arc<PhysicalAllocation>| {
            segment.mapping.physical().handle() == one.handle()
        };
        let fits = |run: &[Segment]| run.iter().zip(physical).all(|(segment, one)| is(segment, one));
        let first = self.segments.windows(physical.len()).find(|run| fits(run))?.first()?;
        Some(AllocOffset::new(first.flat.bytes - self.flat.bytes))
    }
}

impl Segment {
    fn map(
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
        let (flat_bytes, len_bytes) = (flat.bytes, physical.len_bytes());
        tracing::debug!(rank, flat = %flat, len_bytes, physical = physical.handle().0, "mapped");
        let devices = devices.to_vec();
        space.ledger().enter(Mapped { rank, flat_bytes, len_bytes, physical: physical.handle(), devices });
        Ok(Self { rank, flat, mapping, ledger: space.ledger().clone() })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.ledger.strike(self.rank, self.flat.bytes);
        let len_bytes = self.mapping.physical().len_bytes();
        tracing::debug!(rank = self.rank, flat = %self.flat, len_bytes, "unmapped");
    }
}
