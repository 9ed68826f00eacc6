//! What strong writes release, kept with the location until it is written again.

use super::agent::{Reach, Release};
use super::clocks::BlockNumber;
use std::collections::HashMap;

/// Bytes of a page; most pages hold no message.
const PAGE_BYTES: u64 = 1024;

/// The last write of a location, if it released something.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Block of the writer.
    pub(super) block: BlockNumber,
    /// Its device.
    pub(super) device: u32,
    /// Its scope.
    pub(super) reach: Reach,
    /// Bytes of the element.
    pub(super) width_bytes: u64,
    /// Its proxy.
    pub(super) mapping: u32,
    /// What it released, and, of an atomic, what it read that was released (PTX ISA 8.9.2, "observation order").
    pub(super) releases: Vec<Release>,
}

/// Messages in one allocation.
#[derive(Debug, Default)]
pub(super) struct Messages {
    by_offset: HashMap<u64, Message>,
    /// By page.
    counts: Vec<u32>,
}

impl Messages {
    fn count(&mut self, offset: u64) -> &mut u32 {
        let page = (offset / PAGE_BYTES) as usize;
        if self.counts.len() <= page {
            self.counts.resize(page + 1, 0);
        }
        &mut self.counts[page]
    }

    #[inline]
    fn has_none(&self, offset: u64) -> bool {
        self.counts.get((offset / PAGE_BYTES) as usize).is_none_or(|&count| count == 0)
    }

    /// The message at an element.
    #[inline]
    pub(super) fn get(&self, offset: u64) -> Option<&Message> {
        if self.has_none(offset) { None } else { self.by_offset.get(&offset) }
    }

    /// A write of a whole element without a release.
    #[inline]
    pub(super) fn clear(&mut self, offset: u64, len_bytes: u64) {
        if self.has_none(offset) {
            return;
        }
        // A message of 16 bytes may begin before the range.
        for start in offset / 16 * 16..offset + len_bytes {
            let overlaps =
                self.by_offset.get(&start).is_some_and(|message| start + message.width_bytes > offset);
            if overlaps {
                self.by_offset.remove(&start);
                *self.count(start) -= 1;
            }
        }
    }

    /// A write with a release.
    pub(super) fn set(&mut self, offset: u64, message: Message) {
        self.clear(offset, message.width_bytes);
        self.by_offset.insert(offset, message);
        *self.count(offset) += 1;
    }
}
