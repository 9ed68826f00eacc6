//! Words for addresses and mappings.

use crate::backend::Access;
use crate::sim::memory::address_map::{AddressMap, HOST, Mapping};
use crate::sim::memory::multicast::MULTICAST;

/// Who owns a mapping.
pub(super) fn owner(mapping: &Mapping) -> String {
    match mapping.owner {
        HOST => "the host".into(),
        MULTICAST => "a multicast object".into(),
        device => format!("device {device}"),
    }
}

fn rights(access: Access) -> &'static str {
    match access {
        Access::None => "no access",
        Access::Read => "read access",
        Access::ReadWrite => "read and write access",
    }
}

/// A mapping as `device` sees it.
pub(super) fn mapping(mapping: &Mapping, device: u32) -> String {
    format!(
        "{:#x} bytes at {:#x}, memory of {}, {} for device {device}",
        mapping.len_bytes,
        mapping.start,
        owner(mapping),
        rights(mapping.rights[device as usize])
    )
}

/// What is mapped at an address, or nearest to it, a line each.
pub(super) fn nearby(map: &AddressMap, address: u64, device: u32) -> String {
    if let Some(found) = map.find(address) {
        return format!(
            "\n  mapped there: {}, at offset {:#x}",
            mapping(found, device),
            address - found.start
        );
    }
    let (below, above) = map.neighbours(address);
    let below = below.map_or("nothing".into(), |below| {
        format!("{:#x} bytes past the end of {}", address - below.end(), mapping(below, device))
    });
    let above = above.map_or("nothing".into(), |above| {
        format!("{:#x} bytes before the start of {}", above.start - address, mapping(above, device))
    });
    format!("\n  mapped below: {below}\n  mapped above: {above}")
}

/// An address by the mapping that it lies in.
pub(super) fn place(map: &AddressMap, address: u64) -> String {
    match map.find(address) {
        Some(found) => format!(
            "{address:#x} (offset {:#x} in the mapping at {:#x}, memory of {})",
            address - found.start,
            found.start,
            owner(found)
        ),
        None => format!("{address:#x} (nothing is mapped there)"),
    }
}
