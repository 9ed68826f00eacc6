//! What is kept beside the bytes: who wrote and read them last.
//!
//! One cell for 4 bytes; a page in which bytes or halves are accessed alone changes to one cell for each byte.

use super::cell::{Cell, Conflict, Judge, SeveralTable};
use super::record::Record;

/// Bytes of a page.
const PAGE_BYTES: u64 = 1024;
/// Bytes of a coarse cell.
const COARSE_BYTES: u64 = 4;
/// More proxies of one allocation than this count as one.
const PROXIES_MAX: usize = 255;

#[derive(Debug)]
struct Page {
    is_fine: bool,
    cells: Box<[Cell]>,
}

impl Page {
    fn new() -> Self {
        Self { is_fine: false, cells: vec![Cell::EMPTY; (PAGE_BYTES / COARSE_BYTES) as usize].into() }
    }
}

/// Pages of one allocation.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pages: Vec<Option<Page>>,
    /// Mappings by which it was accessed; the index is the proxy.
    mappings: Vec<u32>,
    several: SeveralTable,
}

impl Shadow {
    /// The proxy of a mapping.
    #[inline]
    pub(super) fn proxy(&mut self, mapping: u32) -> u8 {
        let known = self.mappings.iter().position(|&known| known == mapping);
        known
            .unwrap_or_else(|| {
                self.mappings.push(mapping);
                self.mappings.len() - 1
            })
            .min(PROXIES_MAX) as u8
    }

    /// Notes an access to a range of whole elements.
    ///
    /// # Errors
    ///
    /// The first access that it conflicts with.
    #[inline]
    pub(super) fn note(
        &mut self,
        offset: u64,
        len_bytes: u64,
        record: Record,
        (reads, writes): (bool, bool),
        judge: &impl Judge,
    ) -> Result<(), Conflict> {
        let (mut at, end) = (offset, offset + len_bytes);
        while at < end {
            let stop = end.min((at / PAGE_BYTES + 1) * PAGE_BYTES);
            self.note_in_page(at, stop, record, (reads, writes), judge)?;
            at = stop;
        }
        Ok(())
    }

    #[inline]
    fn note_in_page(
        &mut self,
        start: u64,
        end: u64,
        record: Record,
        (reads, writes): (bool, bool),
        judge: &impl Judge,
    ) -> Result<(), Conflict> {
        let number = (start / PAGE_BYTES) as usize;
        if self.pages.get(number).is_none_or(Option::is_none) {
            if self.pages.len() <= number {
                self.pages.resize_with(number + 1, || None);
            }
            self.pages[number] = Some(Page::new());
        }
        if !(start | end).is_multiple_of(COARSE_BYTES) {
            self.refine(number);
        }
        let page = self.pages[number].as_mut().expect("just made");
        let cell_bytes = if page.is_fine { 1 } else { COARSE_BYTES };
        let base = number as u64 * PAGE_BYTES;
        let range = ((start - base) / cell_bytes) as usize..((end - base) / cell_bytes) as usize;
        let several = &mut self.several;
        for cell in &mut page.cells[range] {
            if reads {
                cell.note_read(record, writes, several, judge)?;
            }
            if writes {
                cell.note_write(record, reads, several, judge)?;
            }
        }
        Ok(())
    }

    /// One cell for each byte.
    #[cold]
    fn refine(&mut self, number: usize) {
        let page = self.pages[number].as_mut().expect("a refined page is there");
        if page.is_fine {
            return;
        }
        let mut cells = Vec::with_capacity(PAGE_BYTES as usize);
        for cell in &page.cells {
            cells.extend(cell.split(COARSE_BYTES, &mut self.several));
        }
        *page = Page { is_fine: true, cells: cells.into() };
    }

    /// Whether anything was noted in a range.
    pub(super) fn touched(&self, offset: u64, len_bytes: u64) -> Vec<(u64, u64)> {
        let pages = offset / PAGE_BYTES..(offset + len_bytes).div_ceil(PAGE_BYTES);
        let is_there = |number: &u64| self.pages.get(*number as usize).is_some_and(Option::is_some);
        let part = |number: u64| {
            let (start, end) = (number * PAGE_BYTES, (number + 1) * PAGE_BYTES);
            (start.max(offset), end.min(offset + len_bytes))
        };
        pages.filter(is_there).map(part).collect()
    }
}
