//! Where the buffers come from: the communicator's own allocations, or memory that the bench maps and registers, which
//! other libraries can take as well.

use anyhow::{Context, Result};
use clap::ValueEnum;
use std::sync::Arc;
use symmem::backend::Access;
use symmem::vmm::{Mapping, PhysicalAllocation, Reservation};
use symmem::{Comm, Device, Registration, Window};

/// Who maps the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Memory {
    /// Allocated by the communicator.
    Alloc,
    /// Mapped by the bench, registered with the communicator.
    Register,
}

/// One rank's buffer.
pub(crate) struct Buffer {
    pub(crate) window: Window<u8>,
    /// The caller's own mapping of it. Dropped behind the window.
    mapping: Option<Mapping>,
}

impl Buffer {
    /// The address by which another library knows it.
    pub(crate) fn address(&self) -> u64 {
        self.mapping.as_ref().map_or_else(|| self.window.address(), Mapping::address)
    }
}

/// A buffer of `len_bytes` for each rank of this process.
///
/// # Errors
///
/// If there is no such memory on a device, or it cannot be registered.
pub(crate) fn buffers(comms: &[Comm], memory: Memory, len_bytes: u64) -> Result<Vec<Buffer>> {
    let context = || format!("allocating {len_bytes} bytes on each of {} ranks", comms.len());
    let len = usize::try_from(len_bytes).with_context(context)?;
    let mappings = match memory {
        Memory::Alloc => comms.iter().map(|_| None).collect(),
        Memory::Register => {
            let devices: Vec<_> = comms.iter().map(Comm::device).collect();
            let map = |device: &&Device| mapped(device, &devices, len_bytes).map(Some);
            devices.iter().map(map).collect::<symmem::Result<Vec<_>>>().with_context(context)?
        }
    };
    let ask = |(comm, mapping): (&Comm, &Option<Mapping>)| match mapping {
        None => comm.alloc::<u8>(len),
        Some(mapping) => comm.register::<u8>(mapping.address(), len),
    };
    let asked: symmem::Result<Vec<Registration<u8>>> = comms.iter().zip(&mappings).map(ask).collect();
    // Every rank is waited for: registrations end on all ranks, with memory or with an error.
    let windows: Vec<_> =
        asked.with_context(context)?.into_iter().map(|registration| registration.wait()).collect();
    let windows = windows.into_iter().collect::<symmem::Result<Vec<_>>>().with_context(context)?;
    Ok(windows.into_iter().zip(mappings).map(|(window, mapping)| Buffer { window, mapping }).collect())
}

/// Memory of `device` at an address of its own, for the devices of all ranks: what NCCL's own allocator gives.
fn mapped(device: &Device, users: &[&Device], len_bytes: u64) -> symmem::Result<Mapping> {
    let physical = Arc::new(PhysicalAllocation::new(device, len_bytes)?);
    let granularity_bytes = device.granularity_bytes()?;
    let reservation = Reservation::new(device.machine(), physical.len_bytes(), granularity_bytes)?;
    let mapping = Mapping::new(&Arc::new(reservation), 0, &physical)?;
    users.iter().try_for_each(|user| mapping.set_access(user.index(), Access::ReadWrite))?;
    Ok(mapping)
}
