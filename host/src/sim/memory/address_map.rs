//! Which mapping covers an address.

use super::multicast::Members;
use crate::backend::{Access, PhysicalHandle};
use std::sync::Arc;

/// Owner of host memory: no device.
pub(crate) const HOST: u32 = u32::MAX;

/// A place where memory is visible.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    /// First address.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) len_bytes: u64,
    /// Number of the physical allocation in this machine, for what is kept beside the memory.
    pub(crate) physical: u32,
    /// Number of the mapping, given when it is inserted and not used again.
    pub(crate) number: u32,
    /// The handle with which it was mapped; `None` for host memory.
    pub(crate) handle: Option<PhysicalHandle>,
    /// The device that owns the memory, or [`HOST`].
    pub(crate) owner: u32,
    /// Rights of each device.
    pub(crate) rights: Vec<Access>,
    /// Of a multicast object: what lies behind its addresses.
    pub(crate) members: Option<Arc<Members>>,
}

/// What one device sees of one mapping: small, to be kept beside a running thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// First address.
    pub(crate) start: u64,
    /// Bytes; 0 covers nothing.
    pub(crate) len_bytes: u64,
    /// Number of the physical allocation.
    pub(crate) physical: u32,
    /// Number of the mapping.
    pub(crate) mapping: u32,
    /// Owner, or [`HOST`].
    pub(crate) owner: u32,
    /// Loads are allowed.
    pub(crate) readable: bool,
    /// Stores and atomics are allowed.
    pub(crate) writable: bool,
}

impl View {
    /// Covers nothing.
    pub(crate) const NOWHERE: Self = Self {
        start: 0,
        len_bytes: 0,
        physical: 0,
        mapping: 0,
        owner: HOST,
        readable: false,
        writable: false,
    };
}

impl Mapping {
    /// First address behind the mapping.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.len_bytes
    }

    /// What `device` sees of it by loads, stores and atomics: nothing of a multicast object (PTX ISA 9.7.9.14).
    pub(crate) fn view(&self, device: u32) -> View {
        let rights = if self.members.is_some() { Access::None } else { self.rights[device as usize] };
        View {
            start: self.start,
            len_bytes: self.len_bytes,
            physical: self.physical,
            mapping: self.number,
            owner: self.owner,
            readable: rights != Access::None,
            writable: rights == Access::ReadWrite,
        }
    }
}

/// All mappings, disjoint, in the order of their addresses.
#[derive(Debug, Default)]
pub(crate) struct AddressMap {
    // invariant: starts[i] == mappings[i].start, ascending; ranges do not overlap.
    starts: Vec<u64>,
    mappings: Vec<Mapping>,
    n_inserted: u32,
}

impl AddressMap {
    /// The mapping that covers an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Mapping> {
        let index = self.starts.partition_point(|&start| start <= address);
        let mapping = &self.mappings[index.checked_sub(1)?];
        (address < mapping.end()).then_some(mapping)
    }

    /// Whether any mapping touches a range.
    pub(crate) fn overlaps(&self, address: u64, len_bytes: u64) -> bool {
        let index = self.starts.partition_point(|&start| start < address.saturating_add(len_bytes));
        index > 0 && self.mappings[index - 1].end() > address
    }

    /// Adds a mapping, which must overlap no other.
    pub(crate) fn insert(&mut self, mut mapping: Mapping) {
        mapping.number = self.n_inserted;
        self.n_inserted += 1;
        debug_assert!(!self.overlaps(mapping.start, mapping.len_bytes));
        let index = self.starts.partition_point(|&start| start < mapping.start);
        self.starts.insert(index, mapping.start);
        self.mappings.insert(index, mapping);
    }

    /// Indices of the mappings that fill a range exactly, edge to edge; `None` when they do not.
    pub(crate) fn exactly(&self, address: u64, len_bytes: u64) -> Option<std::ops::Range<usize>> {
        let first = self.starts.binary_search(&address).ok()?;
        let end = address.checked_add(len_bytes)?;
        let mut last = first;
        let mut reached = address;
        while reached < end {
            let mapping = self.mappings.get(last).filter(|mapping| mapping.start == reached)?;
            reached = mapping.end();
            last += 1;
        }
        (reached == end && last > first).then_some(first..last)
    }

    /// Takes mappings out.
    pub(crate) fn remove(&mut self, range: std::ops::Range<usize>) -> Vec<Mapping> {
        self.starts.drain(range.clone());
        self.mappings.drain(range).collect()
    }

    /// Mappings by index.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> &[Mapping] {
        &self.mappings[range]
    }

    /// Says what lies behind every mapping of a multicast object.
    pub(crate) fn set_members(&mut self, physical: u32, members: &Arc<Members>) {
        let is = |mapping: &&mut Mapping| mapping.members.is_some() && mapping.physical == physical;
        self.mappings.iter_mut().filter(is).for_each(|mapping| mapping.members = Some(members.clone()));
    }

    /// Mappings by index, to change them.
    pub(crate) fn slice_mut(&mut self, range: std::ops::Range<usize>) -> &mut [Mapping] {
        &mut self.mappings[range]
    }

    /// All mappings, ascending.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Mapping> {
        self.mappings.iter()
    }

    /// The nearest mappings that end at or below, and start above, an address that none covers.
    pub(crate) fn neighbours(&self, address: u64) -> (Option<&Mapping>, Option<&Mapping>) {
        let index = self.starts.partition_point(|&start| start <= address);
        (index.checked_sub(1).map(|below| &self.mappings[below]), self.mappings.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ranges: &[(u64, u64)]) -> AddressMap {
        let mut map = AddressMap::default();
        for (physical, &(start, len_bytes)) in ranges.iter().enumerate() {
            let physical = physical as u32;
            map.insert(Mapping {
                start,
                len_bytes,
                physical,
                number: 0,
                handle: None,
                owner: 0,
                rights: vec![Access::None],
                members: None,
            });
        }
        map
    }

    #[test]
    fn agrees_with_a_search_of_every_range() {
        let ranges = [(40, 10), (10, 10), (20, 5), (60, 1)];
        let map = map(&ranges);
        for address in 0..70 {
            let expect = ranges.iter().position(|&(start, len)| (start..start + len).contains(&address));
            assert_eq!(map.find(address).map(|mapping| mapping.physical as usize), expect, "{address}");
            for len in 1..30 {
                let expect =
                    ranges.iter().any(|&(start, size)| start < address + len && address < start + size);
                assert_eq!(map.overlaps(address, len), expect, "{address} + {len}");
            }
        }
    }

    #[test]
    fn exact_ranges_are_whole_mappings() {
        let map = map(&[(10, 10), (20, 5), (30, 5)]);
        let check = |address, len, expect| assert_eq!(map.exactly(address, len), expect, "{address} + {len}");
        check(10, 10, Some(0..1));
        check(10, 15, Some(0..2));
        check(10, 12, None);
        check(20, 15, None);
        check(12, 8, None);
        check(10, 0, None);
    }

    #[test]
    fn neighbours_of_a_hole() {
        let map = map(&[(10, 10), (30, 5)]);
        let near = |address| {
            let (below, above) = map.neighbours(address);
            (below.map(|mapping| mapping.start), above.map(|mapping| mapping.start))
        };
        assert_eq!(near(5), (None, Some(10)));
        assert_eq!(near(25), (Some(10), Some(30)));
        assert_eq!(near(99), (Some(30), None));
    }
}
