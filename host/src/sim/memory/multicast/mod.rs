//! Multicast objects: one address for the memory of several devices (CUDA driver API, section 6.15).
//!
//! An object is a [`Table`] that processes share by its descriptor. What is bound is found by the identity of its
//! memory; memory that another process has bound must be imported here before a kernel of this process reaches it,
//! which is a rule of the simulated machine alone.

mod calls;
mod table;

use super::reservation::Reservation;
use std::sync::Arc;
pub(crate) use table::{Bound, Table, identity_of};

/// Owner of a multicast object: no device.
pub(crate) const MULTICAST: u32 = u32::MAX - 1;

/// A multicast object.
#[derive(Debug)]
pub(super) struct Multicast {
    pub(super) table: Table,
    /// What this process has bound, with the number of the allocation.
    pub(super) own: Vec<(Bound, u32)>,
    /// Another process made it.
    pub(super) is_imported: bool,
    /// What the members were last resolved from.
    seen: Option<(u64, u64)>,
}

impl Multicast {
    pub(super) fn new(table: Table, is_imported: bool) -> Self {
        Self { table, own: Vec::new(), is_imported, seen: None }
    }

    /// Devices that are still to be added.
    pub(super) fn n_missing(&self) -> u32 {
        self.table.n_devices - self.table.team().len() as u32
    }
}

/// What lies behind the addresses of a multicast object.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// In the order of devices.
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    device: u32,
    /// In the order of their offsets; disjoint.
    parts: Vec<Part>,
}

/// Bound memory of one device.
#[derive(Debug)]
struct Part {
    offset: u64,
    len_bytes: u64,
    physical_offset: u64,
    memory: Option<Seen>,
}

/// Memory that this process can touch.
#[derive(Clone, Debug)]
struct Seen {
    physical: u32,
    physical_len_bytes: u64,
    view: Arc<Reservation>,
}

/// The bytes of one device behind a multicast address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The device.
    pub(crate) device: u32,
    /// Where the bytes are in this process.
    pub(crate) address: u64,
    /// Number of the physical allocation.
    pub(crate) physical: u32,
    /// Bytes of that allocation.
    pub(crate) physical_len_bytes: u64,
    /// Where in it.
    pub(crate) offset: u64,
}

/// Why a multicast address reaches no bytes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// The device has nothing bound there.
    Unbound {
        /// The device.
        device: u32,
    },
    /// Another process has bound memory there that this one has not imported.
    NotImported {
        /// The device.
        device: u32,
    },
}

impl Members {
    /// Calls `reach` for the bytes of every device at an offset of the object, in the order of devices.
    pub(crate) fn targets(&self, offset: u64, mut reach: impl FnMut(Target)) -> Result<(), Unreached> {
        for member in &self.members {
            reach(member.target(offset)?);
        }
        Ok(())
    }
}

impl Member {
    fn target(&self, offset: u64) -> Result<Target, Unreached> {
        let device = self.device;
        let index = self.parts.partition_point(|part| part.offset <= offset);
        let part = index.checked_sub(1).map(|index| &self.parts[index]);
        let part = part.filter(|part| offset - part.offset < part.len_bytes);
        let part = part.ok_or(Unreached::Unbound { device })?;
        let seen = part.memory.as_ref().ok_or(Unreached::NotImported { device })?;
        let offset = offset - part.offset + part.physical_offset;
        Ok(Target {
            device,
            address: seen.view.start() + offset,
            physical: seen.physical,
            physical_len_bytes: seen.physical_len_bytes,
            offset,
        })
    }
}
