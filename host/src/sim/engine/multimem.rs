//! Accesses by multicast addresses (PTX ISA 9.7.9.14): each reaches the memory of every device of a team, in an order
//! that the seed decides, since the switch promises none.

use super::environment::{Surroundings, check_alignment, len_bytes};
use super::probe::{Place, Probe};
use super::reduction::fold;
use crate::backend::Access;
use crate::sim::interface::{Fault, Lanes, MemoryAccess, MultimemOp, Reduction};
use crate::sim::memory::access;
use crate::sim::memory::multicast::{Target, Unreached};

impl<P: Probe> Surroundings<'_, P> {
    /// See [`crate::sim::interface::Environment::multimem`].
    pub(super) fn reach(
        &mut self,
        pc: u32,
        access: MemoryAccess,
        op: MultimemOp,
        address: u64,
        values: &Lanes,
    ) -> Result<Lanes, Fault> {
        check_alignment(access, address)?;
        let mut targets = self.targets(address, !matches!(op, MultimemOp::LoadReduce(_)))?;
        self.shuffle(&mut targets);
        match op {
            MultimemOp::LoadReduce(reduction) => {
                let joined = self.load_reduce(access, reduction, &targets);
                self.polls.load(pc, address, joined.iter().fold(0, |all, word| all.rotate_left(17) ^ word));
                return Ok(joined);
            }
            MultimemOp::Store => targets.iter().for_each(|target| self.store_to(access, target, values)),
            MultimemOp::Reduce(reduction) => {
                targets.iter().for_each(|target| self.reduce_at(access, reduction, target, values));
            }
        }
        self.polls.progress();
        Ok([0; 4])
    }

    /// The bytes behind a multicast address.
    fn targets(&self, address: u64, write: bool) -> Result<Vec<Target>, Fault> {
        let mapping = self.map.find(address).ok_or(Fault::Unmapped { address })?;
        let members = mapping.members.as_ref().ok_or(Fault::Multicast { address, is_multicast: false })?;
        let rights = mapping.rights[self.device as usize];
        if rights == Access::None || (write && rights == Access::Read) {
            return Err(Fault::Rights { address, write });
        }
        let mut targets = Vec::new();
        let reached = members.targets(address - mapping.start, |target| targets.push(target));
        reached.map_err(|unreached| match unreached {
            Unreached::Unbound { device } => Fault::Unbound { address, device, by_other_process: false },
            Unreached::NotImported { device } => Fault::Unbound { address, device, by_other_process: true },
        })?;
        Ok(targets)
    }

    /// Fisher and Yates's shuffle.
    fn shuffle(&mut self, targets: &mut [Target]) {
        for last in (1..targets.len()).rev() {
            targets.swap(last, self.scheduler.choose(last + 1));
        }
    }

    fn place(&mut self, access: MemoryAccess, target: &Target) -> Place {
        let remote = target.device != self.device;
        if remote {
            *self.link_bytes += u64::from(len_bytes(access));
        }
        Place {
            physical: target.physical,
            physical_len_bytes: target.physical_len_bytes,
            offset: target.offset,
            remote,
        }
    }

    fn load_reduce(&mut self, access: MemoryAccess, reduction: Reduction, targets: &[Target]) -> Lanes {
        let mut loaded = Vec::with_capacity(targets.len());
        for target in targets {
            // SAFETY: a target is aligned as its multicast address is, and mapped as long as the machine's lock is held.
            loaded.push(unsafe { load(access, target.address) });
            let place = self.place(access, target);
            self.probe.load(self.probed, access, place);
        }
        let mut joined = [0; 4];
        for (lane, word) in joined.iter_mut().enumerate().take(access.lanes.into()) {
            *word = fold(reduction, access.width_bytes, loaded.iter().map(|lanes: &Lanes| lanes[lane]));
        }
        joined
    }

    fn store_to(&mut self, access: MemoryAccess, target: &Target, values: &Lanes) {
        for lane in 0..access.lanes {
            // SAFETY: as in `load_reduce`.
            unsafe {
                access::store(
                    element(access, target.address, lane),
                    access.width_bytes,
                    values[lane as usize],
                )
            }
        }
        let place = self.place(access, target);
        self.probe.store(self.probed, access, place);
    }

    fn reduce_at(&mut self, access: MemoryAccess, reduction: Reduction, target: &Target, values: &Lanes) {
        for lane in 0..access.lanes {
            let join = |old| fold(reduction, access.width_bytes, [old, values[lane as usize]].into_iter());
            // SAFETY: as in `load_reduce`.
            unsafe { access::modify(element(access, target.address, lane), access.width_bytes, join) };
        }
        let place = self.place(access, target);
        self.probe.atomic(self.probed, access, place);
    }
}

fn element(access: MemoryAccess, address: u64, lane: u8) -> u64 {
    address + u64::from(lane) * u64::from(access.width_bytes)
}

/// # Safety
///
/// The bytes of the access are mapped for reading, and aligned to its size.
unsafe fn load(access: MemoryAccess, address: u64) -> Lanes {
    let mut lanes = [0; 4];
    for (lane, word) in (0..access.lanes).zip(&mut lanes) {
        // SAFETY: as promised by the caller.
        *word = unsafe { access::load(element(access, address, lane), access.width_bytes) };
    }
    lanes
}
