//! Which devices can make a communicator.

use crate::machine::Device;
use crate::{ErrorKind, Result};

/// Refuses devices that cannot make a communicator together.
pub(super) fn check(devices: &[Device]) -> Result<()> {
    let Some(first) = devices.first() else {
        return Err(ErrorKind::DeviceCount { asked: 0, found: 0 }.into());
    };
    for (n, device) in devices.iter().enumerate() {
        if !device.machine().is_same(first.machine()) {
            let (what, detail) = (format!("device {}", device.index()), "all must be of one machine".into());
            return Err(ErrorKind::Foreign { what, detail }.into());
        }
        for peer in &devices[..n] {
            check_pair(device, peer)?;
        }
    }
    Ok(())
}

fn check_pair(device: &Device, peer: &Device) -> Result<()> {
    if device.index() == peer.index() {
        let (found, allowed) = (format!("{} twice", device.index()), "each device once".into());
        return Err(ErrorKind::InvalidArgument { what: "list of devices", found, allowed }.into());
    }
    let backend = device.machine().backend();
    for (from, to) in [(device.index(), peer.index()), (peer.index(), device.index())] {
        if !backend.can_access_peer(from, to)? {
            return Err(ErrorKind::NoPeerAccess { device: from, peer: to }.into());
        }
    }
    Ok(())
}
