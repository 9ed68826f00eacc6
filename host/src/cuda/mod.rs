//! Real GPUs, through the CUDA driver found at run time.
//!
//! | file | what |
//! |---|---|
//! | [`driver`] | the driver's functions, bound one by one when first called |
//! | `backend` | the seam's calls, each answered by one of the files below |
//! | `device` | devices and their primary contexts |
//! | `vmm` | physical memory, reservations, mappings, access rights |
//! | `multicast` | multicast objects |
//! | `fabric` | physical memory that other hosts can import |
//! | `plain` | memory of one device with an address |
//! | `host_memory` | pinned host memory |
//! | `copy` | copies and fills that wait for no other stream |
//! | `module`, `launch` | kernels |
//! | `stream`, `graph` | streams and events; capture and graphs |
//! | `handle` | handles that carry their device |
//! | `check` | the driver's answers as errors |
//!
//! `cust` serves where it fits: devices and primary contexts. The rest goes to the driver directly, because it needs
//! calls or answers that `cust` lacks.

mod backend;
mod check;
mod copy;
mod device;
pub mod driver;
mod fabric;
mod graph;
mod handle;
mod host_memory;
mod launch;
mod module;
mod multicast;
mod plain;
mod properties;
mod stream;
mod vmm;

use crate::Result;
use crate::backend::StreamHandle;
use device::Devices;
use std::ffi::c_void;
use std::sync::Arc;

/// Lengths travel between `u64` and `usize` as they are.
const _: () = assert!(usize::BITS == 64);

/// The GPUs that the driver shows this process.
///
/// Handles that it gives are valid for it alone: each carries its device beside the driver's own handle.
#[derive(Debug)]
pub struct CudaMachine {
    devices: Devices,
    /// Highest CUDA version that the driver supports, (major, minor).
    driver: (u32, u32),
}

impl CudaMachine {
    /// Starts the driver and finds the devices. No context is made before a device is used.
    ///
    /// # Safety
    ///
    /// Calls of the seam are given what [`crate::Machine::raw_backend`] says.
    ///
    /// # Errors
    /// [`NoDriver`](crate::ErrorKind::NoDriver), with the reason, without a driver, with one that does not start, or
    /// with one that shows no device.
    pub unsafe fn open() -> Result<Arc<Self>> {
        driver::keep_linked();
        let devices = Devices::open()?;
        Ok(Arc::new(Self { devices, driver: driver_version()? }))
    }

    /// The `CUstream` behind a handle of this machine.
    pub fn raw_stream(&self, stream: StreamHandle) -> *mut c_void {
        handle::pointer(stream.0)
    }
}

fn driver_version() -> Result<(u32, u32)> {
    let mut version = 0;
    // SAFETY: the out-pointer lives through the call.
    unsafe { check::call!(cuDriverGetVersion(&mut version), "the driver") }?;
    let version = version as u32;
    Ok((version / 1000, version % 1000 / 10))
}
