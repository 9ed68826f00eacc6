//! Which window covers an address.

use std::sync::{Arc, Weak};

/// A range of addresses at which an owner can be found.
#[derive(Debug)]
struct Entry<T> {
    start: u64,
    end: u64,
    /// Offset in the space of the byte at address 0 (wrapping): two entries that cover an address mean the same byte if
    /// their shifts are equal.
    shift: u64,
    owner: Weak<T>,
}

/// What a look-up found.
#[derive(Debug)]
pub(crate) enum Found<T> {
    /// An owner that covers the range.
    Owner(Arc<T>),
    /// The range has several places in the space, at these offsets.
    SeveralPlaces(Vec<u64>),
    /// None covers it. The nearest range, if there is any, as its start and length.
    Nothing(Option<(u64, u64)>),
}

/// Live owners by ranges of addresses, which may overlap.
#[derive(Debug)]
pub(crate) struct IntervalIndex<T> {
    /// In the order of their starts.
    entries: Vec<Entry<T>>,
    /// For each entry, which of those up to it ends last.
    reaches_furthest: Vec<usize>,
    /// Some entry overlapped one of another shift when it was added.
    has_doubles: bool,
}

impl<T> Default for IntervalIndex<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), reaches_furthest: Vec::new(), has_doubles: false }
    }
}

impl<T> IntervalIndex<T> {
    /// Adds the range of `len_bytes` at `start`, whose first byte is at `flat_bytes` in the space. It is forgotten when
    /// the owner goes.
    pub(crate) fn insert(&mut self, start: u64, len_bytes: u64, flat_bytes: u64, owner: &Arc<T>) {
        let (end, shift) = (start + len_bytes, flat_bytes.wrapping_sub(start));
        let overlaps = |other: &Entry<T>| other.start < end && start < other.end;
        self.has_doubles |= self.entries.iter().any(|other| overlaps(other) && other.shift != shift);
        let at = self.entries.partition_point(|other| other.start <= start);
        self.entries.insert(at, Entry { start, end, shift, owner: Arc::downgrade(owner) });
        self.reach();
    }

    /// A live owner that covers the range.
    pub(crate) fn find(&mut self, address: u64, len_bytes: u64) -> Found<T> {
        let Some(end) = address.checked_add(len_bytes) else { return Found::Nothing(self.nearest(address)) };
        while let Some(at) = self.covering(address, end) {
            match self.entries[at].owner.upgrade() {
                Some(owner) if self.has_doubles => return self.only_place(address, end, owner),
                Some(owner) => return Found::Owner(owner),
                None => self.purge(),
            }
        }
        self.purge();
        Found::Nothing(self.nearest(address))
    }

    /// All live owners in the order of their first addresses, each once.
    pub(crate) fn live(&mut self) -> Vec<Arc<T>> {
        self.purge();
        let mut live: Vec<Arc<T>> = Vec::new();
        for owner in self.entries.iter().filter_map(|entry| entry.owner.upgrade()) {
            if !live.iter().any(|known| Arc::ptr_eq(known, &owner)) {
                live.push(owner);
            }
        }
        live
    }

    /// Of the entries that start at or below `address`, the one that ends last, if it reaches to `end`: where that one
    /// does not, none does.
    fn covering(&self, address: u64, end: u64) -> Option<usize> {
        let n_below = self.entries.partition_point(|entry| entry.start <= address);
        let at = self.reaches_furthest[n_below.checked_sub(1)?];
        (self.entries[at].end >= end).then_some(at)
    }

    /// Where a rank joined one allocation with several of a peer's, an address alone does not say which is meant.
    fn only_place(&mut self, address: u64, end: u64, owner: Arc<T>) -> Found<T> {
        self.purge();
        let covers = |entry: &&Entry<T>| entry.start <= address && entry.end >= end;
        let places = self.entries.iter().filter(covers).map(|entry| address.wrapping_add(entry.shift));
        let mut places: Vec<u64> = places.collect();
        places.sort_unstable();
        places.dedup();
        if places.len() > 1 { Found::SeveralPlaces(places) } else { Found::Owner(owner) }
    }

    fn nearest(&self, address: u64) -> Option<(u64, u64)> {
        let nearest = self.entries.iter().min_by_key(|entry| entry.start.abs_diff(address));
        nearest.map(|entry| (entry.start, entry.end - entry.start))
    }

    /// Forgets owners that have gone.
    fn purge(&mut self) {
        let n_before = self.entries.len();
        self.entries.retain(|entry| entry.owner.strong_count() > 0);
        if self.entries.len() < n_before {
            self.reach();
        }
        self.has_doubles &= !self.entries.is_empty();
    }

    fn reach(&mut self) {
        self.reaches_furthest.clear();
        let mut furthest = 0;
        for (at, entry) in self.entries.iter().enumerate() {
            if entry.end > self.entries[furthest].end {
                furthest = at;
            }
            self.reaches_furthest.push(furthest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A range, its place, and the owner while it lives.
    type Scanned = (u64, u64, u64, Arc<u32>);

    fn scan(live: &[Scanned], address: u64, len: u64) -> Vec<&Scanned> {
        live.iter()
            .filter(|(start, its_len, ..)| *start <= address && address + len <= start + its_len)
            .collect()
    }

    fn agrees_with_scan(index: &mut IntervalIndex<u32>, live: &[Scanned], address: u64, len: u64) {
        let covering = scan(live, address, len);
        let mut places: Vec<u64> =
            covering.iter().map(|(start, _, flat, _)| flat + address - start).collect();
        places.sort_unstable();
        places.dedup();
        match index.find(address, len) {
            Found::Nothing(_) => assert!(places.is_empty(), "{places:?}"),
            Found::SeveralPlaces(found) => assert_eq!((found, places.len() > 1), (places.clone(), true)),
            Found::Owner(owner) => {
                assert_eq!(places.len(), 1);
                assert!(covering.iter().any(|(.., its)| Arc::ptr_eq(its, &owner)));
            }
        }
    }

    proptest! {
        /// With ranges added and owners dropped in any order, a look-up answers as a scan of all ranges does.
        #[test]
        fn agrees_with_a_scan(
            steps in prop::collection::vec((0u8..8, 0u64..300, 1u64..80, 0u64..3), 1..60),
            asked in prop::collection::vec((0u64..400, 0u64..40), 1..40),
        ) {
            let mut index = IntervalIndex::default();
            let mut live: Vec<Scanned> = Vec::new();
            for (n, (action, start, len, shift)) in steps.into_iter().enumerate() {
                if action < 5 || live.is_empty() {
                    // Most ranges are at one place; some allocations have a second one.
                    let flat = start + if action == 0 { 1000 * shift } else { 0 };
                    let owner = Arc::new(n as u32);
                    index.insert(start, len, flat, &owner);
                    live.push((start, len, flat, owner));
                } else {
                    live.swap_remove(start as usize % live.len());
                }
                for &(address, len) in &asked {
                    agrees_with_scan(&mut index, &live, address, len);
                }
                let mut found: Vec<u32> = index.live().iter().map(|owner| **owner).collect();
                let mut expected: Vec<u32> = live.iter().map(|(.., owner)| **owner).collect();
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn names_the_nearest_range() {
        let mut index = IntervalIndex::default();
        let owner = Arc::new(());
        assert!(matches!(index.find(5, 1), Found::Nothing(None)));
        index.insert(100, 10, 0, &owner);
        index.insert(1000, 10, 0, &owner);
        assert!(matches!(index.find(300, 1), Found::Nothing(Some((100, 10)))));
        assert!(matches!(index.find(105, 6), Found::Nothing(Some((100, 10)))));
        assert!(matches!(index.find(u64::MAX, 2), Found::Nothing(Some((1000, 10)))));
    }
}
