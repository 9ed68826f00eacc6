//! Multicast objects behind the machine's lock: support, faults on purpose, and calls that wait for a team.

use super::config::{MulticastCall, MulticastFault};
use super::machine::{Core, SimMachine};
use super::result::{Code, ILLEGAL_STATE, NOT_SUPPORTED, OUT_OF_MEMORY, SYSTEM_NOT_READY};
use crate::backend::PhysicalHandle;
use crate::{ErrorKind, Result};
use std::fmt::Write;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a call that waits for a team looks whether another process has added a device.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A host thread in a call that waits for a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TeamWait {
    call: &'static str,
    thread: String,
    multicast: PhysicalHandle,
}

impl MulticastCall {
    /// Its name in the driver.
    fn name(self) -> &'static str {
        match self {
            Self::Create => "cuMulticastCreate",
            Self::AddDevice => "cuMulticastAddDevice",
            Self::Bind => "cuMulticastBindMem",
            Self::Map => "cuMemMap",
        }
    }
}

/// The answer of this number, one that CUDA gives where multicast fails.
pub(super) fn code(number: u32) -> Option<Code> {
    [OUT_OF_MEMORY, ILLEGAL_STATE, SYSTEM_NOT_READY].into_iter().find(|code| code.0 == number)
}

impl SimMachine {
    /// Whether a device can be in a team.
    pub(super) fn has_multicast(&self, device: u32) -> bool {
        let asked = |devices: &Vec<bool>| devices[device as usize];
        self.config.multicast.as_ref().map_or(self.config.sm >= 90, asked)
    }

    /// Fails if no device of the machine has multicast.
    pub(super) fn require_any_multicast(&self, call: &'static str) -> Result<()> {
        if (0..self.config.n_devices).any(|device| self.has_multicast(device)) {
            return Ok(());
        }
        Err(NOT_SUPPORTED.of(call, "no device of this machine has multicast"))
    }

    /// The fault that the configuration asks of a call about `device`.
    pub(super) fn multicast_fault(
        &self,
        core: &mut Core,
        call: MulticastCall,
        device: Option<u32>,
    ) -> Result<()> {
        let Some(MulticastFault { call: its, device: its_device, code: number, .. }) =
            self.config.multicast_fault
        else {
            return Ok(());
        };
        let is_it = its == call && (its_device.is_none() || device.is_none() || its_device == device);
        if !is_it || core.multicast_faults_left == 0 {
            return Ok(());
        }
        core.multicast_faults_left -= 1;
        let code = code(number).expect("the configuration was checked");
        Err(code.of(call.name(), "a fault that the configuration asks for"))
    }

    /// Waits until the team of a multicast object is complete, as the driver does (CUDA driver API 6.15,
    /// `cuMulticastAddDevice`), but not for ever: the error names who waits for which object and which devices it has.
    pub(super) fn with_team(
        &self,
        call: &'static str,
        multicast: PhysicalHandle,
    ) -> Result<MutexGuard<'_, Core>> {
        let start = Instant::now();
        let mut core = self.lock();
        if core.memory.incomplete_team(multicast).is_none() {
            return Ok(core);
        }
        let thread = std::thread::current().name().unwrap_or("without a name").to_owned();
        let me = TeamWait { call, thread, multicast };
        core.team_waits.push(me.clone());
        let mut result = Ok(());
        while result.is_ok() && core.memory.incomplete_team(multicast).is_some() {
            if start.elapsed() >= self.grace(&core) {
                result = Err(ErrorKind::Deadlock { report: core.team_report() }.into());
            }
            let waited = self.changed.wait_timeout(core, LOOK_AGAIN);
            core = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if let Some(index) = core.team_waits.iter().position(|wait| *wait == me) {
            core.team_waits.swap_remove(index);
        }
        result.map(|()| core)
    }
}

impl Core {
    fn team_report(&self) -> String {
        let mut report = "host threads wait for teams of multicast objects that nobody completes".to_owned();
        for TeamWait { call, thread, multicast } in &self.team_waits {
            let (n_devices, team) = self.memory.incomplete_team(*multicast).unwrap_or_default();
            let n_missing = n_devices - team.len() as u32;
            let line = write!(
                report,
                "\n  {call} of thread `{thread}`: object {} waits for {n_missing} of {n_devices} devices to be added; \
                 added so far: {team:?}",
                multicast.0
            );
            line.expect("text can be written to a string");
        }
        report
    }
}
