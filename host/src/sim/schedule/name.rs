//! Schedules as text, so that a run can be told and repeated.
//!
//! | text | schedule |
//! |---|---|
//! | `round-robin` | each thread in turn |
//! | `random:SEED` | drawn from the seed |
//! | `pct:SEED:dCHANGES:nSTEPS` | priorities, and the given number of changes in so many instructions |
//! | `unfair:SEED` | some threads far behind the others |
//! | `choices:LIST` | the choices of an exhaustive search: numbers, `3x0` for three zeros; zeros at the end are left out |

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

/// How the next thread is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleKind {
    /// Threads and burst lengths are drawn from the seed.
    Random,
    /// Each thread in turn, equal bursts; the seed is not used.
    RoundRobin,
    /// Probabilistic concurrency testing: the thread of the highest random priority runs, and falls below all others at
    /// `n_changes` random ones of the first `n_steps` instructions.
    Pct {
        /// Number of changes.
        n_changes: u32,
        /// Instructions among which the changes fall.
        n_steps: u64,
    },
    /// Ranks, blocks, warps or threads that the seed chooses run only when all others wait.
    Unfair,
    /// One instruction at a time, by these choices and then by the first option ([`super::Exhaustive`]); the seed is not
    /// used.
    Choices(Arc<[u32]>),
}

/// A kind with its seed: all that determines a schedule. [`Display`] and [`FromStr`] are each other's inverse; the
/// module's table gives the forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The kind.
    pub kind: ScheduleKind,
    /// The seed; 0 where the kind uses none.
    pub seed: u64,
}

impl Display for Schedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seed = self.seed;
        match &self.kind {
            ScheduleKind::RoundRobin => write!(f, "round-robin"),
            ScheduleKind::Random => write!(f, "random:{seed}"),
            ScheduleKind::Unfair => write!(f, "unfair:{seed}"),
            ScheduleKind::Pct { n_changes, n_steps } => write!(f, "pct:{seed}:d{n_changes}:n{n_steps}"),
            ScheduleKind::Choices(list) => write!(f, "choices:{}", compact(list)),
        }
    }
}

/// Run lengths of a list without the zeros at its end.
fn compact(list: &[u32]) -> String {
    let len = list.iter().rposition(|&choice| choice != 0).map_or(0, |last| last + 1);
    let runs = list[..len].chunk_by(|a, b| a == b);
    let words: Vec<_> = runs
        .map(|run| if run.len() == 1 { run[0].to_string() } else { format!("{}x{}", run.len(), run[0]) })
        .collect();
    words.join(",")
}

/// Most choices that a text may stand for.
const CHOICES_MAX: usize = 1 << 24;

fn expand(text: &str) -> Option<Arc<[u32]>> {
    let mut list = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let (count, choice) = word.split_once('x').unwrap_or(("1", word));
        let count: usize = count.parse().ok()?;
        if count > CHOICES_MAX - list.len() {
            return None;
        }
        list.extend(std::iter::repeat_n(choice.parse::<u32>().ok()?, count));
    }
    Some(list.into())
}

/// A text that names no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSchedule(String);

impl Display for NoSchedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no schedule; allowed: round-robin, random:SEED, pct:SEED:dCHANGES:nSTEPS, unfair:SEED, choices:LIST",
            self.0
        )
    }
}

impl std::error::Error for NoSchedule {}

impl FromStr for Schedule {
    type Err = NoSchedule;

    fn from_str(text: &str) -> Result<Self, NoSchedule> {
        parse(text).ok_or_else(|| NoSchedule(text.into()))
    }
}

fn parse(text: &str) -> Option<Schedule> {
    let words: Vec<_> = text.split(':').collect();
    let of = |kind, seed: &str| Some(Schedule { kind, seed: seed.parse().ok()? });
    match words[..] {
        ["round-robin"] => of(ScheduleKind::RoundRobin, "0"),
        ["random", seed] => of(ScheduleKind::Random, seed),
        ["unfair", seed] => of(ScheduleKind::Unfair, seed),
        ["pct", seed, changes, steps] => {
            let n_changes = changes.strip_prefix('d')?.parse().ok()?;
            let n_steps = steps.strip_prefix('n')?.parse().ok()?;
            of(ScheduleKind::Pct { n_changes, n_steps }, seed)
        }
        ["choices", list] => of(ScheduleKind::Choices(expand(list)?), "0"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule() -> impl Strategy<Value = Schedule> {
        let list =
            prop::collection::vec(prop_oneof![4 => Just(0u32), 1 => 0u32..5, 1 => any::<u32>()], 0..40);
        let kind = prop_oneof![
            Just(ScheduleKind::Random),
            Just(ScheduleKind::Unfair),
            (any::<u32>(), any::<u64>())
                .prop_map(|(n_changes, n_steps)| ScheduleKind::Pct { n_changes, n_steps }),
        ];
        prop_oneof![
            (kind, any::<u64>()).prop_map(|(kind, seed)| Schedule { kind, seed }),
            Just(Schedule { kind: ScheduleKind::RoundRobin, seed: 0 }),
            list.prop_map(|mut list| {
                while list.last() == Some(&0) {
                    list.pop();
                }
                Schedule { kind: ScheduleKind::Choices(list.into()), seed: 0 }
            }),
        ]
    }

    proptest! {
        #[test]
        fn text_and_schedule_are_each_others(schedule in schedule()) {
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }

        #[test]
        fn no_text_makes_the_parser_fail_otherwise(text in "[a-z0-9:,x-]{0,40}") {
            if let Ok(schedule) = text.parse::<Schedule>() {
                prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
            }
        }
    }

    #[test]
    fn texts_are_short() {
        let check = |text: &str, kind| {
            assert_eq!(text.parse(), Ok(Schedule { kind, seed: 0 }));
        };
        check("choices:2x0,3", ScheduleKind::Choices([0, 0, 3].into()));
        check("choices:", ScheduleKind::Choices([].into()));
        check("pct:0:d3:n1000", ScheduleKind::Pct { n_changes: 3, n_steps: 1000 });
        for wrong in ["", "random", "random:x", "pct:1:3:4", "choices:99999999999x0", "choices:1x", "fair:1"]
        {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
    }
}
