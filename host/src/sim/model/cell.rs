//! What is kept for a few bytes: the last write, the reads since, and what neither stands for.

use super::clocks::BlockNumber;
use super::record::{NOBODY, Record, SEVERAL};
use std::collections::HashMap;

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

/// What is kept for some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    write: Record,
    read: Record,
}

impl Cell {
    pub(super) const EMPTY: Self = Self { write: Record::NONE, read: Record::NONE };
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

/// The several accesses of all cells that have them, by index.
#[derive(Debug, Default)]
pub(super) struct SeveralTable {
    all: Vec<Several>,
    free: Vec<u32>,
}

impl SeveralTable {
    fn keep(&mut self, new: Several) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.all[index as usize] = new;
                index
            }
            None => {
                self.all.push(new);
                self.all.len() as u32 - 1
            }
        }
    }
}

fn key(record: Record) -> (BlockNumber, u16, u16) {
    (record.block, record.thread, record.strength())
}

impl Cell {
    /// The cells of the bytes that this one stands for.
    pub(super) fn split(self, n: u64, table: &mut SeveralTable) -> impl Iterator<Item = Self> {
        (0..n).map(move |byte| {
            let mut copy = self;
            if copy.read.block == SEVERAL && byte > 0 {
                copy.read.time = table.keep(table.all[copy.read.time as usize].clone());
            }
            copy
        })
    }

    /// A write is ordered before those, too, who know of a strong read of it (PTX ISA 8.9.5, "causality order").
    #[inline]
    fn check_write(&self, table: &SeveralTable, judge: &impl Judge) -> Result<(), Conflict> {
        check(self.write, true, judge).or_else(|conflict| {
            let is_observed = |read: &Record| {
                read.observes() && judge.are_strong(self.write, *read) && judge.is_before(*read)
            };
            let found = match self.read.block {
                SEVERAL => table.all[self.read.time as usize].reads.values().any(is_observed),
                NOBODY => false,
                _ => is_observed(&self.read),
            };
            if found { Ok(()) } else { Err(conflict) }
        })
    }

    #[inline]
    pub(super) fn note_read(
        &mut self,
        record: Record,
        also_writes: bool,
        table: &mut SeveralTable,
        judge: &impl Judge,
    ) -> Result<(), Conflict> {
        self.check_write(table, judge)?;
        if self.read.block == SEVERAL {
            let found = &mut table.all[self.read.time as usize];
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
            self.read = Record::several(table.keep(both));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn note_write(
        &mut self,
        record: Record,
        also_reads: bool,
        table: &mut SeveralTable,
        judge: &impl Judge,
    ) -> Result<(), Conflict> {
        self.check_write(table, judge)?;
        // Whoever knows of an atomic knows of the write that it has read (PTX ISA 8.9.5).
        let stands_for = also_reads && judge.is_harmless(self.write);
        let superseded = !self.write.is_none() && !stands_for && !judge.is_before(self.write);
        if self.read.block == SEVERAL {
            let index = self.read.time;
            let found = &mut table.all[index as usize];
            found.writes.iter().try_for_each(|&write| check(write, true, judge))?;
            found.reads.values().try_for_each(|&read| check(read, false, judge))?;
            found.reads.retain(|_, read| !judge.is_before(*read));
            found.reads.values_mut().for_each(|read| *read = read.that_observes(false));
            found.writes.retain(|write| !judge.is_before(*write));
            if superseded {
                found.add_write(self.write);
            } else if found.reads.is_empty() && found.writes.is_empty() {
                table.free.push(index);
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
            self.read = Record::several(table.keep(both));
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
