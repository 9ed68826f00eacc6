//! Random sequences of calls, against a vector of the host.

use super::*;
use crate::vmm::{Growth, Reservation};
use proptest::prelude::*;

/// What is done to a vector.
#[derive(Clone, Debug)]
enum Step {
    Reserve(usize),
    Grow(usize),
    Resize(usize),
    Extend(usize),
    /// From where on, and how much, as parts of what is there.
    Write(f64, f64),
    /// Takes the addresses behind the vector, so that it must move.
    Block,
    Unblock,
}

const MOST: usize = 4 * PER_GRAIN;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..MOST).prop_map(Step::Reserve),
        (0..MOST).prop_map(Step::Grow),
        (0..MOST).prop_map(Step::Resize),
        (0..PER_GRAIN / 2).prop_map(Step::Extend),
        (0.0..1.0, 0.0..1.0).prop_map(|(first, count)| Step::Write(first, count)),
        Just(Step::Block),
        Just(Step::Unblock),
    ]
}

/// The part of a step that every vector can do.
fn apply<V: DeviceVec<Element>>(vector: &mut V, model: &mut Vec<Element>, seed: u64, step: &Step) {
    match *step {
        Step::Grow(count) => {
            let (address, growth) = (vector.address(), vector.grow(count).unwrap());
            assert!(vector.capacity() >= count);
            assert_eq!(growth == Growth::Moved, address.is_some() && address != vector.address());
        }
        Step::Resize(len) => {
            vector.resize(len).unwrap();
            model.resize(len, [0; 3]);
        }
        Step::Extend(count) => {
            let source = elements(seed, count);
            vector.extend_from_slice(&source).unwrap();
            model.extend_from_slice(&source);
        }
        Step::Write(first, count) => {
            let first = (model.len() as f64 * first) as usize;
            let source = elements(seed, ((model.len() - first) as f64 * count) as usize);
            vector.write(first, &source).unwrap();
            model[first..first + source.len()].copy_from_slice(&source);
        }
        Step::Reserve(_) | Step::Block | Step::Unblock => {}
    }
    assert_eq!(vector.len(), model.len());
    assert!(vector.to_vec().unwrap() == *model, "the elements differ");
}

/// One step, with what only a [`VmmVec`] promises: physical memory, peak, and when it moves.
fn mapped_step(
    bed: &Bed,
    vector: &mut VmmVec<Element>,
    model: &mut Vec<Element>,
    blockers: &mut Vec<Reservation>,
    (seed, step): (u64, &Step),
) {
    let (address, reserved_bytes) = (vector.address(), vector.range.len_bytes());
    let physical_bytes = vector.physical_bytes();
    let end = address.unwrap_or(0) + reserved_bytes;
    let is_blocked = blockers.iter().any(|blocker| (blocker.base()..blocker.end()).contains(&end));
    match step {
        Step::Reserve(count) => {
            let growth = vector.reserve(*count).unwrap();
            assert_eq!(growth == Growth::Enough, (*count * size_of::<Element>()) as u64 <= reserved_bytes);
            assert!(vector.reserved() >= *count && vector.physical_bytes() == physical_bytes);
        }
        Step::Block if address.is_some() => {
            let placed = Reservation::with_hint(&bed.machine, GRAIN, GRAIN, end).unwrap();
            blockers.push(placed.into_reservation());
        }
        Step::Unblock => blockers.clear(),
        _ => {}
    }
    apply(vector, model, seed, step);
    if is_blocked && vector.range.len_bytes() > reserved_bytes {
        assert_ne!(vector.address(), address, "the addresses behind it are taken");
    }
    assert_eq!(bed.used_bytes(), vector.physical_bytes());
    assert_eq!(bed.tap.watch().most_used_bytes().max(physical_bytes), vector.physical_bytes(), "peak");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_mapped_vector_is_a_vector(steps in prop::collection::vec(step(), 1..16)) {
        let bed = Bed::new();
        let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
        let (mut model, mut blockers) = (Vec::new(), Vec::new());
        for (seed, step) in steps.iter().enumerate() {
            bed.tap.watch().reset();
            mapped_step(&bed, &mut vector, &mut model, &mut blockers, (seed as u64, step));
        }
        drop((vector, blockers));
        bed.finish();
    }

    #[test]
    fn a_copied_vector_is_a_vector(steps in prop::collection::vec(step(), 1..16)) {
        let bed = Bed::new();
        let mut vector = CopyVec::<Element>::new(&bed.device());
        let mut model = Vec::new();
        for (seed, step) in steps.iter().enumerate() {
            let (before, capacity) = (bed.used_bytes(), vector.capacity());
            bed.tap.watch().reset();
            apply(&mut vector, &mut model, seed as u64, step);
            let now = bed.used_bytes();
            let most = bed.tap.watch().most_used_bytes().max(now);
            prop_assert_eq!(most, if vector.capacity() == capacity { now } else { before + now }, "old and new together");
        }
        drop(vector);
        bed.finish();
    }
}

#[test]
fn both_ways_to_grow_keep_the_elements() {
    let bed = Bed::new();
    let mut seen = Vec::new();
    // Other threads of this process may take addresses that were free a moment ago.
    for _ in 0..100 {
        let wide = Reservation::new(&bed.machine, 16 * GRAIN, GRAIN).unwrap();
        let base = wide.base();
        drop(wide);
        let mut vector = VmmVec::<Element>::new(&bed.device()).unwrap();
        let start = Reservation::with_hint(&bed.machine, GRAIN, GRAIN, base).unwrap().into_reservation();
        vector.range = crate::vmm::range::AddressRange::of(start);
        vector.extend_from_slice(&elements(3, PER_GRAIN - 1)).unwrap();
        let in_place = vector.grow(2 * PER_GRAIN).unwrap();
        let end = vector.address().unwrap() + vector.range.len_bytes();
        let blocker = Reservation::with_hint(&bed.machine, GRAIN, GRAIN, end).unwrap();
        assert_eq!(vector.grow(4 * PER_GRAIN).unwrap(), Growth::Moved);
        vector.extend_from_slice(&elements(4, 1000)).unwrap();
        let expected = [elements(3, PER_GRAIN - 1), elements(4, 1000)].concat();
        assert!(vector.to_vec().unwrap() == expected);
        drop((vector, blocker));
        bed.finish();
        seen.push(in_place);
        if in_place == Growth::InPlace {
            return;
        }
    }
    panic!("it never grew in place: {seen:?}");
}
