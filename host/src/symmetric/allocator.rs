//! Which offsets of the symmetric space are taken. Decided on rank 0 and told to all.

use std::collections::BTreeMap;

/// A first-fit allocator of offsets below a limit.
#[derive(Debug)]
pub(crate) struct OffsetAllocator {
    limit: u64,
    align: u64,
    /// Length of each range in use, by its offset.
    used: BTreeMap<u64, u64>,
}

impl OffsetAllocator {
    /// Offsets 0..`limit`, given out at multiples of `align`.
    pub(crate) fn new(limit: u64, align: u64) -> Self {
        Self { limit, align, used: BTreeMap::new() }
    }

    /// The lowest free range of `len` (at least 1), or `None` if there is none.
    pub(crate) fn allocate(&mut self, len: u64) -> Option<u64> {
        let mut start = 0u64;
        for (&offset, &taken) in &self.used {
            if offset.checked_sub(start).is_some_and(|gap| gap >= len) {
                break;
            }
            start = (offset + taken).checked_next_multiple_of(self.align)?;
        }
        if start.checked_add(len)? > self.limit {
            return None;
        }
        self.used.insert(start, len);
        Some(start)
    }

    /// Frees the range that was given out at `offset`.
    pub(crate) fn free(&mut self, offset: u64) {
        let freed = self.used.remove(&offset);
        debug_assert!(freed.is_some(), "offset {offset:#x} was not in use");
    }

    /// What offsets are multiples of.
    pub(crate) fn align_bytes(&self) -> u64 {
        self.align
    }

    /// Bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Ranges are aligned, inside the limit and disjoint; freeing all makes the whole space free again.
        #[test]
        fn ranges_are_disjoint(steps in prop::collection::vec((any::<bool>(), 1u64..5000), 1..200)) {
            let (limit, align) = (64 * 1024, 512);
            let mut allocator = OffsetAllocator::new(limit, align);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (is_alloc, len) in steps {
                if is_alloc || live.is_empty() {
                    if let Some(offset) = allocator.allocate(len) {
                        prop_assert!(offset % align == 0 && offset + len <= limit);
                        prop_assert!(live.iter().all(|&(o, l)| offset + len <= o || o + l <= offset));
                        live.push((offset, len));
                    }
                } else {
                    let (offset, _) = live.swap_remove(len as usize % live.len());
                    allocator.free(offset);
                }
            }
            live.into_iter().for_each(|(offset, _)| allocator.free(offset));
            prop_assert_eq!(allocator.used_bytes(), 0);
            prop_assert_eq!(allocator.allocate(limit), Some(0));
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut allocator = OffsetAllocator::new(4096, 512);
        assert_eq!(allocator.allocate(4097), None);
        assert_eq!(allocator.allocate(u64::MAX), None);
        assert_eq!(allocator.allocate(1), Some(0));
        assert_eq!(allocator.allocate(3585), None);
        assert_eq!(allocator.allocate(3584), Some(512));
    }
}
