//! Ranks that come late, or refuse: who carries a request out together has come for the same one, whatever its size, and
//! the communicator goes on.

use crate::expect::{expect, kind};
use crate::harness::{Case, Context};
use crate::random::Random;
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::{BTreeMap, VecDeque};
use symmem::{CommConfig, Deregistration, Device, ErrorKind, Op, Registration, Stream, Window};

/// Bound of the host's waits: every request that a rank is late for takes so long.
const HOST_TIMEOUT_MS: u64 = 400;
/// Elements of a window.
const COUNT: usize = 100;
/// Elements that one step allocates.
const COUNTS: [usize; 2] = [COUNT, 3 * COUNT];
/// The rank that is late or refuses.
const ONE: usize = 1;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("late_ranks::come_when_others_have_gone_on", 2, come_when_others_have_gone_on),
        Case::new("late_ranks::a_refusal_is_told_at_once", 2, a_refusal_is_told_at_once),
        Case::new("late_ranks::nobody_gets_another_window", 2, nobody_gets_another_window),
    ]
}

/// What all ranks are asked for, one after the other.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(usize),
    /// All of the caller's memory.
    Register,
    /// The window of that step.
    Deregister(usize),
}

/// What a rank asked for.
#[derive(Debug)]
enum Asked {
    Registration(Registration<f32>),
    Deregistration(Deregistration),
}

/// Ranks with their memory and the windows that each holds, by their steps.
struct Scene {
    held: Vec<BTreeMap<usize, Window<f32>>>,
    rig: Rig,
    memory: Vec<UserMemory>,
}

impl Scene {
    fn new(context: &Context, host_timeout_ms: u64) -> Result<Self> {
        let machine = context.machine()?;
        let devices: Vec<Device> = machine.devices(machine.device_count().min(3))?;
        let memory = UserMemory::on_each(&devices, 4 * COUNT as u64)?;
        let rig = Rig::on(&devices, &CommConfig { host_timeout_ms, ..CommConfig::default() })?;
        Ok(Self { held: devices.iter().map(|_| BTreeMap::new()).collect(), rig, memory })
    }

    fn n_ranks(&self) -> usize {
        self.held.len()
    }

    fn ask(&mut self, rank: usize, step: Step) -> Result<Asked> {
        let comm = &self.rig.comms[rank];
        Ok(match step {
            Step::Alloc(count) => Asked::Registration(comm.alloc(count)?),
            Step::Register => Asked::Registration(comm.register(self.memory[rank].address(), COUNT)?),
            Step::Deregister(of) => {
                let window = self.held[rank].remove(&of).context("the rank holds the window")?;
                Asked::Deregistration(comm.deregister(window)?)
            }
        })
    }

    /// Waits for what a rank asked for in a step, and keeps the window.
    fn answer(&mut self, rank: usize, step: usize, asked: Asked) -> symmem::Result<()> {
        match asked {
            Asked::Registration(asked) => drop(self.held[rank].insert(step, asked.wait()?)),
            Asked::Deregistration(asked) => drop(asked.wait()?),
        }
        Ok(())
    }

    /// What all ranks hold of each step has one place, one size and one number, and sums come out right.
    fn check(&mut self) -> Result<()> {
        let place = |(step, window): (&usize, &Window<f32>)| {
            (*step, (window.number(), window.flat_offset(), window.len()))
        };
        let places: Vec<BTreeMap<_, _>> =
            self.held.iter().map(|held| held.iter().map(place).collect()).collect();
        ensure!(places.iter().all(|its| *its == places[0]), "ranks hold different windows: {places:#?}");
        for step in self.held[0].keys().copied().collect::<Vec<_>>() {
            self.sum(step).with_context(|| format!("the window of step {step}"))?;
        }
        Ok(())
    }

    fn sum(&mut self, step: usize) -> Result<()> {
        let windows = self.held.iter_mut().filter_map(|held| held.get_mut(&step));
        let mut windows: Vec<_> = windows.collect();
        for (rank, window) in windows.iter_mut().enumerate() {
            window.write(0, &vec![rank as f32 + 1.0; window.len()])?;
        }
        let reduce = |comm: &mut symmem::Comm, stream: &Stream| {
            let rank = comm.rank() as usize;
            comm.all_reduce_in_place(&mut *windows[rank], Op::Sum, stream)
        };
        self.rig.each(reduce)?;
        self.rig.synchronize()?;
        let sum = (1..=self.n_ranks()).sum::<usize>() as f32;
        for held in &self.held {
            let found = held[&step].to_vec()?;
            ensure!(found.iter().all(|value| *value == sum), "{sum} was expected: {found:?}");
        }
        Ok(())
    }
}

fn is_missing(rank: usize) -> impl Fn(&ErrorKind) -> bool {
    move |kind| matches!(kind, ErrorKind::Deadline { missing, .. } if *missing == [rank as u32])
}

/// Rank 1 comes to the first step when the others have given it up and wait with the second.
fn come_when_others_have_gone_on(context: &Context) -> Result<()> {
    let first = 2;
    let table = [
        (Step::Alloc(COUNT), Step::Alloc(COUNT), "registration 2,", "registration 3 now"),
        (Step::Alloc(COUNT), Step::Alloc(2 * COUNT), "registration 2,", "registration 3 now"),
        (Step::Alloc(COUNT), Step::Register, "registration 2,", "registration 3 now"),
        (Step::Alloc(COUNT), Step::Deregister(0), "registration 2,", "deregistration of window 0 now"),
        (Step::Deregister(0), Step::Alloc(COUNT), "deregistration of window 0,", "registration 2 now"),
        (Step::Deregister(1), Step::Deregister(0), "of window 1,", "deregistration of window 0 now"),
    ];
    for (given_up, next, late_for, at) in table {
        let mut scene = Scene::new(context, HOST_TIMEOUT_MS)?;
        for step in 0..first {
            let asked = (0..scene.n_ranks())
                .map(|rank| scene.ask(rank, Step::Alloc(COUNT)))
                .collect::<Result<Vec<_>>>()?;
            for (rank, asked) in asked.into_iter().enumerate() {
                scene.answer(rank, step, asked)?;
            }
        }
        let others: Vec<usize> = (0..scene.n_ranks()).filter(|rank| *rank != ONE).collect();
        let alone = others.iter().map(|&rank| scene.ask(rank, given_up)).collect::<Result<Vec<_>>>()?;
        for (&rank, asked) in others.iter().zip(alone) {
            expect("without rank 1", scene.answer(rank, first, asked), is_missing(ONE), &["400 ms"])?;
        }
        let mut asked = others.iter().map(|&rank| scene.ask(rank, next)).collect::<Result<VecDeque<_>>>()?;
        let late = scene.ask(ONE, given_up)?;
        asked.insert(ONE, scene.ask(ONE, next)?);
        expect("rank 1", scene.answer(ONE, first, late), is_missing(ONE), &[late_for, "rank 0 gave up", at])?;
        for (rank, asked) in asked.into_iter().enumerate() {
            scene.answer(rank, first + 1, asked).with_context(|| format!("{given_up:?}, {next:?}"))?;
        }
        scene.check()?;
    }
    Ok(())
}

/// With a deadline that no test would live to see.
fn a_refusal_is_told_at_once(context: &Context) -> Result<()> {
    let mut scene = Scene::new(context, 3_600_000)?;
    let streams = scene.rig.streams.clone();
    let foreign = Rig::on(
        &scene.rig.comms.iter().map(|comm| comm.device().clone()).collect::<Vec<_>>(),
        &CommConfig::default(),
    )?;
    let mut foreign = foreign.alloc::<f32>(COUNT)?;
    let windows = scene.rig.alloc::<f32>(COUNT)?;
    for (rank, window) in windows.into_iter().enumerate() {
        scene.held[rank].insert(0, window);
    }
    scene.check()?;
    let others: Vec<usize> = (0..scene.n_ranks()).filter(|rank| *rank != ONE).collect();
    type Refused = fn(&Scene, &Stream, Window<f32>) -> symmem::Result<()>;
    let table: [(Step, Refused, &str); 4] = [
        (Step::Alloc(COUNT), |scene, _, _| scene.rig.comms[ONE].alloc::<f32>(0).map(drop), "0 bytes"),
        (
            Step::Alloc(COUNT),
            |scene, _, _| scene.rig.comms[ONE].alloc::<f32>(usize::MAX).map(drop),
            "4 bytes",
        ),
        (
            Step::Register,
            |scene, stream, _| {
                let mut refused = Ok(());
                stream.capture(|| {
                    refused =
                        scene.rig.comms[ONE].register::<f32>(scene.memory[ONE].address(), COUNT).map(drop);
                    Ok(())
                })?;
                refused
            },
            "captur",
        ),
        (
            Step::Deregister(0),
            |scene, _, foreign| scene.rig.comms[ONE].deregister(foreign).map(drop),
            "another",
        ),
    ];
    for (n, (step, refused, word)) in table.into_iter().enumerate() {
        let asked = others.iter().map(|&rank| scene.ask(rank, step)).collect::<Result<Vec<_>>>()?;
        let of_other = foreign[ONE].clone();
        let own = crate::expect::error_of("its caller", refused(&scene, &streams[ONE], of_other))?;
        ensure!(own.to_string().contains(word), "{own}");
        for (&rank, asked) in others.iter().zip(asked) {
            let is = |kind: &ErrorKind| matches!(kind, ErrorKind::RankFailed { rank: 1, .. });
            expect("another rank", scene.answer(rank, 1 + n, asked), is, &[word])?;
        }
    }
    scene.held[ONE].clear();
    foreign.clear();
    let windows = scene.rig.alloc::<f32>(COUNT)?;
    for (rank, window) in windows.into_iter().enumerate() {
        scene.held[rank].insert(9, window);
    }
    scene.check()
}

/// Random steps, for some of which a rank is late or refuses: those fail on all ranks, all others are carried out, and
/// every window is the same on all ranks.
fn nobody_gets_another_window(context: &Context) -> Result<()> {
    for seed in 0..context.rounds(2, 30) as u64 {
        let mut random = Random::new(seed);
        let mut scene = Scene::new(context, HOST_TIMEOUT_MS)?;
        // Steps that a rank has not come to yet.
        let mut owed: Vec<Vec<(usize, Step)>> = vec![Vec::new(); scene.n_ranks()];
        let mut live = Vec::new();
        for n in 0..24 {
            let step = match random.below(4) {
                0 if !live.is_empty() => Step::Deregister(live.swap_remove(random.below(live.len()))),
                1 => Step::Register,
                _ => Step::Alloc(COUNTS[random.below(COUNTS.len())]),
            };
            let is_done = match random.below(8) {
                0 => one_is_late(&mut scene, &mut owed, random.below(3), (n, step)),
                1 => one_refuses(&mut scene, &mut owed, random.below(3), (n, step)),
                _ => all_come(&mut scene, &mut owed, (n, step)),
            };
            if is_done.with_context(|| format!("seed {seed}, step {n}, {step:?}"))?
                && !matches!(step, Step::Deregister(_))
            {
                live.push(n);
            }
        }
        all_come(&mut scene, &mut owed, (24, Step::Alloc(COUNT)))?;
        scene.check().with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

/// What a rank owes comes before its next step, and fails: the others gave up on it.
fn pay(scene: &mut Scene, owed: &mut [Vec<(usize, Step)>], rank: usize) -> Result<Vec<(usize, Asked)>> {
    std::mem::take(&mut owed[rank]).into_iter().map(|(n, step)| Ok((n, scene.ask(rank, step)?))).collect()
}

fn fails(scene: &mut Scene, rank: usize, late: Vec<(usize, Asked)>) -> Result<()> {
    late.into_iter().try_for_each(|(n, asked)| {
        expect("what others gave up on", scene.answer(rank, n, asked), kind!(Deadline), &["missing"])
    })
}

fn all_come(scene: &mut Scene, owed: &mut [Vec<(usize, Step)>], (n, step): (usize, Step)) -> Result<bool> {
    let mut asked = Vec::new();
    for rank in 0..scene.n_ranks() {
        asked.push((pay(scene, owed, rank)?, scene.ask(rank, step)?));
    }
    for (rank, (late, asked)) in asked.into_iter().enumerate() {
        fails(scene, rank, late)?;
        scene.answer(rank, n, asked)?;
    }
    Ok(true)
}

fn one_is_late(
    scene: &mut Scene,
    owed: &mut [Vec<(usize, Step)>],
    one: usize,
    (n, step): (usize, Step),
) -> Result<bool> {
    let one = one % scene.n_ranks();
    owed[one].push((n, step));
    let others = (0..scene.n_ranks()).filter(|rank| *rank != one);
    let mut asked = Vec::new();
    for rank in others {
        asked.push((rank, pay(scene, owed, rank)?, scene.ask(rank, step)?));
    }
    for (rank, late, asked) in asked {
        fails(scene, rank, late)?;
        expect("without one rank", scene.answer(rank, n, asked), kind!(Deadline), &["missing"])?;
    }
    Ok(false)
}

fn one_refuses(
    scene: &mut Scene,
    owed: &mut [Vec<(usize, Step)>],
    one: usize,
    (n, step): (usize, Step),
) -> Result<bool> {
    let one = one % scene.n_ranks();
    let Step::Alloc(_) = step else { return all_come(scene, owed, (n, step)) };
    let mut asked = Vec::new();
    for rank in 0..scene.n_ranks() {
        let late = pay(scene, owed, rank)?;
        let its = if rank == one {
            scene.rig.comms[rank].alloc(0).map(Asked::Registration)
        } else {
            Ok(scene.ask(rank, step)?)
        };
        asked.push((late, its));
    }
    for (rank, (late, asked)) in asked.into_iter().enumerate() {
        fails(scene, rank, late)?;
        match asked {
            Err(error) if rank == one => {
                ensure!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error}")
            }
            Ok(asked) if rank != one => {
                let is = |kind: &ErrorKind| matches!(kind, ErrorKind::RankFailed { rank, .. } if *rank == one as u32);
                expect("refused by one rank", scene.answer(rank, n, asked), is, &["0 bytes"])?;
            }
            other => bail!("rank {rank}: {other:?}"),
        }
    }
    Ok(false)
}
