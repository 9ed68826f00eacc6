//! The driver's calls on multicast objects, with what they refuse.

use super::super::address_map::HOST;
use super::super::physical::Physical;
use super::super::vmm::{require, require_granular};
use super::super::{Memory, reservation::Reservation};
use super::{Bound, MULTICAST, Member, Members, Multicast, Part, Seen, Table, identity_of};
use crate::Result;
use crate::backend::PhysicalHandle;
use crate::sim::memory::GRANULARITY_BYTES;
use crate::sim::result::{INVALID_VALUE, OUT_OF_MEMORY};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

impl Memory {
    /// `cuMulticastCreate`. At most `objects_max` live at once.
    pub(crate) fn multicast_create(
        &mut self,
        n_devices: u32,
        len_bytes: u64,
        objects_max: u32,
    ) -> Result<PhysicalHandle> {
        const CALL: &str = "cuMulticastCreate";
        require(n_devices > 0 && n_devices <= self.n_devices, CALL, || {
            format!("a team of {n_devices} devices on a machine of {}", self.n_devices)
        })?;
        require(len_bytes > 0, CALL, || "a size of 0".into())?;
        require_granular(len_bytes, "size", CALL)?;
        let n_objects = self.multicasts.len() as u32;
        if n_objects >= objects_max {
            return Err(
                OUT_OF_MEMORY.of(CALL, format!("{n_objects} multicast objects, the most there can be"))
            );
        }
        let (table, fd) = Table::create(n_devices, len_bytes)?;
        let identity = identity_of(fd.as_fd())?;
        let physical = self.keep(Physical::of_multicast(fd, len_bytes, identity));
        Ok(self.name_multicast(physical, Multicast::new(table, false)))
    }

    /// `cuMemImportFromShareableHandle` of an object that another process made; `None` if it is something else.
    pub(in super::super) fn multicast_import(
        &mut self,
        fd: BorrowedFd<'_>,
    ) -> Result<Option<PhysicalHandle>> {
        let Some((table, fd)) = Table::import(fd)? else { return Ok(None) };
        let identity = identity_of(fd.as_fd())?;
        let physical = self.keep(Physical::of_multicast(fd, table.len_bytes, identity));
        Ok(Some(self.name_multicast(physical, Multicast::new(table, true))))
    }

    fn name_multicast(&mut self, physical: u32, multicast: Multicast) -> PhysicalHandle {
        self.allocations[physical as usize].as_mut().expect("just made").multicast = Some(multicast);
        self.multicasts.push(physical);
        self.name(physical)
    }

    fn multicast_at(&self, number: u32) -> Option<&Multicast> {
        self.allocations[number as usize].as_ref()?.multicast.as_ref()
    }

    fn multicast(&self, handle: PhysicalHandle, call: &'static str) -> Result<(u32, &Multicast)> {
        let physical = self.referenced(handle, call)?;
        let found = self.multicast_at(physical);
        let refused = || INVALID_VALUE.of(call, format!("handle {} is no multicast object", handle.0));
        Ok((physical, found.ok_or_else(refused)?))
    }

    /// Whether the handle names a multicast object.
    pub(crate) fn is_multicast(&self, handle: PhysicalHandle) -> bool {
        self.multicast(handle, "").is_ok()
    }

    /// The device that owns memory, if the handle is alive.
    pub(crate) fn owner_of(&self, memory: PhysicalHandle) -> Option<u32> {
        Some(self.allocation(self.referenced(memory, "").ok()?).device)
    }

    /// If the handle names an object whose team is incomplete: its size, the devices that it has.
    pub(crate) fn incomplete_team(&self, handle: PhysicalHandle) -> Option<(u32, Vec<u32>)> {
        let (_, multicast) = self.multicast(handle, "").ok()?;
        (multicast.n_missing() > 0).then(|| (multicast.table.n_devices, multicast.table.team()))
    }

    /// `cuMulticastAddDevice`.
    pub(crate) fn multicast_add(&mut self, handle: PhysicalHandle, device: u32) -> Result<()> {
        const CALL: &str = "cuMulticastAddDevice";
        let (_, multicast) = self.multicast(handle, CALL)?;
        let team = multicast.table.team();
        require(!team.contains(&device), CALL, || format!("device {device}, which is in the team already"))?;
        require(multicast.table.add(device), CALL, || {
            format!("device {device} to a team of {} that is complete: {team:?}", multicast.table.n_devices)
        })
    }

    /// `cuMulticastBindMem`; the team is complete.
    pub(crate) fn multicast_bind(
        &mut self,
        handle: PhysicalHandle,
        offset: u64,
        memory: PhysicalHandle,
        physical_offset: u64,
        len_bytes: u64,
    ) -> Result<()> {
        const CALL: &str = "cuMulticastBindMem";
        let (number, multicast) = self.multicast(handle, CALL)?;
        let physical = self.referenced(memory, CALL)?;
        let found = self.allocation(physical);
        require(found.device != MULTICAST && found.device != HOST, CALL, || {
            format!("handle {} is no memory of a device", memory.0)
        })?;
        require(found.exportable, CALL, || "memory without an exportable handle type".into())?;
        require(len_bytes > 0, CALL, || "a size of 0".into())?;
        let named = [(offset, "multicast offset"), (physical_offset, "memory offset"), (len_bytes, "size")];
        named.into_iter().try_for_each(|(value, what)| require_granular(value, what, CALL))?;
        check_end(offset, len_bytes, multicast.table.len_bytes, "the multicast object")?;
        check_end(physical_offset, len_bytes, found.len_bytes, "the memory")?;
        let device = found.device;
        require(multicast.table.team().contains(&device), CALL, || {
            format!("memory of device {device}, which is not in the team")
        })?;
        let taken = multicast
            .table
            .bound()
            .into_iter()
            .find(|its| its.device == device && its.overlaps(offset, len_bytes));
        if let Some(Bound { offset: start, len_bytes: len, .. }) = taken {
            let operand = format!("device {device} has {len:#x} bytes bound at {start:#x} already");
            return Err(INVALID_VALUE.of(CALL, operand));
        }
        let bound = Bound { device, offset, len_bytes, physical_offset, memory: found.identity };
        if !multicast.table.enter(bound) {
            return Err(OUT_OF_MEMORY.of(CALL, "no more bindings fit in the object"));
        }
        self.multicast_mut(number).own.push((bound, physical));
        self.allocations[physical as usize].as_mut().expect("just found").bindings += 1;
        Ok(())
    }

    fn multicast_mut(&mut self, number: u32) -> &mut Multicast {
        let allocation = self.allocations[number as usize].as_mut().expect("just found");
        allocation.multicast.as_mut().expect("just found")
    }

    /// `cuMulticastUnbind`, of a binding that this process made.
    pub(crate) fn multicast_unbind(
        &mut self,
        handle: PhysicalHandle,
        device: u32,
        offset: u64,
        len_bytes: u64,
    ) -> Result<()> {
        const CALL: &str = "cuMulticastUnbind";
        let (number, multicast) = self.multicast(handle, CALL)?;
        let is = |(bound, _): &(Bound, u32)| {
            (bound.device, bound.offset, bound.len_bytes) == (device, offset, len_bytes)
        };
        let index = multicast.own.iter().position(is).ok_or_else(|| {
            let operand = format!("{len_bytes:#x} bytes of device {device} at {offset:#x}: no such binding");
            INVALID_VALUE.of(CALL, operand)
        })?;
        let multicast = self.multicast_mut(number);
        let (bound, physical) = multicast.own.swap_remove(index);
        multicast.table.strike(bound);
        let allocation = self.allocations[physical as usize].as_mut().expect("bound memory lives");
        allocation.bindings -= 1;
        if allocation.bindings == 0 && allocation.handles == 0 {
            self.discard(physical);
        }
        Ok(())
    }

    /// Refuses to take back the last reference to an object that has something bound: nobody could unbind it any more.
    /// (The driver leaves open what happens then.)
    pub(in super::super) fn check_unbound(&self, physical: u32, call: &'static str) -> Result<()> {
        let bound = self.multicast_at(physical).filter(|multicast| !multicast.own.is_empty());
        let Some(multicast) = bound else { return Ok(()) };
        let references: u32 =
            self.handles.values().filter(|its| its.physical == physical).map(|its| its.references).sum();
        require(references > 1, call, || {
            let bound: Vec<_> = multicast.own.iter().map(|(bound, _)| (bound.device, bound.offset)).collect();
            format!(
                "a multicast object with memory bound to it, as (device, offset): {bound:x?}; unbind it first"
            )
        })
    }

    /// Numbers of bindings of this process.
    pub(in super::super) fn n_bindings(&self) -> usize {
        let own = |number: &u32| self.multicast_at(*number).map(|multicast| multicast.own.len());
        self.multicasts.iter().filter_map(own).sum()
    }

    /// Whether `device` may have rights on a mapping of the object.
    pub(in super::super) fn is_in_team(&self, physical: u32, device: u32) -> bool {
        self.multicast_at(physical).is_some_and(|multicast| multicast.table.team().contains(&device))
    }

    /// The object has a new mapping, which leads nowhere yet.
    pub(in super::super) fn look_again_at(&mut self, physical: u32) {
        if self.multicasts.contains(&physical) {
            self.multicast_mut(physical).seen = None;
        }
    }

    /// Brings what lies behind multicast addresses up to date, if anything has changed.
    pub(crate) fn refresh_multicast(&mut self) -> Result<()> {
        for index in 0..self.multicasts.len() {
            let number = self.multicasts[index];
            let multicast = self.multicast_at(number).expect("a numbered object lives");
            let now = Some((multicast.table.n_changes(), self.n_kept_or_gone));
            if multicast.seen == now {
                continue;
            }
            let (team, bound) = (multicast.table.team(), multicast.table.bound());
            let members = Arc::new(self.resolve(team, &bound)?);
            self.map.set_members(number, &members);
            self.multicast_mut(number).seen = now;
        }
        Ok(())
    }

    fn resolve(&mut self, mut team: Vec<u32>, bound: &[Bound]) -> Result<Members> {
        team.sort_unstable();
        let mut members = Vec::with_capacity(team.len());
        for device in team {
            let mut parts = Vec::new();
            for its in bound.iter().filter(|its| its.device == device) {
                let Bound { offset, len_bytes, physical_offset, memory, .. } = *its;
                parts.push(Part { offset, len_bytes, physical_offset, memory: self.see(memory)? });
            }
            parts.sort_unstable_by_key(|part: &Part| part.offset);
            members.push(Member { device, parts });
        }
        Ok(Members { members })
    }

    /// Memory by its identity, at addresses of this process alone; `None` if it was not imported.
    fn see(&mut self, identity: (u64, u64)) -> Result<Option<Seen>> {
        let is = |slot: &Option<super::super::Allocation>| {
            slot.as_ref().is_some_and(|found| found.memory.identity == identity)
        };
        let Some(number) = self.allocations.iter().position(is) else { return Ok(None) };
        let allocation = self.allocations[number].as_mut().expect("just found");
        let len_bytes = allocation.memory.len_bytes;
        let view = match &allocation.view {
            Some(view) => view.clone(),
            None => {
                let view = Reservation::new(len_bytes, GRANULARITY_BYTES, 0)?;
                view.map(view.start(), len_bytes, allocation.memory.fd())?;
                allocation.view.insert(Arc::new(view)).clone()
            }
        };
        Ok(Some(Seen { physical: number as u32, physical_len_bytes: len_bytes, view }))
    }
}

fn check_end(offset: u64, len_bytes: u64, limit: u64, what: &str) -> Result<()> {
    let fits = offset.checked_add(len_bytes).is_some_and(|end| end <= limit);
    require(fits, "cuMulticastBindMem", || {
        format!("{len_bytes:#x} bytes at {offset:#x} run past the end of {what}, which has {limit:#x}")
    })
}
