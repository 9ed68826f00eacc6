//! The physical memory behind a window-to-be, and what a rank checks of it by itself.

use crate::backend::PointerFacts;
use crate::machine::Device;
use crate::vmm::PhysicalAllocation;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// A window starts at a multiple of this.
const WINDOW_ALIGN_BYTES: u64 = 16;
/// `CUDA_ERROR_INVALID_VALUE`: how a driver refuses an address or an allocation of another kind.
const INVALID_VALUE: u32 = 1;
/// What memory of another kind has to become.
const DO_INSTEAD: &str = "allocate with Comm::alloc, or with cuMemCreate and cuMemMap (VMM), and register the address that it is mapped at";

/// One rank's memory for one window: physical allocations, each behind the other.
#[derive(Debug)]
pub(crate) struct Memory {
    /// At least one; a window lies in all of them.
    pub(crate) segments: Vec<Arc<PhysicalAllocation>>,
    /// Where the window starts in the first one.
    pub(crate) start_bytes: u64,
    pub(crate) len_bytes: u64,
    /// Where the caller has the window mapped, if it is the caller's.
    pub(crate) user_address: Option<u64>,
}

impl Memory {
    /// New memory, rounded up to a multiple.
    pub(crate) fn allocate(device: &Device, len_bytes: u64, multiple_bytes: u64) -> Result<Self> {
        let segments = vec![Arc::new(PhysicalAllocation::rounded(device, len_bytes, multiple_bytes)?)];
        Ok(Self { segments, start_bytes: 0, len_bytes, user_address: None })
    }

    /// Memory of `device` that the caller has mapped at `address`: every physical allocation in the range.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misaligned`]; [`ErrorKind::Foreign`] for another device's; [`ErrorKind::Unsupported`] for memory that
    /// is not mapped by VMM, that ends too early, or that cannot be exported.
    pub(crate) fn of_caller(device: &Device, address: u64, len_bytes: u64) -> Result<Self> {
        if !address.is_multiple_of(WINDOW_ALIGN_BYTES) {
            let (what, required) = ("address of a window", WINDOW_ALIGN_BYTES);
            return Err(ErrorKind::Misaligned { what, found: address, required }.into());
        }
        let end = address.checked_add(len_bytes).ok_or_else(|| {
            let what = format!("a window of {len_bytes} bytes at {address:#x}");
            ErrorKind::SizeOverflow { what }
        })?;
        let first = facts(device, address)?;
        let mut memory = Self {
            segments: Vec::new(),
            start_bytes: address - first.mapping_base,
            len_bytes,
            user_address: Some(address),
        };
        let mut reached = first.mapping_base;
        while reached < end {
            let found = memory.segment_at(device, reached, address, len_bytes)?;
            reached = found.mapping_base + found.mapping_len_bytes;
        }
        Ok(memory)
    }

    /// Takes the allocation that is mapped at `reached`, where the one before ends.
    fn segment_at(
        &mut self,
        device: &Device,
        reached: u64,
        address: u64,
        len_bytes: u64,
    ) -> Result<PointerFacts> {
        let found = match facts(device, reached) {
            Ok(found) => found,
            Err(error) if self.segments.is_empty() => return Err(error),
            Err(error) => return Err(ends_early(reached - address, len_bytes, &error)),
        };
        let physical = PhysicalAllocation::retain(device.machine(), reached).map_err(|error| {
            refused(error, || format!("memory at {reached:#x} that cuMemCreate did not make"), DO_INSTEAD)
        })?;
        if found.device != device.index() {
            let what = format!("memory at {reached:#x}");
            let detail = format!(
                "it is on device {}, the rank's is {}; each rank registers memory of its own device",
                found.device,
                device.index()
            );
            return Err(ErrorKind::Foreign { what, detail }.into());
        }
        if !physical.is_exportable()? {
            let what = format!("memory at {reached:#x} that cannot be exported");
            let hint = "create it with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR in requestedHandleTypes, or use Comm::alloc";
            return Err(ErrorKind::Unsupported { what, hint: hint.into() }.into());
        }
        self.segments.push(Arc::new(physical));
        Ok(found)
    }
}

fn facts(device: &Device, address: u64) -> Result<PointerFacts> {
    let found = device.machine().backend().pointer_facts(address);
    found.map_err(|error| {
        refused(error, || format!("memory at {address:#x} that is not mapped to a device"), DO_INSTEAD)
    })
}

fn ends_early(there_bytes: u64, len_bytes: u64, error: &Error) -> Error {
    let hint = format!(
        "the mapping ends {there_bytes} bytes behind its start, and nothing that could be registered follows ({error}); \
         register no more than is mapped"
    );
    let what = format!("a window of {len_bytes} bytes that crosses the end of its mapping");
    ErrorKind::Unsupported { what, hint }.into()
}

/// Names what was refused and how to do it right; other failures of the driver stay what they are.
fn refused(error: Error, what: impl FnOnce() -> String, hint: &str) -> Error {
    let is_refusal = matches!(
        error.kind(),
        ErrorKind::Driver { code: INVALID_VALUE, .. } | ErrorKind::InvalidArgument { .. }
    );
    if !is_refusal {
        return error;
    }
    ErrorKind::Unsupported { what: what(), hint: format!("{hint} ({error})") }.into()
}
