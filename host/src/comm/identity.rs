//! What ranks of several processes must know of each other before they make a space together.

use crate::backend::MachineKind;
use crate::comm::bootstrap::{Bootstrap, agree, equal, exchange};
use crate::machine::Device;
use crate::{ErrorKind, Result};
use bytemuck::{Pod, Zeroable};
use symmem_device::abi::DevBaseLayout;

/// Changes when processes of different versions can no longer work together.
const PROTOCOL: u32 = 1;

/// Where a rank is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
struct Identity {
    uuid: [u8; 16],
    protocol: u32,
    is_simulated: u32,
    dev_base_bytes: u64,
}

/// Refuses ranks that share a device, that run on different kinds of machine, or that cannot reach each other.
pub(super) fn check_peers(bootstrap: &dyn Bootstrap, n_ranks: u32, device: &Device) -> Result<()> {
    let uuid = agree(bootstrap, "init: identity of the device", device.facts().map(|facts| facts.uuid))?;
    let mine = Identity {
        uuid,
        protocol: PROTOCOL,
        is_simulated: u32::from(device.machine().kind() == MachineKind::Sim),
        dev_base_bytes: DevBaseLayout::new(n_ranks).len_bytes(),
    };
    let all = exchange(bootstrap, "init: identities", &mine)?;
    equal("the version of the protocol", &all.iter().map(|its| its.protocol).collect::<Vec<_>>())?;
    equal("whether the machine is simulated", &all.iter().map(|its| its.is_simulated).collect::<Vec<_>>())?;
    equal("the bytes of DevBase", &all.iter().map(|its| its.dev_base_bytes).collect::<Vec<_>>())?;
    let uuids: Vec<_> = all.iter().map(|its| its.uuid).collect();
    check_distinct(&uuids)?;
    agree(bootstrap, "init: peers can be reached", check_reach(device, &uuids))
}

fn check_distinct(uuids: &[[u8; 16]]) -> Result<()> {
    for (rank, uuid) in uuids.iter().enumerate() {
        if let Some(first) = uuids[..rank].iter().position(|earlier| earlier == uuid) {
            let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
            let found = format!("ranks {first} and {rank} both on the device with UUID {hex}");
            let allowed = "each device once".into();
            return Err(ErrorKind::InvalidArgument { what: "list of devices", found, allowed }.into());
        }
    }
    Ok(())
}

/// Peers that this process sees as devices of its own (`CUDA_VISIBLE_DEVICES` may hide some) must be in reach; of the
/// others the mapping will tell.
fn check_reach(device: &Device, uuids: &[[u8; 16]]) -> Result<()> {
    let backend = device.machine().backend();
    for peer in (0..backend.device_count()).filter(|&peer| peer != device.index()) {
        let is_peer = uuids.contains(&backend.device_facts(peer)?.uuid);
        if is_peer && !backend.can_access_peer(device.index(), peer)? {
            return Err(ErrorKind::NoPeerAccess { device: device.index(), peer }.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_taken_twice_names_both_ranks() {
        let error = check_distinct(&[[1; 16], [2; 16], [1; 16]]).unwrap_err().to_string();
        assert!(error.contains("ranks 0 and 2") && error.contains("0101"), "{error}");
        assert!(check_distinct(&[[1; 16], [2; 16]]).is_ok());
    }
}
