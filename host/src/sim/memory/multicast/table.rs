//! What all processes know of one multicast object: its team and what is bound, in a `memfd` that they share.
//!
//! | byte | what |
//! |---|---|
//! | 0 | length of the object in bytes |
//! | 8 | devices of its team |
//! | 16 | number of changes so far |
//! | 24 | entries that were ever used |
//! | 64 | a word for each member: 1 + device, 0 while the place is free |
//! | 8192 | entries of 64 bytes, one a binding |
//!
//! A place is claimed by an exchange of its word, so that processes need no lock; an entry counts once it is marked
//! valid, which is done last.

use super::super::access;
use super::super::physical::{Identity, duplicate, identity, link_of};
use super::super::reservation::Reservation;
use crate::Result;
use crate::sim::result::io;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const NAME: &str = "symmem-sim-multicast";
const LEN_AT: u64 = 0;
const N_DEVICES_AT: u64 = 8;
const CHANGES_AT: u64 = 16;
const USED_AT: u64 = 24;
const TEAM_AT: u64 = 64;
const TEAM_MAX: u32 = 1024;
const ENTRIES_AT: u64 = 8192;
const ENTRY_BYTES: u64 = 64;
const ENTRIES_MAX: u64 = 4096;
const FILE_BYTES: u64 = ENTRIES_AT + ENTRIES_MAX * ENTRY_BYTES;

/// States of an entry.
const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const VALID: u64 = 2;

/// Memory bound to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The device that owns the memory.
    pub(crate) device: u32,
    /// Where in the object, in bytes.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len_bytes: u64,
    /// Where in the memory, in bytes.
    pub(crate) physical_offset: u64,
    /// Names the memory.
    pub(crate) memory: Identity,
}

impl Bound {
    /// Whether it covers any of a range of the object.
    pub(crate) fn overlaps(&self, offset: u64, len_bytes: u64) -> bool {
        offset < self.offset + self.len_bytes && self.offset < offset + len_bytes
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    place: Reservation,
    /// Bytes of the object.
    pub(crate) len_bytes: u64,
    /// Devices of its team.
    pub(crate) n_devices: u32,
}

impl Table {
    /// A table of nobody and nothing, and its file.
    pub(crate) fn create(n_devices: u32, len_bytes: u64) -> Result<(Self, OwnedFd)> {
        let failed = |errno| io("making a multicast object", errno);
        let fd = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(failed)?;
        ftruncate(&fd, FILE_BYTES).map_err(failed)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(failed)?;
        let table = Self { place: map(fd.as_fd())?, len_bytes, n_devices };
        table.set(LEN_AT, 8, len_bytes);
        table.set(N_DEVICES_AT, 8, n_devices.into());
        Ok((table, fd))
    }

    /// The table in a file that another process made; `None` if it is another file.
    pub(crate) fn import(fd: BorrowedFd<'_>) -> Result<Option<(Self, OwnedFd)>> {
        if !link_of(fd).is_some_and(|link| link.starts_with(&format!("/memfd:{NAME} "))) {
            return Ok(None);
        }
        let mut table = Self { place: map(fd)?, len_bytes: 0, n_devices: 0 };
        (table.len_bytes, table.n_devices) = (table.get(LEN_AT, 8), table.get(N_DEVICES_AT, 8) as u32);
        Ok(Some((table, duplicate(fd)?)))
    }

    /// Grows with every change, by whatever process.
    pub(crate) fn n_changes(&self) -> u64 {
        self.get(CHANGES_AT, 8)
    }

    /// Devices added so far, in the order in which they came.
    pub(crate) fn team(&self) -> Vec<u32> {
        let places = 0..self.n_devices.min(TEAM_MAX);
        let members = places.map(|place| self.get(TEAM_AT + 4 * u64::from(place), 4) as u32);
        members.filter_map(|member| member.checked_sub(1)).collect()
    }

    /// Adds a device; false if every place is taken.
    pub(crate) fn add(&self, device: u32) -> bool {
        let free = |place: &u32| {
            let taken = |old| if old == 0 { u64::from(device) + 1 } else { old };
            self.modify(TEAM_AT + 4 * u64::from(*place), 4, taken) == 0
        };
        let added = (0..self.n_devices.min(TEAM_MAX)).any(|place| free(&place));
        self.change();
        added
    }

    /// All that is bound.
    pub(crate) fn bound(&self) -> Vec<Bound> {
        let entries = (0..self.get(USED_AT, 8).min(ENTRIES_MAX)).map(entry);
        entries.filter(|&at| self.get(at, 4) == VALID).map(|at| self.read(at)).collect()
    }

    /// Enters a binding; false if the table is full.
    pub(crate) fn enter(&self, bound: Bound) -> bool {
        let claim = |old| if old == FREE { CLAIMED } else { old };
        let Some(number) = (0..ENTRIES_MAX).find(|&number| self.modify(entry(number), 4, claim) == FREE)
        else {
            return false;
        };
        let at = entry(number);
        self.set(at + 4, 4, bound.device.into());
        let words = [bound.offset, bound.len_bytes, bound.physical_offset, bound.memory.0, bound.memory.1];
        for (place, word) in (1..).zip(words) {
            self.set(at + 8 * place, 8, word);
        }
        self.modify(USED_AT, 8, |old| old.max(number + 1));
        self.set(at, 4, VALID);
        self.change();
        true
    }

    /// Strikes a binding.
    pub(crate) fn strike(&self, bound: Bound) {
        let used = (0..self.get(USED_AT, 8).min(ENTRIES_MAX)).map(entry);
        let found = |at: &u64| self.get(*at, 4) == VALID && self.read(*at) == bound;
        if let Some(at) = used.into_iter().find(found) {
            self.set(at, 4, FREE);
            self.change();
        }
    }

    fn read(&self, at: u64) -> Bound {
        let word = |place: u64| self.get(at + 8 * place, 8);
        Bound {
            device: self.get(at + 4, 4) as u32,
            offset: word(1),
            len_bytes: word(2),
            physical_offset: word(3),
            memory: (word(4), word(5)),
        }
    }

    fn change(&self) {
        self.modify(CHANGES_AT, 8, |old| old + 1);
    }

    fn get(&self, at: u64, width_bytes: u8) -> u64 {
        // SAFETY: `at` is a multiple of the width inside the file, which is mapped here as long as `self` lives, cannot
        // shrink, and is touched only by atomics.
        unsafe { access::load(self.place.start() + at, width_bytes) }
    }

    fn set(&self, at: u64, width_bytes: u8, value: u64) {
        // SAFETY: as in `get`.
        unsafe { access::store(self.place.start() + at, width_bytes, value) }
    }

    /// Replaces a word; gives what was there.
    fn modify(&self, at: u64, width_bytes: u8, update: impl Fn(u64) -> u64) -> u64 {
        // SAFETY: as in `get`.
        unsafe { access::modify(self.place.start() + at, width_bytes, update).0 }
    }
}

/// Names the file of a table.
pub(crate) fn identity_of(fd: BorrowedFd<'_>) -> Result<Identity> {
    identity(fd).map_err(|errno| io("looking at a multicast object", errno))
}

fn entry(number: u64) -> u64 {
    ENTRIES_AT + number * ENTRY_BYTES
}

fn map(fd: BorrowedFd<'_>) -> Result<Reservation> {
    let place = Reservation::new(FILE_BYTES, 4096, 0)?;
    place.map(place.start(), FILE_BYTES, fd)?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(device: u32, offset: u64) -> Bound {
        Bound { device, offset, len_bytes: 2 << 20, physical_offset: 4 << 20, memory: (1, 2) }
    }

    #[test]
    fn two_processes_see_one_table() {
        let (made, fd) = Table::create(2, 8 << 20).unwrap();
        let (seen, _fd) = Table::import(fd.as_fd()).unwrap().expect("a table");
        assert_eq!((seen.len_bytes, seen.n_devices), (8 << 20, 2));
        assert!(made.add(5) && seen.add(0) && !made.add(1));
        assert_eq!(seen.team(), [5, 0]);
        let before = seen.n_changes();
        assert!(made.enter(bound(5, 0)) && seen.enter(bound(0, 0)) && made.enter(bound(5, 2 << 20)));
        seen.strike(bound(0, 0));
        assert_eq!(made.bound(), [bound(5, 0), bound(5, 2 << 20)]);
        assert!(seen.n_changes() > before);
        assert!(seen.enter(bound(0, 4 << 20)), "the place is used again");
        assert_eq!(made.bound(), [bound(5, 0), bound(0, 4 << 20), bound(5, 2 << 20)]);
    }

    #[test]
    fn other_files_are_none() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Table::import(file.as_fd()).unwrap().is_none());
    }
}
