//! Which devices can make a communicator.

use crate::machine::Device;
use crate::{ErrorKind, Result};

/// Refuses devices that cannot make a communicator together. A device may stand there for `ranks_per_device` ranks.
pub(super) fn check(devices: &[Device], ranks_per_device: u32) -> Result<()> {
    let Some(first) = devices.first() else {
        return Err(ErrorKind::DeviceCount { asked: 0, found: 0 }.into());
    };
    for (n, device) in devices.iter().enumerate() {
        if !device.machine().is_same(first.machine()) {
            let (what, detail) = (format!("device {}", device.index()), "all must be of one machine".into());
            return Err(ErrorKind::Foreign { what, detail }.into());
        }
        check_sharing(device, &devices[..=n], ranks_per_device)?;
        for peer in devices[..n].iter().filter(|peer| peer.index() != device.index()) {
            check_pair(device, peer)?;
        }
    }
    Ok(())
}

fn check_sharing(device: &Device, ranks: &[Device], ranks_per_device: u32) -> Result<()> {
    let n = ranks.iter().filter(|rank| rank.index() == device.index()).count();
    if n <= ranks_per_device as usize {
        return Ok(());
    }
    let (found, allowed) = match ranks_per_device {
        1 => (format!("{} twice", device.index()), "each device once".into()),
        most => {
            (format!("{} more than {most} times", device.index()), "what SYMMEM_RANKS_PER_GPU allows".into())
        }
    };
    Err(ErrorKind::InvalidArgument { what: "list of devices", found, allowed }.into())
}

fn check_pair(device: &Device, peer: &Device) -> Result<()> {
    let backend = device.machine().backend();
    for (from, to) in [(device.index(), peer.index()), (peer.index(), device.index())] {
        if !backend.can_access_peer(from, to)? {
            return Err(ErrorKind::NoPeerAccess { device: from, peer: to }.into());
        }
    }
    Ok(())
}
