//! Addresses that grow: reservations that lie behind each other.

use crate::Result;
use crate::machine::Machine;
use crate::vmm::{Growth, Placed, Reservation};
use std::sync::Arc;

/// Reservations without a gap between them, ascending. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressRange {
    parts: Vec<Arc<Reservation>>,
}

/// A range of addresses in one reservation.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) reservation: Arc<Reservation>,
    pub(crate) offset_bytes: u64,
    pub(crate) len_bytes: u64,
}

impl AddressRange {
    /// One reservation.
    pub(crate) fn of(reservation: Reservation) -> Self {
        Self { parts: vec![Arc::new(reservation)] }
    }

    /// The first address, if there is one.
    pub(crate) fn base(&self) -> Option<u64> {
        self.parts.first().map(|part| part.base())
    }

    /// Length of all reservations together in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len_bytes()).sum()
    }

    /// A range of at least `len_bytes`, a multiple of `align_bytes`: this one, or this one and what lies behind it, or,
    /// where that is not free, one elsewhere. This one stays as it is.
    pub(crate) fn with_room(
        &self,
        machine: &Machine,
        len_bytes: u64,
        align_bytes: u64,
    ) -> Result<(Self, Growth)> {
        let Some(missing) = len_bytes.checked_sub(self.len_bytes()).filter(|&missing| missing > 0) else {
            return Ok((self.clone(), Growth::Enough));
        };
        let Some(last) = self.parts.last() else {
            return Ok((Self::of(Reservation::new(machine, len_bytes, align_bytes)?), Growth::InPlace));
        };
        // One that came to lie elsewhere is given back before the larger one is asked for.
        if let Placed::AtHint(behind) = Reservation::with_hint(machine, missing, align_bytes, last.end())? {
            let parts = self.parts.iter().cloned().chain([Arc::new(behind)]).collect();
            return Ok((Self { parts }, Growth::InPlace));
        }
        Ok((Self::of(Reservation::new(machine, len_bytes, align_bytes)?), Growth::Moved))
    }

    /// The bytes from `start` to `end`, split where one reservation ends and the next begins: a mapping lies in one.
    pub(crate) fn pieces(&self, start: u64, end: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut part_start = 0;
        for part in &self.parts {
            let part_end = part_start + part.len_bytes();
            let (from, to) = (start.max(part_start), end.min(part_end));
            if from < to {
                pieces.push(Piece {
                    reservation: part.clone(),
                    offset_bytes: from - part_start,
                    len_bytes: to - from,
                });
            }
            part_start = part_end;
        }
        pieces
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;

    const GRAIN: u64 = 2 << 20;

    /// A range at the start of addresses that were free a moment ago, so that it most likely has room behind it.
    fn range_with_room(machine: &Machine) -> AddressRange {
        let wide = Reservation::new(machine, 64 * GRAIN, GRAIN).unwrap();
        let base = wide.base();
        drop(wide);
        AddressRange::of(Reservation::with_hint(machine, GRAIN, GRAIN, base).unwrap().into_reservation())
    }

    #[test]
    fn grows_in_place_where_the_next_addresses_are_free() {
        let machine = Machine::sim().unwrap();
        // Another thread of this process may take the addresses in between, so one try may fail.
        let grown = (0..100).find_map(|_| {
            let range = range_with_room(&machine);
            let (longer, growth) = range.with_room(&machine, 3 * GRAIN, GRAIN).unwrap();
            assert_eq!(growth == Growth::InPlace, longer.base() == range.base());
            (growth == Growth::InPlace).then_some(longer)
        });
        let longer = grown.expect("free addresses are found in one of many tries");
        assert_eq!(longer.len_bytes(), 3 * GRAIN);
        let pieces = longer.pieces(GRAIN / 2, 2 * GRAIN);
        let places: Vec<_> = pieces.iter().map(|piece| (piece.offset_bytes, piece.len_bytes)).collect();
        assert_eq!(places, [(GRAIN / 2, GRAIN / 2), (0, GRAIN)]);
        assert_eq!(pieces[1].reservation.base(), pieces[0].reservation.end());
    }

    #[test]
    fn moves_where_they_are_not() {
        let machine = Machine::sim().unwrap();
        let wide = Reservation::new(&machine, 2 * GRAIN, GRAIN).unwrap();
        let base = wide.base();
        drop(wide);
        let range = AddressRange::of(Reservation::new(&machine, GRAIN, GRAIN).unwrap());
        let behind = Reservation::with_hint(&machine, GRAIN, GRAIN, range.base().unwrap() + GRAIN).unwrap();
        let (longer, growth) = range.with_room(&machine, 2 * GRAIN, GRAIN).unwrap();
        // Whatever `behind` met there keeps the place taken.
        assert_eq!((growth, longer.len_bytes()), (Growth::Moved, 2 * GRAIN));
        assert_ne!(longer.base(), range.base());
        drop((behind, base));
        let (same, growth) = longer.with_room(&machine, GRAIN, GRAIN).unwrap();
        assert_eq!((growth, same.base()), (Growth::Enough, longer.base()));
    }
}
