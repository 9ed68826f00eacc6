//! One case.

use super::Context;
use anyhow::Result;
use std::fmt;
use std::sync::Arc;

/// Which machines a case is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunsOn {
    /// GPUs and the simulated machine.
    Both,
    /// The simulated machine: the case shapes the machine itself.
    Sim,
    /// The simulated machine, in a process of its own: the case counts what the process holds.
    SimAlone,
    /// The simulated machine with multicast: a program that uses it on GPUs can disturb a fabric that others share. Not
    /// where the environment switches it off.
    SimMulticast,
    /// GPUs, in a full run: too much for the simulated machine.
    GpusInFull,
    /// A host without GPUs, whatever the device asked for.
    HostWithoutGpu,
}

/// What a case does with the machines it is given.
type Work = dyn Fn(&Context) -> Result<()> + Send + Sync;

/// A case: a name and what it does.
#[derive(Clone)]
pub(crate) struct Case {
    /// `topic::what`.
    pub(crate) name: String,
    /// Which machines it is for.
    pub(crate) runs_on: RunsOn,
    /// Ranks without which it means nothing: so many devices, or fewer that ranks share.
    pub(crate) ranks_needed: u32,
    /// Whether its ranks may share devices.
    pub(crate) may_share: bool,
    /// What it does; an error is a failure.
    pub(crate) run: Arc<Work>,
}

impl Case {
    /// A case for GPUs and the simulated machine.
    pub(crate) fn new(
        name: impl Into<String>,
        ranks_needed: u32,
        run: impl Fn(&Context) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), runs_on: RunsOn::Both, ranks_needed, may_share: false, run: Arc::new(run) }
    }

    /// The same, for other machines.
    #[must_use]
    pub(crate) fn runs_on(self, runs_on: RunsOn) -> Self {
        Self { runs_on, ..self }
    }

    /// The same, on devices that ranks share where that was asked for.
    #[must_use]
    pub(crate) fn may_share(self) -> Self {
        Self { may_share: true, ..self }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({}, {:?}, {} ranks)", self.name, self.runs_on, self.ranks_needed)
    }
}
