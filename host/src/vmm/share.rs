//! How one process hands a physical allocation to another.

use crate::backend::FabricHandle;
use crate::machine::Device;
use crate::{ErrorKind, Result};

/// What another process imports an allocation by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareBy {
    /// A POSIX file descriptor ([`crate::vmm::PhysicalAllocation::export`]), within one host.
    FileDescriptor,
}

impl ShareBy {
    /// The way between two processes by the names of their hosts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] between different hosts: a file descriptor does not leave its host, and memory that is
    /// allocated for a fabric handle is not built on yet, whatever [`fabric_support`] says.
    pub fn between(host: &str, other_host: &str) -> Result<Self> {
        if host == other_host {
            return Ok(Self::FileDescriptor);
        }
        let what = format!("memory shared between the hosts {host} and {other_host}");
        let hint = "all ranks of a communicator must be on one host".into();
        Err(ErrorKind::Unsupported { what, hint }.into())
    }
}

/// Whether allocations of a device can be named by a fabric handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricSupport {
    /// They can: one was made, exported and imported.
    Yes,
    /// They cannot.
    No {
        /// The step that failed, and its answer.
        reason: String,
    },
}

/// Makes a small allocation on `device` for a fabric handle, exports it, imports it and releases both. Any failure is a
/// no: the device attribute speaks of the hardware alone, and a process without an IMEX channel is refused all the same.
pub fn fabric_support(device: &Device) -> FabricSupport {
    match probe(device) {
        Ok(()) => FabricSupport::Yes,
        Err(error) => FabricSupport::No { reason: error.to_string() },
    }
}

fn probe(device: &Device) -> Result<()> {
    let backend = device.machine().backend();
    let len_bytes = device.granularity_bytes()?;
    let made = backend.mem_create_fabric(device.index(), len_bytes);
    let made = made.map_err(|error| error.context("making an allocation for the fabric"))?;
    let shared = (|| {
        let handle: FabricHandle = backend.mem_export_fabric(made)?;
        backend.mem_release(backend.mem_import_fabric(&handle)?)
    })();
    let released = backend.mem_release(made);
    shared.map_err(|error| error.context("exporting to the fabric and importing"))?;
    released.map_err(|error| error.context("releasing an allocation for the fabric"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named() {
        assert_eq!(ShareBy::between("a", "a").unwrap(), ShareBy::FileDescriptor);
        let error = ShareBy::between("left", "right").unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }));
        assert!(error.to_string().contains("left and right"), "{error}");
    }

    #[test]
    #[cfg(feature = "sim")]
    fn the_simulated_machine_has_no_fabric_and_says_why() {
        let device = crate::Machine::sim().unwrap().device(0).unwrap();
        let FabricSupport::No { reason } = fabric_support(&device) else { panic!("it has one") };
        assert!(reason.contains("making an allocation") && reason.contains("one host"), "{reason}");
        let error = device.machine().backend().mem_import_fabric(&FabricHandle([0; 64])).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unsupported { .. }), "{error}");
    }
}
