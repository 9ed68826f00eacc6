//! Handles that carry their device: the driver's pointer in the low 48 bits, the device's index above.
//!
//! The driver's handles are addresses in user space, which have 47 bits on x86-64 and 48 on AArch64 (more only where a
//! process asks for it by address hint). So a call finds its device without a table and without a lock, and the default
//! streams, whose handles are small numbers that are the same on every device, are no special case.

use crate::{ErrorKind, Result};
use std::ffi::c_void;

const POINTER_BITS: u32 = 48;

/// Packs a handle of the driver with its device.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for a pointer or device that does not fit.
pub(super) fn pack<T>(device: u32, pointer: *mut T) -> Result<u64> {
    let word = pointer as u64;
    if word >> POINTER_BITS != 0 || device >= 1 << (u64::BITS - POINTER_BITS) {
        return Err(ErrorKind::Unsupported {
            what: format!("a driver handle {word:#x} on device {device}"),
            hint: "handles of up to 48 bits on devices up to 65535 are supported".into(),
        }
        .into());
    }
    Ok(u64::from(device) << POINTER_BITS | word)
}

/// Device of a packed handle.
pub(super) fn device(handle: u64) -> u32 {
    (handle >> POINTER_BITS) as u32
}

/// Pointer of a packed handle.
pub(super) fn pointer<T>(handle: u64) -> *mut T {
    std::ptr::without_provenance_mut::<c_void>((handle & ((1 << POINTER_BITS) - 1)) as usize).cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unpacks_what_was_packed(ordinal in 0..1_u32 << 16, word in 0..1_usize << POINTER_BITS) {
            let handle = pack(ordinal, std::ptr::without_provenance_mut::<u8>(word)).unwrap();
            prop_assert_eq!((device(handle), pointer::<u8>(handle) as usize), (ordinal, word));
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert!(pack(1 << 16, std::ptr::null_mut::<u8>()).is_err());
        assert!(pack(0, std::ptr::without_provenance_mut::<u8>(1 << POINTER_BITS)).is_err());
    }
}
