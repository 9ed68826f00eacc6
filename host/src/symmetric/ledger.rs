//! What this process has mapped into a symmetric space, for pictures of it.

use crate::backend::PhysicalHandle;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// One mapping in the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Whose part of the space it is in.
    pub(crate) rank: u32,
    /// Where in that part.
    pub(crate) flat_bytes: u64,
    pub(crate) len_bytes: u64,
    pub(crate) physical: PhysicalHandle,
    /// Devices that may load and store it.
    pub(crate) devices: Vec<u32>,
    pub(crate) multicast: Bound,
}

/// Whether memory is behind multicast addresses too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Bound {
    /// It is not, and need not be.
    #[default]
    No,
    /// It is.
    Yes,
    /// It is not, since a rank could not do its part.
    Refused { reason: String },
}

/// All mappings of the space, in the order of offset and rank.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    mapped: Mutex<BTreeMap<(u64, u32), Mapped>>,
}

impl Ledger {
    pub(crate) fn enter(&self, mapped: Mapped) {
        self.lock().insert((mapped.flat_bytes, mapped.rank), mapped);
    }

    /// Says whether a mapping is behind multicast addresses.
    pub(crate) fn set_multicast(&self, rank: u32, flat_bytes: u64, multicast: Bound) {
        if let Some(mapped) = self.lock().get_mut(&(flat_bytes, rank)) {
            mapped.multicast = multicast;
        }
    }

    pub(crate) fn strike(&self, rank: u32, flat_bytes: u64) {
        self.lock().remove(&(flat_bytes, rank));
    }

    pub(crate) fn all(&self) -> Vec<Mapped> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(u64, u32), Mapped>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
