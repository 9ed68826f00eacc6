//! Every call of the machine fails once, on one rank of three: all ranks are told or all go on, nothing is left behind,
//! nobody waits past the deadlines, and the machine is as good as before.

use crate::faulty::{Fault, Faulty};
use crate::harness::{Case, Context, Host, RunsOn};
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Context as _, Result, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};
use symmem::sim::OnStall;
use symmem::{Algorithm, Comm, CommConfig, Dtype, Op, Stream, Window};

const N_RANKS: u32 = 3;
/// The ranks, and their devices, on which calls fail: in a brief run the first of them. Rank 0 decides offsets.
const FAULTY_RANKS: [u32; 2] = [1, 0];
const COUNT: usize = 64;
/// Bound of every wait on the device.
const TIMEOUT_MS: u64 = 100;
/// Bound of every wait of the host for another rank.
const HOST_TIMEOUT_MS: u64 = 2000;
/// A phase waits at most for one rank that does not come, twice for operations in flight when it is dropped (2 s each),
/// and for the device; the rest is room for a busy machine.
const PHASE_MAX: Duration = Duration::from_millis(3 * HOST_TIMEOUT_MS + 5000);

/// What each rank was told; one answer for all where one call serves all.
type Answers = Vec<symmem::Result<()>>;
type Act = fn(&Host, &mut Option<Scene>) -> Result<Answers>;

/// What is done while a call fails.
#[derive(Clone, Copy)]
struct Phase {
    act: Act,
    is_set_up: bool,
    /// The communicator can go on after a failure.
    is_forgiven: bool,
}

pub(super) fn cases() -> Vec<Case> {
    let phase = |act: Act| Phase { act, is_set_up: true, is_forgiven: false };
    let phases = [
        ("init", Phase { is_set_up: false, ..phase(init) }),
        ("alloc", Phase { is_forgiven: true, ..phase(alloc) }),
        ("register", Phase { is_forgiven: true, ..phase(register) }),
        ("prepare", Phase { is_forgiven: true, ..phase(prepare) }),
        ("collective", phase(collective)),
        ("copies", phase(copies)),
        ("deregister", Phase { is_forgiven: true, ..phase(deregister) }),
        ("teardown", phase(teardown)),
    ];
    let case = |(name, phase)| {
        let run = move |context: &Context| {
            let ranks = &FAULTY_RANKS[..context.rounds(1, FAULTY_RANKS.len())];
            ranks.iter().try_for_each(|&rank| each_call(context, rank, phase))
        };
        Case::new(format!("faults::{name}"), N_RANKS, run).runs_on(RunsOn::SimAlone)
    };
    let halfway = Case::new("faults::halfway_through_copies", N_RANKS, halfway).runs_on(RunsOn::SimAlone);
    phases.map(case).into_iter().chain([halfway]).collect()
}

/// A communicator that has worked, a window, and memory of the caller's on each rank.
struct Scene {
    // In the order in which they go.
    windows: Vec<Window<f32>>,
    rig: Rig,
    memory: Vec<UserMemory>,
}

fn config() -> CommConfig {
    CommConfig { timeout_ms: TIMEOUT_MS, host_timeout_ms: HOST_TIMEOUT_MS, ..CommConfig::default() }
}

impl Scene {
    fn new(machine: &Host) -> Result<Self> {
        let rig = Rig::with(machine, N_RANKS, &config())?;
        let memory = UserMemory::on_each(&machine.devices(N_RANKS)?, 1 << 20)?;
        let windows = rig.alloc(COUNT)?;
        let mut scene = Self { windows, rig, memory };
        for answer in scene.reduce() {
            answer?;
        }
        Ok(scene)
    }

    /// One operation on each rank, and the wait for it; gives each rank's answer.
    fn on_each(
        &mut self,
        mut launch: impl FnMut(&mut Comm, &mut Window<f32>, &Stream) -> symmem::Result<()>,
    ) -> Answers {
        let Rig { comms, streams } = &mut self.rig;
        let ranks = comms.iter_mut().zip(&mut self.windows).zip(streams.iter());
        let launched: Answers = ranks.map(|((comm, window), stream)| launch(comm, window, stream)).collect();
        let waited = comms.iter_mut().zip(streams.iter()).map(|(comm, stream)| comm.synchronize(stream));
        let waited: Answers = waited.collect();
        launched.into_iter().zip(waited).map(|(launched, waited)| launched.and(waited)).collect()
    }

    /// One all-reduce.
    fn reduce(&mut self) -> Answers {
        self.on_each(|comm, window, stream| {
            window.write(0, &[1.0 + comm.rank() as f32; COUNT])?;
            comm.all_reduce_in_place(window, Op::Sum, stream)
        })
    }

    /// One all-gather by copy engines.
    fn gather(&mut self) -> Answers {
        self.on_each(|comm, window, stream| gather(comm, window, stream))
    }

    /// Two operations, and one more after a fault: whoever did not hear of it in one hears of it in the next.
    fn twice(&mut self, operation: fn(&mut Self) -> Answers) -> Answers {
        for _ in 0..2 {
            let answers = operation(self);
            if answers.iter().any(Result::is_err) {
                let next = operation(self);
                return answers.into_iter().zip(next).map(|(answer, next)| answer.and(next)).collect();
            }
        }
        self.rig.comms.iter().map(|_| Ok(())).collect()
    }

    /// The communicator allocates and works as if nothing had been.
    fn goes_on(&mut self) -> Result<()> {
        self.windows = self.rig.alloc(COUNT)?;
        self.reduce().into_iter().collect::<symmem::Result<()>>()?;
        ensure!(self.sums_are_right()?, "wrong sums");
        Ok(())
    }

    fn sums_are_right(&self) -> Result<bool> {
        let sum = (1..=N_RANKS).sum::<u32>() as f32;
        let right = self.windows.iter().map(|window| Ok(window.to_vec()? == [sum; COUNT]));
        Ok(right.collect::<symmem::Result<Vec<_>>>()?.into_iter().all(|right| right))
    }
}

/// A machine on which waits end.
fn faulty(context: &Context) -> Result<(Host, Arc<Faulty>)> {
    context.faulty_machine(|sim| {
        sim.on_stall = OnStall::AdvanceClock;
        sim.stall_grace_ms = 5;
        sim.stall_polls = 512;
    })
}

fn each_call(context: &Context, rank: u32, phase: Phase) -> Result<()> {
    let n_fds = open_fds()?;
    let once = |n_before| -> Result<(bool, Vec<&'static str>)> {
        let (machine, faulty) = faulty(context)?;
        let fired = one_call(context, (&machine, &faulty), (rank, n_before), phase)
            .with_context(|| format!("rank {rank}, the fault after {n_before} calls"))?;
        let seen = faulty.watch().seen();
        drop((machine, faulty));
        context.forget_machines()?;
        ensure!(open_fds()? == n_fds, "{n_before}: {} file descriptors, {n_fds} before", open_fds()?);
        Ok((fired, seen))
    };
    let (_, names) = once(u64::MAX)?;
    ensure!(!names.is_empty(), "the phase makes no call");
    // A brief run lets each function fail a few times only: init asks for every kernel of the table.
    let most = context.rounds(2, usize::MAX);
    let is_chosen = |n: usize| {
        let same = |name: &str| names[..n].iter().filter(|earlier| **earlier == name).count();
        names.get(n).is_none_or(|name| same(name) < most)
    };
    for n_before in (0..).filter(|&n| is_chosen(n)) {
        if !once(n_before as u64)?.0 {
            break;
        }
    }
    Ok(())
}

/// Lets one call fail in a phase; says whether there was such a call.
fn one_call(
    context: &Context,
    (machine, faulty): (&Host, &Arc<Faulty>),
    (rank, n_before): (u32, u64),
    phase: Phase,
) -> Result<bool> {
    let mut scene = if phase.is_set_up { Some(Scene::new(machine)?) } else { None };
    let device = Some(rank);
    faulty.watch().arm(Fault { call: None, device, n_before, error: Fault::out_of_memory() });
    let start = Instant::now();
    let answers = (phase.act)(machine, &mut scene)?;
    let took = start.elapsed();
    let fired = faulty.watch().disarm();
    let what = format!("{fired:?}: {answers:?}");
    ensure!(took < PHASE_MAX, "{what}: it took {took:?}");
    let n_failed = answers.iter().filter(|answer| answer.is_err()).count();
    ensure!(n_failed == 0 || n_failed == answers.len(), "{what}: some ranks were told, others went on");
    if let Some(scene) = scene.as_ref().filter(|_| n_failed == 0) {
        ensure!(scene.sums_are_right()?, "{what}: wrong sums");
    }
    // A communicator or window that goes on without multicast says why.
    let described: Vec<String> =
        scene.iter().flat_map(|scene| &scene.rig.comms).map(Comm::describe).collect();
    let deferred_so_far = machine.take_deferred();
    if let Some(scene) = scene.as_mut().filter(|_| n_failed > 0 && phase.is_forgiven) {
        scene.goes_on().with_context(|| format!("{what}: the same communicator"))?;
    }
    drop(scene);
    let deferred = deferred_so_far.and(machine.take_deferred());
    match &fired {
        None => {
            ensure!(n_failed == 0, "{what}: nothing failed");
            deferred.context("nothing failed")?;
        }
        Some(_) => {
            let told =
                answers.iter().filter_map(|answer| answer.as_ref().err()).chain(deferred.as_ref().err());
            let mut told = told.map(ToString::to_string).chain(described);
            let names_the_cause = told.any(|text| text.contains(Fault::CALL));
            ensure!(names_the_cause, "{what}, {deferred:?}: nobody was told the cause");
        }
    }
    nothing_is_left(context).context(what.clone())?;
    let after = Scene::new(machine).and_then(|scene| scene.sums_are_right());
    ensure!(after.with_context(|| format!("{what}: a new communicator"))?, "{what}: wrong sums afterwards");
    machine.take_deferred()?;
    nothing_is_left(context)?;
    Ok(fired.is_some())
}

fn nothing_is_left(context: &Context) -> Result<()> {
    let live = context.live().context("the machine is simulated")?;
    ensure!(live == symmem::sim::LiveCounts::default(), "left behind: {live:?}");
    Ok(())
}

fn open_fds() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// The communicator stays, to say what it goes on without.
fn init(machine: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    let made = Comm::init_all_with(&machine.devices(N_RANKS)?, &config());
    let keep = |comms| {
        let rig = Rig { comms, streams: Vec::new() };
        *scene = Some(Scene { windows: Vec::new(), rig, memory: Vec::new() });
    };
    Ok(vec![made.map(keep)])
}

fn set_up(scene: &mut Option<Scene>) -> Result<&mut Scene> {
    scene.as_mut().context("the scene is set up")
}

/// Allocates on each rank; gives the windows where there are any.
fn allocate(rig: &Rig) -> Vec<symmem::Result<Window<f32>>> {
    let asked: Vec<_> = rig.comms.iter().map(|comm| comm.alloc::<f32>(COUNT)).collect();
    asked.into_iter().map(|asked| asked.and_then(symmem::Registration::wait)).collect()
}

fn told<T>(answers: Vec<symmem::Result<T>>) -> Answers {
    answers.into_iter().map(|answer| answer.map(drop)).collect()
}

fn alloc(_: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    Ok(told(allocate(&set_up(scene)?.rig)))
}

fn register(_: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    let Scene { rig, memory, .. } = set_up(scene)?;
    let asked = rig.comms.iter().zip(memory.iter());
    let asked: Vec<_> =
        asked.map(|(comm, memory)| comm.register::<f32>(memory.address() + 256, COUNT)).collect();
    Ok(told(asked.into_iter().map(|asked| asked.and_then(symmem::Registration::wait)).collect()))
}

fn prepare(_: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    Ok(set_up(scene)?.rig.prepare(&[Dtype::F32], &[Op::Max, Op::Min]))
}

/// An all-gather by copy engines, from the front of the window to what is behind it.
fn gather(comm: &mut Comm, window: &Window<f32>, stream: &Stream) -> symmem::Result<()> {
    let (at, count) = (window.address(), COUNT as u64 / 4);
    comm.prefer(Some(Algorithm::Ce), None);
    let launched = comm.all_gather_at(at, at + count * 4, count, Dtype::F32, stream);
    comm.prefer(None, None);
    launched
}

fn collective(_: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    Ok(set_up(scene)?.twice(Scene::reduce))
}

/// Several calls make one operation. Behind them one by a kernel leaves the sums.
fn copies(_: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    let scene = set_up(scene)?;
    let answers = scene.twice(Scene::gather);
    Ok(if answers.iter().all(Result::is_ok) { scene.reduce() } else { answers })
}

/// A copy fails to start when its rank has met its peers already. A second try may not meet them where they wait for the end
/// of the first, or they would go on without that rank's share.
fn halfway(context: &Context) -> Result<()> {
    let (machine, faulty) = faulty(context)?;
    let mut scene = Scene::new(&machine)?;
    let error = Fault::out_of_memory();
    faulty.watch().arm(Fault { call: Some("stream_copy"), device: Some(1), n_before: 0, error });
    let stream = scene.rig.streams[1].clone();
    for _ in 0..2 {
        let tried = gather(&mut scene.rig.comms[1], &scene.windows[1], &stream);
        ensure!(tried.is_err(), "the copy was refused, or the communicator has ended");
    }
    ensure!(faulty.watch().disarm().is_some(), "no copy was asked for");
    for rank in [0, 2] {
        let (comm, stream) = (&mut scene.rig.comms[rank], &scene.rig.streams[rank]);
        gather(comm, &scene.windows[rank], stream)?;
    }
    for rank in 0..N_RANKS as usize {
        let told = scene.rig.comms[rank].synchronize(&scene.rig.streams[rank]);
        ensure!(told.is_err(), "rank {rank} went on");
    }
    Ok(())
}

/// Drops the window and allocates another, in which step the first is unmapped.
fn deregister(_: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    let scene = set_up(scene)?;
    scene.windows.clear();
    Ok(told(allocate(&scene.rig)))
}

/// What goes wrong in destructors is told by the machine.
fn teardown(_: &Host, scene: &mut Option<Scene>) -> Result<Answers> {
    *scene = None;
    Ok(Vec::new())
}
