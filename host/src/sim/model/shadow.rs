//! What is kept beside the bytes: who wrote and read them last.
//!
//! One cell for 4 bytes; a page in which bytes or halves are accessed alone changes to one cell for each byte.

use super::clocks::BlockNumber;
use crate::sim::interface::{MemoryAccess, Order, Scope};
use std::collections::HashMap;

/// Bytes of a page.
const PAGE_BYTES: u64 = 1024;
/// Bytes of a coarse cell.
const COARSE_BYTES: u64 = 4;
/// More proxies of one allocation than this count as one.
const PROXIES_MAX: usize = 255;

/// No access: numbers of blocks begin at 1.
const NOBODY: BlockNumber = 0;
/// The host.
pub(super) const HOST_BLOCK: BlockNumber = u32::MAX;
/// Stands in the place of a read where there are several; the time is an index.
const SEVERAL: BlockNumber = u32::MAX - 1;

/// One access, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) block: BlockNumber,
    pub(super) time: u32,
    /// The instruction, and in the top 8 bits the proxy.
    pc_proxy: u32,
    pub(super) thread: u16,
    /// Scope (0 for weak), width as a power of two, order; [`OBSERVES`].
    kind: u16,
}

/// Of a read: it read the last write.
const OBSERVES: u16 = 1 << 15;

impl Record {
    const NONE: Self = Self { block: NOBODY, time: 0, pc_proxy: 0, thread: 0, kind: 0 };

    /// Of a thread.
    #[inline]
    pub(super) fn new(
        (block, thread, time): (BlockNumber, u16, u32),
        pc: u32,
        proxy: u8,
        access: MemoryAccess,
    ) -> Self {
        let strength = match access.scope {
            Scope::None => 0,
            Scope::Cta | Scope::Cluster => 1,
            Scope::Gpu => 2,
            Scope::Sys => 3,
        };
        let kind = strength | (access.width_bytes.trailing_zeros() as u16) << 2 | (access.order as u16) << 5;
        Self { block, time, pc_proxy: pc & 0xff_ffff | u32::from(proxy) << 24, thread, kind }
    }

    /// As a read, which gave the last write or something older.
    pub(super) fn that_observes(self, observes: bool) -> Self {
        Self { kind: self.kind & !OBSERVES | if observes { OBSERVES } else { 0 }, ..self }
    }

    /// Of the host.
    pub(super) fn host(time: u32) -> Self {
        Self { block: HOST_BLOCK, time, ..Self::NONE }
    }

    pub(super) fn pc(self) -> u32 {
        self.pc_proxy & 0xff_ffff
    }

    pub(super) fn proxy(self) -> u8 {
        (self.pc_proxy >> 24) as u8
    }

    /// Reach of a strong access plus 1; 0 for a weak one.
    #[inline]
    pub(super) fn strength(self) -> u16 {
        self.kind & 3
    }

    pub(super) fn width_bytes(self) -> u64 {
        1 << (self.kind >> 2 & 7)
    }

    pub(super) fn order(self) -> Order {
        let orders = [
            Order::Weak,
            Order::Volatile,
            Order::Relaxed,
            Order::Acquire,
            Order::Release,
            Order::AcqRel,
            Order::SeqCst,
        ];
        orders[usize::from(self.kind >> 5 & 7)]
    }

    #[inline]
    fn is_none(self) -> bool {
        self.block == NOBODY
    }

    /// Whether both have equal elements, order and scope, and one proxy.
    #[inline]
    fn same_kind(self, other: Self) -> bool {
        (self.kind ^ other.kind) & !OBSERVES == 0 && (self.pc_proxy ^ other.pc_proxy) >> 24 == 0
    }

    /// Whether both are strong, of equal elements and one proxy; scopes are not looked at.
    #[inline]
    pub(super) fn may_be_morally_strong(self, other: Self) -> bool {
        self.strength() > 0
            && other.strength() > 0
            && (self.kind ^ other.kind) >> 2 & 7 == 0
            && (self.pc_proxy ^ other.pc_proxy) >> 24 == 0
    }

    #[inline]
    fn same_thread(self, other: Self) -> bool {
        self.block == other.block && self.thread == other.thread
    }
}

/// What is kept for some bytes.
#[derive(Clone, Copy, Debug)]
struct Cell {
    write: Record,
    read: Record,
}

impl Cell {
    const EMPTY: Self = Self { write: Record::NONE, read: Record::NONE };
}

/// Accesses of one cell that no later one stands for.
#[derive(Clone, Debug, Default)]
struct Several {
    /// By thread and kind.
    reads: HashMap<(BlockNumber, u16, u16), Record>,
    /// Strong writes before the last one.
    writes: Vec<Record>,
    /// Reads when the map was last cleaned.
    n_cleaned: usize,
}

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
    several: Vec<Several>,
    free: Vec<u32>,
}

/// An earlier access that conflicts with one and is not ordered before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    pub(super) earlier: Record,
    pub(super) earlier_writes: bool,
}

/// Says of an earlier access whether it is ordered before the present one, and whether the two do no harm unordered.
pub(super) trait Judge {
    fn is_before(&self, earlier: Record) -> bool;
    fn is_harmless(&self, earlier: Record) -> bool;
    /// Whether two earlier accesses are morally strong.
    fn are_strong(&self, one: Record, two: Record) -> bool;
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
        if (start | end) % COARSE_BYTES != 0 {
            self.refine(number);
        }
        let page = self.pages[number].as_mut().expect("just made");
        let cell_bytes = if page.is_fine { 1 } else { COARSE_BYTES };
        let base = number as u64 * PAGE_BYTES;
        let range = ((start - base) / cell_bytes) as usize..((end - base) / cell_bytes) as usize;
        let several = &mut self.several;
        for cell in &mut page.cells[range] {
            if reads {
                cell.note_read(record, writes, several, &mut self.free, judge)?;
            }
            if writes {
                cell.note_write(record, reads, several, &mut self.free, judge)?;
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
            for byte in 0..COARSE_BYTES {
                let mut copy = *cell;
                if copy.read.block == SEVERAL && byte > 0 {
                    let several = self.several[copy.read.time as usize].clone();
                    copy.read.time = keep(&mut self.several, &mut self.free, several);
                }
                cells.push(copy);
            }
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

fn keep(several: &mut Vec<Several>, free: &mut Vec<u32>, new: Several) -> u32 {
    match free.pop() {
        Some(index) => {
            several[index as usize] = new;
            index
        }
        None => {
            several.push(new);
            several.len() as u32 - 1
        }
    }
}

fn key(record: Record) -> (BlockNumber, u16, u16) {
    (record.block, record.thread, record.kind & 3)
}

impl Cell {
    /// A write is ordered before those, too, who know of a strong read of it (PTX ISA 8.9.5, "causality order").
    #[inline]
    fn check_write(&self, several: &[Several], judge: &impl Judge) -> Result<(), Conflict> {
        check(self.write, true, judge).or_else(|conflict| {
            let is_observed = |read: &Record| {
                read.kind & OBSERVES != 0 && judge.are_strong(self.write, *read) && judge.is_before(*read)
            };
            let found = match self.read.block {
                SEVERAL => several[self.read.time as usize].reads.values().any(is_observed),
                NOBODY => false,
                _ => is_observed(&self.read),
            };
            if found { Ok(()) } else { Err(conflict) }
        })
    }

    #[inline]
    fn note_read(
        &mut self,
        record: Record,
        also_writes: bool,
        several: &mut Vec<Several>,
        free: &mut Vec<u32>,
        judge: &impl Judge,
    ) -> Result<(), Conflict> {
        self.check_write(several, judge)?;
        if self.read.block == SEVERAL {
            let found = &mut several[self.read.time as usize];
            found.writes.iter().try_for_each(|&write| check(write, true, judge))?;
            if !also_writes {
                found.add_read(record, judge);
            }
            return Ok(());
        }
        // The write that follows stands for the read of an atomic.
        if also_writes {
            return Ok(());
        }
        let stands_for = self.read.is_none()
            || (self.read.same_thread(record) && self.read.same_kind(record))
            || (record.strength() <= self.read.strength() && judge.is_before(self.read));
        if stands_for {
            self.read = record;
        } else {
            let mut both = Several::default();
            both.reads.insert(key(self.read), self.read);
            both.reads.insert(key(record), record);
            self.read = Record { block: SEVERAL, time: keep(several, free, both), ..Record::NONE };
        }
        Ok(())
    }

    #[inline]
    fn note_write(
        &mut self,
        record: Record,
        also_reads: bool,
        several: &mut Vec<Several>,
        free: &mut Vec<u32>,
        judge: &impl Judge,
    ) -> Result<(), Conflict> {
        self.check_write(several, judge)?;
        // Whoever knows of an atomic knows of the write that it has read (PTX ISA 8.9.5).
        let stands_for = also_reads && judge.is_harmless(self.write);
        let superseded = !self.write.is_none() && !stands_for && !judge.is_before(self.write);
        if self.read.block == SEVERAL {
            let index = self.read.time;
            let found = &mut several[index as usize];
            found.writes.iter().try_for_each(|&write| check(write, true, judge))?;
            found.reads.values().try_for_each(|&read| check(read, false, judge))?;
            found.reads.retain(|_, read| !judge.is_before(*read));
            found.reads.values_mut().for_each(|read| *read = read.that_observes(false));
            found.writes.retain(|write| !judge.is_before(*write));
            if superseded {
                found.add_write(self.write);
            } else if found.reads.is_empty() && found.writes.is_empty() {
                free.push(index);
                self.read = Record::NONE;
            }
        } else if !self.read.is_none() {
            check(self.read, false, judge)?;
            self.read =
                if judge.is_before(self.read) { Record::NONE } else { self.read.that_observes(false) };
        }
        if superseded && self.read.block != SEVERAL {
            let mut both = Several { writes: vec![self.write], ..Several::default() };
            if !self.read.is_none() {
                both.reads.insert(key(self.read), self.read);
            }
            self.read = Record { block: SEVERAL, time: keep(several, free, both), ..Record::NONE };
        }
        self.write = record;
        Ok(())
    }
}

impl Several {
    fn add_write(&mut self, record: Record) {
        match self.writes.iter_mut().find(|known| known.same_thread(record)) {
            Some(known) => *known = record,
            None => self.writes.push(record),
        }
    }

    fn add_read(&mut self, record: Record, judge: &impl Judge) {
        self.reads.insert(key(record), record);
        if self.reads.len() > 2 * self.n_cleaned.max(16) {
            let stands_for = |read: &Record| record.strength() <= read.strength() && judge.is_before(*read);
            self.reads.retain(|_, read| *read == record || !stands_for(read));
            self.n_cleaned = self.reads.len();
        }
    }
}

#[inline]
fn check(earlier: Record, earlier_writes: bool, judge: &impl Judge) -> Result<(), Conflict> {
    if earlier.is_none() || judge.is_harmless(earlier) || judge.is_before(earlier) {
        return Ok(());
    }
    Err(Conflict { earlier, earlier_writes })
}
