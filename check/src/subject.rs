//! One run, and its name: all that it takes to repeat it.

use anyhow::{Context, Result, bail};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use symmem::sim::{ProbeKind, Schedule, ScheduleKind};

/// A run. Its text is `SUBJECT@RANKS/PROGRAM/PROBE/SCHEDULE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// A kernel of the table, or the name of a launch description.
    pub(crate) subject: String,
    pub(crate) n_ranks: u32,
    pub(crate) program: String,
    pub(crate) probe: ProbeKind,
    pub(crate) schedule: Schedule,
}

/// Names of the probes.
pub(crate) const PROBES: [(&str, ProbeKind); 4] = [
    ("none", ProbeKind::None),
    ("races", ProbeKind::Races),
    ("weak", ProbeKind::Weak { races: true }),
    ("weak-only", ProbeKind::Weak { races: false }),
];

/// A schedule for the time before a run.
pub(crate) fn first_schedule() -> Schedule {
    Schedule { kind: ScheduleKind::RoundRobin, seed: 0 }
}

fn probe_name(probe: ProbeKind) -> &'static str {
    PROBES.iter().find(|(_, its)| *its == probe).map_or("?", |(name, _)| name)
}

impl Display for Run {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { subject, n_ranks, program, probe, schedule } = self;
        write!(f, "{subject}@{n_ranks}/{program}/{}/{schedule}", probe_name(*probe))
    }
}

impl FromStr for Run {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let context = || format!("`{text}` is no run; one is SUBJECT@RANKS/PROGRAM/PROBE/SCHEDULE");
        let (subject, rest) = text.split_once('@').with_context(context)?;
        let words: Vec<_> = rest.splitn(4, '/').collect();
        let &[ranks, program, probe, schedule] = &words[..] else { bail!(context()) };
        let known = PROBES.iter().find(|(name, _)| *name == probe);
        let n_ranks = ranks.parse().ok().filter(|n| (1..=64).contains(n));
        Ok(Self {
            subject: subject.into(),
            n_ranks: n_ranks.with_context(context)?,
            program: program.into(),
            probe: known.with_context(context)?.1,
            schedule: schedule.parse::<Schedule>().with_context(context)?,
        })
    }
}
