//! Multicast of a communicator: a space of one stride beside the unicast one, whose byte at an offset stands for every
//! rank's byte at that offset.
//!
//! There is one multicast object per communicator, since the switches have room for few, and memory is bound to it at the
//! offset at which it is mapped. Multicast is optional at every step: all ranks say how a step went before anybody takes
//! the next one, because the driver blocks who binds or maps before the last device is added; where one rank fails, none
//! has multicast. Up to the binding of `DevBase` that is for the communicator, from then on for the window at hand.

use crate::backend::{Access, MachineKind};
use crate::comm::bootstrap::{Bootstrap, outcomes};
use crate::machine::Device;
use crate::multicast_switch::MulticastSwitch;
use crate::symmetric::{Backing, FlatOffset};
use crate::vmm::{MulticastMapping, MulticastObject, Reservation, common_granularity_bytes};
use crate::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// `CUDA_ERROR_SYSTEM_NOT_READY`: the fabric's manager may answer so for a while. All ranks then wait, one as long as the
/// other, and who failed tries again.
const NOT_READY: u32 = 802;
/// How long before each further try, in milliseconds.
const PAUSES_MS: [u64; 5] = [50, 100, 200, 400, 800];

/// Whether a communicator has multicast: the same on all ranks.
#[derive(Clone, Debug)]
pub(crate) enum Multicast {
    /// It has.
    On(Arc<MulticastSpace>),
    /// It has not.
    Off {
        /// Which rank could not, and why.
        reason: String,
    },
}

/// The addresses of a multicast object of one stride. One per communicator and process.
#[derive(Debug)]
pub(crate) struct MulticastSpace {
    mapping: MulticastMapping,
}

impl MulticastSpace {
    /// Address of the byte at an offset.
    pub(crate) fn address(&self, offset: FlatOffset) -> u64 {
        self.mapping.address() + offset.bytes
    }

    pub(crate) fn object(&self) -> &Arc<MulticastObject> {
        self.mapping.object()
    }
}

/// Where the ranks of one process hand each other what one of them has made.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    object: Mutex<Option<Arc<MulticastObject>>>,
    space: Mutex<Option<Arc<MulticastSpace>>>,
}

/// What every rank must bring along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat<'a> {
    pub(crate) meeting: &'a dyn Bootstrap,
    pub(crate) device: &'a Device,
    pub(crate) handover: &'a Handover,
}

/// What the settings say of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) multicast: Option<bool>,
    /// Whether ranks share a device, which can be in a multicast object's team but once.
    pub(crate) shares_devices: bool,
}

/// Whether all ranks may and can use multicast; the multiple that sizes and offsets must have, which is `align_bytes` if
/// they do not.
pub(crate) fn capability(
    meeting: &dyn Bootstrap,
    device: &Device,
    n_ranks: u32,
    wish: Wish,
    align_bytes: u64,
) -> Result<Result<u64>> {
    settle(meeting, "multicast: can be used", || {
        let switch = MulticastSwitch::from_env();
        if let Some(hint) = refusal(switch, device.machine().kind(), n_ranks, wish) {
            return Err(no_multicast(hint));
        }
        if !device.multicast_supported()? {
            return Err(no_multicast(format!("device {} does not support it", device.index())));
        }
        let object_bytes = align_bytes.saturating_mul(2);
        let granularity = device.machine().backend().multicast_granularity(n_ranks, object_bytes)?;
        common_granularity_bytes(align_bytes, Some(granularity.minimum_bytes))
    })
}

/// Why it is not wanted, if it is not: where it is switched off, the machine is not asked.
fn refusal(switch: MulticastSwitch, machine: MachineKind, n_ranks: u32, wish: Wish) -> Option<String> {
    match (switch, wish.multicast) {
        (MulticastSwitch::Off { by }, _) => Some(format!("it is switched off by {by}")),
        (_, Some(false)) => Some("it is switched off in the settings".into()),
        (_, None) if machine == MachineKind::Cuda => {
            Some("on GPUs it is used only where SYMMEM_MULTICAST=1 asks for it".into())
        }
        _ if wish.shares_devices => Some("ranks share a device".into()),
        _ => (n_ranks == 1).then(|| "there is one rank".into()),
    }
}

fn no_multicast(hint: String) -> Error {
    ErrorKind::Unsupported { what: "multicast".into(), hint }.into()
}

impl Multicast {
    /// Makes the space together with all ranks, unless one has said already that it cannot.
    pub(crate) fn set_up(
        seat: Seat<'_>,
        n_ranks: u32,
        stride_bytes: u64,
        align_bytes: u64,
        able: Result<u64>,
    ) -> Result<Self> {
        if let Err(error) = able {
            return Ok(Self::Off { reason: error.to_string() });
        }
        let made = seat.make(n_ranks, stride_bytes, align_bytes);
        // Every rank has taken what was handed over, or nobody shall.
        seat.handover.clear();
        Ok(match made? {
            Ok(space) => Self::On(space),
            Err(error) => Self::off(seat.meeting, &error),
        })
    }

    /// Binds a rank's memory where it is mapped, the first `len_bytes` of it, together with all ranks: they all do, or
    /// none does.
    pub(crate) fn bind(
        &self,
        meeting: &dyn Bootstrap,
        device: &Device,
        backing: &mut Backing,
        len_bytes: u64,
    ) -> Result<Result<()>> {
        let Self::On(space) = self else { return Ok(Ok(())) };
        let bound = settle(meeting, "multicast: memory bound", || backing.bind(space, device, len_bytes))?;
        Ok(match bound {
            Ok(bindings) => {
                backing.set_multicast(space, bindings);
                Ok(())
            }
            Err(error) => {
                backing.refuse_multicast(&error);
                Err(error)
            }
        })
    }

    /// None for the communicator, as all ranks have agreed.
    pub(crate) fn off(meeting: &dyn Bootstrap, error: &Error) -> Self {
        warn_unicast(meeting, error, "the communicator");
        Self::Off { reason: error.to_string() }
    }

    /// The space, if there is one.
    pub(crate) fn space(&self) -> Option<&Arc<MulticastSpace>> {
        match self {
            Self::On(space) => Some(space),
            Self::Off { .. } => None,
        }
    }
}

/// Says once, by rank 0 for all, that something goes on without multicast.
pub(crate) fn warn_unicast(meeting: &dyn Bootstrap, error: &Error, what: &str) {
    if meeting.rank() == 0 {
        tracing::warn!(%error, "{what} goes on without multicast on all ranks");
    }
}

impl Seat<'_> {
    fn make(self, n_ranks: u32, stride_bytes: u64, align_bytes: u64) -> Result<Result<Arc<MulticastSpace>>> {
        let machine = self.device.machine();
        let made = settle(self.meeting, "multicast: object made", || match self.meeting.rank() {
            0 => self.handover.object(|| MulticastObject::new(machine, n_ranks, stride_bytes)).map(Some),
            _ => Ok(None),
        })?;
        let object = match made {
            Ok(made) if self.meeting.spans_processes() => self.share(made.as_deref(), stride_bytes)?,
            Ok(_) => self.handover.object(|| Err(no_multicast("rank 0 has handed over no object".into()))),
            Err(error) => return Ok(Err(error)),
        };
        let object = match object {
            Ok(object) => object,
            Err(error) => return Ok(Err(error)),
        };
        let added = settle(self.meeting, "multicast: device added", || object.add_device(self.device))?;
        if let Err(error) = added {
            return Ok(Err(error));
        }
        settle(self.meeting, "multicast: mapped", || {
            let space = self.handover.space(|| {
                let reservation = Arc::new(Reservation::new(machine, stride_bytes, align_bytes)?);
                Ok(MulticastSpace { mapping: MulticastMapping::new(&reservation, &object)? })
            })?;
            space.mapping.set_access(self.device.index(), Access::ReadWrite)?;
            Ok(space)
        })
    }

    /// Rank 0 sends the object to the ranks of other processes, the first of which imports it for its process.
    fn share(
        self,
        made: Option<&MulticastObject>,
        stride_bytes: u64,
    ) -> Result<Result<Arc<MulticastObject>>> {
        let exported = settle(self.meeting, "multicast: object exported", || {
            made.map(MulticastObject::export).transpose()
        })?;
        let fd = match exported {
            Ok(fd) => fd,
            Err(error) => return Ok(Err(error)),
        };
        let fds: Vec<_> = fd.iter().map(AsFd::as_fd).collect();
        let mut parts = self.meeting.all_gather_fds("multicast: descriptor", Vec::new(), &fds)?;
        // All have received it.
        drop(fd);
        let (_, received) = parts.swap_remove(0);
        settle(self.meeting, "multicast: object imported", || {
            self.handover.object(|| {
                let fd = received.first().ok_or_else(|| ErrorKind::BadMessage {
                    rank: 0,
                    step: "multicast: descriptor".into(),
                    reason: "no descriptor came".into(),
                })?;
                MulticastObject::import(self.device.machine(), fd.as_fd(), stride_bytes)
            })
        })
    }
}

impl Handover {
    /// The object, made or imported by whichever rank comes first.
    fn object(&self, make: impl FnOnce() -> Result<MulticastObject>) -> Result<Arc<MulticastObject>> {
        first(&self.object, make)
    }

    /// The space, made by whichever rank comes first.
    fn space(&self, make: impl FnOnce() -> Result<MulticastSpace>) -> Result<Arc<MulticastSpace>> {
        first(&self.space, make)
    }

    fn clear(&self) {
        *lock(&self.space) = None;
        *lock(&self.object) = None;
    }
}

fn first<T>(slot: &Mutex<Option<Arc<T>>>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
    let mut slot = lock(slot);
    match &*slot {
        Some(made) => Ok(made.clone()),
        None => Ok(slot.insert(Arc::new(make()?)).clone()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One step: every rank tries its part and says how that went. The outer error is that of the exchange itself; the inner
/// one is the same on all ranks, and what this rank made is undone by then.
fn settle<T>(
    meeting: &dyn Bootstrap,
    step: &'static str,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<Result<T>> {
    let mut mine = attempt();
    let mut pauses = PAUSES_MS.iter();
    loop {
        let errors = outcomes(meeting, step, &mine)?;
        let failed: Vec<(u32, Error)> =
            (0..).zip(errors).filter_map(|(rank, error)| Some((rank, error?))).collect();
        let is_fatal = |(_, error): &&(u32, Error)| !is_transient(error);
        let Some((rank, error)) = failed.iter().find(is_fatal).or(failed.first()) else { return Ok(mine) };
        let pause = if is_transient(error) { pauses.next() } else { None };
        let Some(pause) = pause else { return Ok(Err(Error::of_rank(*rank, error.clone()).context(step))) };
        std::thread::sleep(Duration::from_millis(*pause));
        if mine.is_err() {
            mine = attempt();
        }
    }
}

fn is_transient(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Driver { code: NOT_READY, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_where_nobody_says_no() {
        let by = || MulticastSwitch::Off { by: "A=0".into() };
        let (on, sim, cuda) = (|| MulticastSwitch::On, MachineKind::Sim, MachineKind::Cuda);
        let table = [
            (on(), sim, 2, None, None),
            (on(), sim, 2, Some(true), None),
            (on(), sim, 2, Some(false), Some("settings")),
            (on(), sim, 1, None, Some("one rank")),
            (on(), cuda, 2, None, Some("SYMMEM_MULTICAST=1")),
            (on(), cuda, 2, Some(true), None),
            (on(), cuda, 2, Some(false), Some("settings")),
            (on(), cuda, 1, Some(true), Some("one rank")),
            (by(), sim, 2, Some(true), Some("switched off by A=0")),
            (by(), cuda, 2, Some(true), Some("switched off by A=0")),
        ];
        for (switch, machine, n_ranks, wish, expected) in table {
            let row = format!("{switch} {machine:?} {n_ranks} {wish:?}");
            let wish = Wish { multicast: wish, shares_devices: false };
            let found = refusal(switch, machine, n_ranks, wish);
            let is_right = match (&found, expected) {
                (Some(found), Some(piece)) => found.contains(piece),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            assert!(is_right, "{row}: {found:?}");
        }
        let shared = Wish { multicast: Some(true), shares_devices: true };
        assert_eq!(refusal(on(), sim, 2, shared).as_deref(), Some("ranks share a device"));
    }
}
