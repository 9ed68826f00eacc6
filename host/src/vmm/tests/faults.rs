//! A growth that fails leaves everything as it was, whichever call of the machine fails.

use super::*;
use crate::vmm::{Growth, Reservation};

/// Everything that can be seen of a vector and its machine.
#[derive(Debug, PartialEq)]
struct Seen {
    address: Option<u64>,
    len: usize,
    capacity: usize,
    live: LiveCounts,
    used_bytes: u64,
}

fn see<V: DeviceVec<Element>>(bed: &Bed, vector: &V) -> Seen {
    Seen {
        address: vector.address(),
        len: vector.len(),
        capacity: vector.capacity(),
        live: bed.sim.live(),
        used_bytes: bed.used_bytes(),
    }
}

/// Refuses each call of `act` in turn until it goes through; gives how many calls it makes.
fn refuse_each<V: DeviceVec<Element>>(
    bed: &Bed,
    vector: &mut V,
    act: impl Fn(&mut V) -> Result<Growth>,
) -> u64 {
    let (before, elements) = (see(bed, vector), vector.to_vec().unwrap());
    for n in 0.. {
        bed.tap.watch().refuse(n);
        let acted = act(vector);
        bed.tap.watch().refuse(u64::MAX);
        bed.machine.take_deferred().unwrap();
        assert!(vector.to_vec().unwrap() == elements, "call {n}");
        if acted.is_ok() {
            return n;
        }
        assert_eq!(see(bed, vector), before, "call {n}");
    }
    unreachable!("some number of calls is enough")
}

#[test]
fn of_a_mapped_vector_in_and_out_of_place() {
    let bed = Bed::new();
    let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
    vector.set_access(1, Access::ReadWrite).unwrap();
    vector.reserve(2 * PER_GRAIN).unwrap();
    vector.extend_from_slice(&elements(1, 100)).unwrap();
    // Within what is reserved: granularity, create, map, rights of two devices.
    assert_eq!(refuse_each(&bed, &mut vector, |vector| vector.grow(2 * PER_GRAIN)), 5);
    // Past it: the addresses behind, and where those are not free, others and what is there mapped again.
    let end = vector.address().unwrap() + vector.range.len_bytes();
    let blocker = Reservation::with_hint(&bed.machine, GRAIN, GRAIN, end).unwrap();
    let reserved = vector.reserved();
    let n = refuse_each(&bed, &mut vector, |vector| {
        assert_eq!(vector.reserved(), reserved);
        vector.grow(6 * PER_GRAIN)
    });
    assert_eq!(n, 2 + 2 * 3 + 5);
    drop((vector, blocker));
    bed.finish();
}

#[test]
fn of_a_mapped_vector_that_reserves() {
    let bed = Bed::new();
    let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
    vector.extend_from_slice(&elements(1, 100)).unwrap();
    assert!(refuse_each(&bed, &mut vector, |vector| vector.reserve(3 * PER_GRAIN)) >= 1);
    // Addresses for as much again, at best in two reservations: a mapping lies in one of them.
    assert!(refuse_each(&bed, &mut vector, |vector| vector.grow(9 * PER_GRAIN)) >= 4);
    drop(vector);
    bed.finish();
}

#[test]
fn of_a_copied_vector() {
    let bed = Bed::new();
    let mut vector = CopyVec::<Element>::new(&bed.device());
    vector.extend_from_slice(&elements(1, 100)).unwrap();
    assert_eq!(refuse_each(&bed, &mut vector, |vector| vector.grow(2 * PER_GRAIN)), 2);
    drop(vector);
    bed.finish();
}

#[test]
fn of_rights() {
    let bed = Bed::new();
    let mut vector = VmmVec::<Element>::with_reserved(&bed.device(), 4 * PER_GRAIN).unwrap();
    for n in 1..4 {
        vector.grow(n * PER_GRAIN).unwrap();
    }
    let n_mappings = vector.mappings.len() as u64;
    let n = refuse_each(&bed, &mut vector, |vector| {
        let given = vector.set_access(2, Access::Read);
        let reads = |element| bed.sim.read(2, vector.address_of(element), &mut [0]).is_ok();
        let last = vector.capacity() - 1;
        assert_eq!((reads(0), reads(last)), (given.is_ok(), given.is_ok()));
        given.map(|()| Growth::Enough)
    });
    assert_eq!(n, n_mappings);
    drop(vector);
    bed.finish();
}

#[test]
fn of_memory_that_ran_out() {
    let bed = Bed::new();
    let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
    vector.extend_from_slice(&elements(1, 100)).unwrap();
    let before = see(&bed, &vector);
    let error = vector.grow(65 * PER_GRAIN).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Driver { code: 2, .. }), "{error}");
    assert_eq!(see(&bed, &vector), before);
    drop(vector);
    bed.finish();
}
