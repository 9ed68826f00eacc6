//! Accesses by multicast addresses (PTX ISA 9.7.9.14): each reaches the memory of every device of a team, in an order
//! that the seed decides, since the switch promises none.

use super::environment::{Surroundings, access_bytes, check_alignment};
use super::probe::{Place, Probe};
use super::reduction::fold;
use crate::backend::Access;
use crate::sim::interface::{Fault, Lanes, MemoryAccess, MultimemOp, Reduction};
use crate::sim::memory::access;
use crate::sim::memory::multicast::{Target, Unreached};

/// An instruction that reaches several devices.
#[derive(Clone, Copy)]
struct Multimem {
    pc: u32,
    access: MemoryAccess,
    /// Number of the mapping of the multicast object.
    mapping: u32,
}

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
        let (mapping, mut targets) = self.targets(address, !matches!(op, MultimemOp::LoadReduce(_)))?;
        let at = Multimem { pc, access, mapping };
        self.shuffle(&mut targets);
        match op {
            MultimemOp::LoadReduce(reduction) => {
                let joined = self.load_reduce(at, reduction, &targets)?;
                self.polls.load(pc, address, joined.iter().fold(0, |all, word| all.rotate_left(17) ^ word));
                return Ok(joined);
            }
            MultimemOp::Store => {
                targets.iter().try_for_each(|target| self.store_to(at, target, values))?;
            }
            MultimemOp::Reduce(reduction) => {
                let mut reduce = |target| self.reduce_at(at, reduction, target, values);
                targets.iter().try_for_each(&mut reduce)?;
            }
        }
        self.polls.progress();
        Ok([0; 4])
    }

    /// The bytes behind a multicast address, and the number of its mapping.
    fn targets(&self, address: u64, write: bool) -> Result<(u32, Vec<Target>), Fault> {
        let mapping = self.map.find(address).ok_or(Fault::Unmapped { address })?;
        let members = mapping.members.as_ref().ok_or(Fault::Multicast { address, is_multicast: false })?;
        let rights = mapping.rights[self.who.device as usize];
        if rights == Access::None || (write && rights == Access::Read) {
            return Err(Fault::Rights { address, write });
        }
        let mut targets = Vec::new();
        let reached = members.targets(address - mapping.start, |target| targets.push(target));
        reached.map_err(|unreached| match unreached {
            Unreached::Unbound { device } => Fault::Unbound { address, device, by_other_process: false },
            Unreached::NotImported { device } => Fault::Unbound { address, device, by_other_process: true },
        })?;
        Ok((mapping.number, targets))
    }

    /// Fisher and Yates's shuffle.
    fn shuffle(&mut self, targets: &mut [Target]) {
        for last in (1..targets.len()).rev() {
            targets.swap(last, self.scheduler.choose(last + 1));
        }
    }

    /// Where an access to a member goes, by the mapping of the multicast object.
    fn member_place(&mut self, at: Multimem, target: &Target) -> Place {
        let remote = target.device != self.who.device;
        if remote {
            *self.link_bytes += u64::from(access_bytes(at.access));
        }
        Place {
            address: target.address,
            physical: target.physical,
            physical_len_bytes: target.physical_len_bytes,
            offset: target.offset,
            mapping: at.mapping,
            owner: target.device,
            remote,
        }
    }

    fn load_reduce(
        &mut self,
        at: Multimem,
        reduction: Reduction,
        targets: &[Target],
    ) -> Result<Lanes, Fault> {
        let access = at.access;
        let mut loaded = Vec::with_capacity(targets.len());
        for target in targets {
            // SAFETY: a target is aligned as its multicast address is, and mapped as long as the machine's lock is held.
            let mut values = unsafe { load(access, target.address) };
            let place = self.member_place(at, target);
            let (probe, actor) = self.act(at.pc);
            probe.load(actor, access, place, &mut values)?;
            loaded.push(values);
        }
        let mut joined = [0; 4];
        for (lane, word) in joined.iter_mut().enumerate().take(access.lanes.into()) {
            *word = fold(reduction, access.width_bytes, loaded.iter().map(|lanes: &Lanes| lanes[lane]));
        }
        Ok(joined)
    }

    fn store_to(&mut self, at: Multimem, target: &Target, values: &Lanes) -> Result<(), Fault> {
        let access = at.access;
        // SAFETY: as in `load_reduce`.
        let old = if P::ANSWERS { unsafe { load(access, target.address) } } else { [0; 4] };
        let place = self.member_place(at, target);
        let (probe, actor) = self.act(at.pc);
        let written = probe.store(actor, access, place, (&old, values))?;
        for lane in (0..access.lanes).filter(|lane| written >> lane & 1 == 1) {
            // SAFETY: as in `load_reduce`.
            unsafe {
                access::store(
                    element(access, target.address, lane),
                    access.width_bytes,
                    values[lane as usize],
                )
            }
        }
        Ok(())
    }

    /// Each element is an atomic of its own.
    fn reduce_at(
        &mut self,
        at: Multimem,
        reduction: Reduction,
        target: &Target,
        values: &Lanes,
    ) -> Result<(), Fault> {
        let access = at.access;
        let one = Multimem { access: MemoryAccess { lanes: 1, ..access }, ..at };
        for lane in 0..access.lanes {
            let join = |old| fold(reduction, access.width_bytes, [old, values[lane as usize]].into_iter());
            let address = element(access, target.address, lane);
            // SAFETY: as in `load_reduce`.
            let (old, new) = unsafe { access::modify(address, access.width_bytes, join) };
            let mut place = self.member_place(one, target);
            (place.address, place.offset) = (address, place.offset + (address - target.address));
            let (probe, actor) = self.act(at.pc);
            probe.atomic(actor, one.access, place, (old, new))?;
        }
        Ok(())
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
