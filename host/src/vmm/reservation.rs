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

impl Reservation {
    /// Reserves `len_bytes` at a multiple of `align_bytes`; both must be multiples of the granularity.
    ///
    /// # Errors
    ///
    /// What the machine answers, e.g. that no such range is free.
    pub fn new(machine: &Machine, len_bytes: u64, align_bytes: u64) -> Result<Self> {
        let base = machine.backend().address_reserve(len_bytes, align_bytes, 0)?;
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
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().address_free(self.base, self.len_bytes));
    }
}
