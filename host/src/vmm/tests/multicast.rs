//! Owners of multicast objects: whatever goes first, memory is unbound and addresses are unmapped before what they need.

use super::*;
use crate::vmm::{Binding, MulticastMapping, MulticastObject, PhysicalAllocation, Reservation};
use std::any::Any;

/// All orders of `n` things.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let with_last = |order: Vec<usize>| {
        (0..n).map(move |place| {
            let mut longer = order.clone();
            longer.insert(place, n - 1);
            longer
        })
    };
    orders(n - 1).into_iter().flat_map(with_last).collect()
}

#[test]
fn any_order_of_release_leaves_nothing() {
    for order in orders(5) {
        let bed = Bed::new();
        let machine = &bed.machine;
        let device = bed.device();
        let object = Arc::new(MulticastObject::new(machine, 1, 2 * GRAIN).unwrap());
        object.add_device(&device).unwrap();
        let physical = Arc::new(PhysicalAllocation::new(&device, GRAIN).unwrap());
        let binding = Binding::new(&object, GRAIN, &physical, &device, GRAIN).unwrap();
        let reservation = Arc::new(Reservation::new(machine, 2 * GRAIN, GRAIN).unwrap());
        let mapping = MulticastMapping::new(&reservation, &object).unwrap();
        mapping.set_access(0, Access::ReadWrite).unwrap();
        assert_eq!((mapping.address(), mapping.object().handle()), (reservation.base(), object.handle()));
        let mut owners: [Option<Box<dyn Any>>; 5] = [
            Some(Box::new(object)),
            Some(Box::new(physical)),
            Some(Box::new(binding)),
            Some(Box::new(reservation)),
            Some(Box::new(mapping)),
        ];
        order.iter().for_each(|&owner| owners[owner] = None);
        machine.take_deferred().unwrap();
        assert_eq!(bed.sim.live(), LiveCounts::default(), "{order:?}");
    }
}

#[test]
fn what_is_refused_leaves_nothing() {
    let bed = Bed::new();
    let device = bed.device();
    let object = Arc::new(MulticastObject::new(&bed.machine, 1, GRAIN).unwrap());
    object.add_device(&device).unwrap();
    let physical = Arc::new(PhysicalAllocation::new(&device, GRAIN).unwrap());
    assert!(Binding::new(&object, GRAIN, &physical, &device, GRAIN).is_err(), "past the end");
    let reservation = Arc::new(Reservation::new(&bed.machine, GRAIN, GRAIN).unwrap());
    let first = MulticastMapping::new(&reservation, &object).unwrap();
    assert!(MulticastMapping::new(&reservation, &object).is_err(), "taken");
    assert!(first.set_access(1, Access::Read).is_err(), "not in the team");
    drop((object, physical, reservation, first));
    bed.machine.take_deferred().unwrap();
    assert_eq!(bed.sim.live(), LiveCounts::default());
}
