//! The seam to a machine, for what no owner offers: kernels of a case's own, and bytes at an address.

use symmem::Machine;
use symmem::backend::Backend;

/// The seam to the machine of a case.
pub(crate) fn seam(machine: &Machine) -> &dyn Backend {
    // SAFETY: cases pass it live handles of that machine, and addresses of memory that they hold.
    unsafe { machine.raw_backend() }
}
