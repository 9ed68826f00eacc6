//! What operations take: between events in every rank's stream, or on the host. Ours and NCCL's take turns, so that what
//! changes on the machine in the meantime changes both.

use crate::check::Round;
use crate::measure::{Mode, Settings};
use crate::program::Program;
use crate::rivals::Rival;
use crate::spin;
use crate::team::Team;
use anyhow::Result;
use std::time::{Duration, Instant};
use symmem::{Event, Stream};

/// Measurements of one row; the median is reported.
pub(crate) const REPETITIONS: usize = 5;
/// Bound on the wait for an event behind work that has been waited for already.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);
/// What the launch of a graph takes on a slow host: up to 50 us were seen.
const LAUNCH_NS: u64 = 60_000;
/// Longest time that streams spin ahead of what is timed.
const AHEAD_MAX_NS: u64 = 100_000_000;

/// Several measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` of nothing, or of what is no number.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        [min, median, max].iter().all(|value| value.is_finite()).then_some(Self { median, min, max })
    }
}

/// Events before and behind what is timed, a pair in each stream.
pub(crate) struct Timer {
    starts: Vec<Event>,
    ends: Vec<Event>,
}

impl Timer {
    /// For streams in this order.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub(crate) fn new(streams: &[Stream]) -> symmem::Result<Self> {
        let events = || -> symmem::Result<Vec<_>> {
            streams.iter().map(|stream| Event::with_timing(stream.device())).collect()
        };
        Ok(Self { starts: events()?, ends: events()? })
    }

    /// Marks where the time begins: behind what is in the streams now.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub(crate) fn start(&self, streams: &[Stream]) -> symmem::Result<()> {
        record(&self.starts, streams)
    }

    /// Marks where it ends.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub(crate) fn stop(&self, streams: &[Stream]) -> symmem::Result<()> {
        record(&self.ends, streams)
    }

    /// Microseconds from mark to mark, in the stream where they are most; `None` on the simulated machine.
    ///
    /// # Errors
    ///
    /// What the machine answers, or that the work does not end.
    pub(crate) fn slowest_us(&self) -> symmem::Result<Option<f64>> {
        let mut slowest: Option<f64> = None;
        for (start, end) in self.starts.iter().zip(&self.ends) {
            end.wait(EVENT_TIMEOUT)?;
            let elapsed_us = end.elapsed_us_since(start)?;
            slowest = elapsed_us.map(|us| slowest.map_or(us, |slowest| slowest.max(us)));
        }
        Ok(slowest)
    }
}

fn record(events: &[Event], streams: &[Stream]) -> symmem::Result<()> {
    events.iter().zip(streams).try_for_each(|(event, stream)| event.record(stream))
}

/// Time of one operation in microseconds, the median of several measurements: ours is returned, NCCL's is put where it
/// belongs. In each turn ours comes first, then theirs in their order.
///
/// # Errors
///
/// What became of ours. What becomes of theirs is theirs.
pub(crate) fn time(
    team: &mut Team,
    ours: &Program,
    rivals: &mut [Rival],
    settings: &Settings,
) -> Result<Option<Spread>> {
    let timer = Timer::new(&team.streams)?;
    let mut times_us = Vec::new();
    let mut theirs_us = vec![Vec::new(); rivals.len()];
    write_inputs(team, ours, settings)?;
    for _ in 0..REPETITIONS {
        times_us.extend(time_once(team, (ours, ours), &timer, settings)?);
        for (rival, times_us) in rivals.iter_mut().zip(&mut theirs_us) {
            let Some(program) = &rival.program else { continue };
            match time_once(team, (program, ours), &timer, settings) {
                Ok(time_us) => times_us.extend(time_us),
                Err(error) => rival.fail(&error.context("timing")),
            }
        }
    }
    for (rival, times_us) in rivals.iter_mut().zip(theirs_us) {
        rival.outcome.time_us = Spread::of(times_us).filter(|_| rival.program.is_some());
    }
    Ok(Spread::of(times_us))
}

/// The same for all who are timed: those of our program.
fn write_inputs(team: &Team, ours: &Program, settings: &Settings) -> Result<()> {
    Round::new(team, ours, settings.seed, u64::MAX).prepare()
}

/// One measurement of a program, on the inputs of ours, in microseconds an operation; `None` on the simulated machine.
///
/// # Errors
///
/// What became of it.
pub(crate) fn time_once(
    team: &mut Team,
    (program, ours): (&Program, &Program),
    timer: &Timer,
    settings: &Settings,
) -> Result<Option<f64>> {
    // Results that are fed back leave the range of the type; each measurement starts from numbers.
    if program.steps.feed_back(&program.case) {
        write_inputs(team, ours, settings)?;
    }
    team.meet()?;
    let total_us = if settings.mode == Mode::Host {
        time_host(team, program, settings)?
    } else {
        time_device(team, program, timer, settings)?
    };
    let slowest_us = team.gather(&total_us)?.into_iter().flatten().reduce(f64::max);
    let n_ops = f64::from(settings.replays.max(1)) * f64::from(program.n_ops);
    Ok(slowest_us.map(|us| us / n_ops))
}

fn time_device(
    team: &mut Team,
    program: &Program,
    timer: &Timer,
    settings: &Settings,
) -> Result<Option<f64>> {
    if settings.mode == Mode::Graph {
        let n_launches = u64::from(settings.replays + 1) * team.streams.len() as u64;
        spin::all(&team.spinners, &team.streams, (n_launches * LAUNCH_NS).min(AHEAD_MAX_NS))?;
    }
    // The warm-up brings the ranks in step, and runs while what is timed is launched behind it, which hides how long the
    // first launch takes; of graphs, since streams spin before, every launch.
    warm_up(team, program, settings)?;
    if settings.replays > 0 {
        program.launch(team)?;
    }
    timer.start(&team.streams)?;
    program.launch_times(team, settings.replays.max(1))?;
    timer.stop(&team.streams)?;
    program.synchronize(team)?;
    Ok(timer.slowest_us()?)
}

/// Time of the calls on the host, for one rank: the thread calls for all of its ranks in turn.
fn time_host(team: &mut Team, program: &Program, settings: &Settings) -> Result<Option<f64>> {
    warm_up(team, program, settings)?;
    program.synchronize(team)?;
    team.meet()?;
    let start = Instant::now();
    program.launch(team)?;
    let elapsed_us = start.elapsed().as_secs_f64() * 1e6;
    program.synchronize(team)?;
    Ok(Some(elapsed_us / team.ranks().len() as f64))
}

fn warm_up(team: &mut Team, program: &Program, settings: &Settings) -> Result<()> {
    Program::eager(program.by, &program.case, program.steps, settings.warmup).launch(team)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, f64::NAN]), None);
        assert_eq!(spread(&[f64::INFINITY]), None);
    }
}
