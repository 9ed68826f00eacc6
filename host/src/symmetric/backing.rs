//! One rank's allocations in the symmetric space.

use crate::backend::Access;
use crate::machine::Device;
use crate::symmetric::ledger::{Bound, Ledger, Mapped};
use crate::symmetric::{AllocOffset, FlatOffset, MulticastSpace, SymmetricSpace};
use crate::vmm::{Binding, Mapping, PhysicalAllocation};
use crate::{Error, Result};
use std::sync::Arc;

/// Physical allocations mapped into their rank's part of the space, each behind the other. Windows share them; they are
/// unmapped with the last.
#[derive(Debug)]
pub(crate) struct Backing {
    flat: FlatOffset,
    /// What ranks of other processes have at the same offset of their parts. They go first.
    peers: Vec<Mapping>,
    /// Its place in the multicast space, if all ranks have one for theirs. It goes before the memory.
    multicast: Option<Behind>,
    segments: Vec<Segment>,
}

/// Memory behind multicast addresses.
#[derive(Debug)]
struct Behind {
    /// They go before the addresses.
    _bindings: Vec<Binding>,
    space: Arc<MulticastSpace>,
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
        Ok(Self { flat, peers: Vec::new(), multicast: None, segments })
    }

    /// The rank's own memory, allocation by allocation.
    pub(crate) fn physical(&self) -> impl Iterator<Item = &PhysicalAllocation> {
        self.segments.iter().map(|segment| &**segment.mapping.physical())
    }

    /// Keeps the mappings of other processes' memory beside its own; those it had are unmapped.
    pub(crate) fn set_peers(&mut self, peers: Vec<Mapping>) {
        self.peers = peers;
    }

    /// Binds the first `len_bytes` where they are mapped, allocation by allocation. If one fails, those before it are
    /// unbound.
    pub(crate) fn bind(
        &self,
        space: &MulticastSpace,
        device: &Device,
        len_bytes: u64,
    ) -> Result<Vec<Binding>> {
        let mut left_bytes = len_bytes;
        let mut bindings = Vec::with_capacity(self.segments.len());
        for segment in &self.segments {
            let physical = segment.mapping.physical();
            let bound_bytes = physical.len_bytes().min(left_bytes);
            if bound_bytes > 0 {
                bindings.push(Binding::new(
                    space.object(),
                    segment.flat.bytes,
                    physical,
                    device,
                    bound_bytes,
                )?);
            }
            left_bytes -= bound_bytes;
        }
        Ok(bindings)
    }

    /// Keeps its bindings.
    pub(crate) fn set_multicast(&mut self, space: &Arc<MulticastSpace>, bindings: Vec<Binding>) {
        self.multicast = Some(Behind { _bindings: bindings, space: space.clone() });
        self.mark(Bound::Yes);
    }

    /// Says why it has none.
    pub(crate) fn refuse_multicast(&self, error: &Error) {
        self.mark(Bound::Refused { reason: error.to_string() });
    }

    fn mark(&self, bound: Bound) {
        for segment in &self.segments {
            segment.ledger.set_multicast(segment.rank, segment.flat.bytes, bound.clone());
        }
    }

    /// The multicast space that it is bound to.
    pub(crate) fn multicast(&self) -> Option<&Arc<MulticastSpace>> {
        self.multicast.as_ref().map(|behind| &behind.space)
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
        let (physical, multicast) = (physical.handle(), Bound::No);
        space.ledger().enter(Mapped { rank, flat_bytes, len_bytes, physical, devices, multicast });
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
