//! Ranges of addresses.

use crate::Result;
use crate::machine::Machine;

/// Addresses without memory behind them (`cuMemAddressReserve`). Given back on drop.
#[derive(Debug)]
pub struct Reservation {
    machine: Machine,
    base: u64,
    len_bytes: u64,
}

/// Where a reservation came to lie that was asked for at an address.
#[derive(Debug)]
pub enum Placed {
    /// At that address.
    AtHint(Reservation),
    /// Elsewhere: the addresses asked for were not free, or the machine chose to ignore them.
    Elsewhere(Reservation),
}

impl Reservation {
    /// Reserves `len_bytes` at a multiple of `align_bytes`; both must be multiples of the granularity.
    ///
    /// # Errors
    ///
    /// What the machine answers, e.g. that no such range is free.
    pub fn new(machine: &Machine, len_bytes: u64, align_bytes: u64) -> Result<Self> {
        Self::reserve(machine, len_bytes, align_bytes, 0)
    }

    /// As [`Self::new`], at `hint_address` if it can be: a machine may place it elsewhere, which is no error.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn with_hint(
        machine: &Machine,
        len_bytes: u64,
        align_bytes: u64,
        hint_address: u64,
    ) -> Result<Placed> {
        let reservation = Self::reserve(machine, len_bytes, align_bytes, hint_address)?;
        let holds = reservation.base == hint_address;
        Ok(if holds { Placed::AtHint(reservation) } else { Placed::Elsewhere(reservation) })
    }

    fn reserve(machine: &Machine, len_bytes: u64, align_bytes: u64, hint: u64) -> Result<Self> {
        let base = machine.backend().address_reserve(len_bytes, align_bytes, hint)?;
        Ok(Self { machine: machine.clone(), base, len_bytes })
    }

    /// The machine it belongs to.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Its length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The address behind its last one.
    pub fn end(&self) -> u64 {
        self.base + self.len_bytes
    }
}

impl Placed {
    /// The reservation, wherever it lies.
    pub fn into_reservation(self) -> Reservation {
        match self {
            Self::AtHint(reservation) | Self::Elsewhere(reservation) => reservation,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().address_free(self.base, self.len_bytes));
    }
}
