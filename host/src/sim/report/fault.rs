//! What a thread did wrong.

use super::memory::nearby;
use crate::sim::engine::FaultSite;
use crate::sim::interface::Fault;
use crate::sim::memory::address_map::AddressMap;

/// The report of a fault.
pub(crate) fn fault(map: &AddressMap, site: &FaultSite) -> String {
    let function = &site.launch.function;
    let (what, address) = describe(&site.fault);
    let memory = address.map_or_else(String::new, |address| nearby(map, address, function.device));
    format!(
        "{what}\n  by kernel {} on device {}, block {}, thread {}\n  at {}{memory}",
        function.kernel.name,
        function.device,
        site.block,
        site.thread,
        function.kernel.location(site.pc)
    )
}

/// What happened, and the global address where it did.
fn describe(fault: &Fault) -> (String, Option<u64>) {
    match fault {
        Fault::Unmapped { address } => {
            (format!("access to {address:#x}, where nothing is mapped"), Some(*address))
        }
        Fault::Multicast { address, is_multicast: true } => (
            format!(
                "load, store or atomic by {address:#x}, a multicast address: only multimem instructions may use one \
                 (PTX ISA 9.7.9.14)"
            ),
            Some(*address),
        ),
        Fault::Multicast { address, is_multicast: false } => {
            (format!("multimem access to {address:#x}, which is no multicast address"), Some(*address))
        }
        Fault::Unbound { address, device, by_other_process: false } => (
            format!("multimem access to {address:#x}, where device {device} has nothing bound"),
            Some(*address),
        ),
        Fault::Unbound { address, device, by_other_process: true } => (
            format!(
                "multimem access to {address:#x}, where another process has bound memory of device {device}; the \
                 simulated machine reaches it only once this process has imported it"
            ),
            Some(*address),
        ),
        Fault::Rights { address, write: true } => {
            (format!("store or atomic to {address:#x}, which the device may not write"), Some(*address))
        }
        Fault::Rights { address, write: false } => {
            (format!("load from {address:#x}, which the device may not read"), Some(*address))
        }
        Fault::Misaligned { address, required } => {
            (format!("access to {address:#x}, which is not a multiple of {required}"), None)
        }
        Fault::OutOfBounds { address, len_bytes } => (
            format!(
                "access to offset {address:#x} of shared, local or parameter memory of {len_bytes} bytes"
            ),
            None,
        ),
        Fault::Race(race) => (
            format!(
                "{} at {}\n  and nothing orders that behind an earlier {}\n  would be ordered by: {}",
                race.access, race.bytes, race.earlier, race.remedy
            ),
            None,
        ),
        Fault::Trap => ("the kernel trapped".into(), None),
        Fault::Other(what) => (what.clone(), None),
    }
}
