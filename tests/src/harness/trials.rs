//! From cases to the trials of a run: where each runs, and which are skipped and why.

use super::{Case, DeviceChoice, Extent, Options, RunsOn, child};
use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use symmem::backend::MachineKind;
use symmem::multicast_switch::MulticastSwitch;

/// After this long a case on GPUs is killed.
const GPU_TIMEOUT: Duration = Duration::from_secs(120);
/// After this long a case on the simulated machine has failed; its thread is left behind.
const SIM_TIMEOUT: Duration = Duration::from_secs(300);
/// A full run may take this many times as long.
const FULL_FACTOR: u32 = 10;

/// A case that takes as long is said to.
const SLOW: Duration = Duration::from_secs(10);

/// The GPUs of this host.
pub(crate) struct Gpus {
    found: Result<u32, String>,
}

impl Gpus {
    /// Looks for them, unless they are not wanted.
    pub(crate) fn find(choice: DeviceChoice) -> Self {
        if choice == DeviceChoice::Sim {
            return Self { found: Err("the simulated machine was asked for".into()) };
        }
        let machine = symmem::Machine::cuda();
        Self { found: machine.map(|machine| machine.device_count()).map_err(|error| error.to_string()) }
    }

    /// How many there are; 0 if none, or none wanted.
    pub(crate) fn count(&self) -> u32 {
        self.found.clone().unwrap_or(0)
    }
}

/// What becomes of a case on one kind of machine.
enum Fate {
    Run,
    Skip(String),
    Fail(String),
}

/// The trials of a run. Those skipped are printed by their reasons.
pub(crate) fn of(cases: Vec<Case>, options: &Options, gpus: &Gpus) -> Vec<Trial> {
    let (mut trials, mut skipped) = (Vec::new(), Skipped::default());
    let one_at_a_time = Arc::new(Mutex::new(()));
    for case in cases {
        if options.device != DeviceChoice::Cuda || case.runs_on == RunsOn::HostWithoutGpu {
            let fate = unshared(&case, options.extent).unwrap_or_else(|| match case.runs_on {
                RunsOn::HostWithoutGpu => without_gpu(),
                RunsOn::SimMulticast => with_multicast(),
                RunsOn::GpusInFull => Fate::Skip("it is too much for the simulated machine".into()),
                _ => Fate::Run,
            });
            let (its, extent) = (case.clone(), options.extent);
            let run = move || match its.runs_on {
                RunsOn::SimAlone => {
                    child::run_in_child(&its.name, MachineKind::Sim, extent, sim_patience(extent.full))
                }
                _ => run_on_sim(its, extent),
            };
            trials.push(trial(format!("sim::{}", case.name), fate, &mut skipped, run));
        }
        if options.device != DeviceChoice::Sim && case.runs_on == RunsOn::SimMulticast {
            let fate = Fate::Skip("multicast is tried on the simulated machine alone".into());
            trials.push(trial(format!("cuda::{}", case.name), fate, &mut skipped, || Ok(())));
        }
        if options.device != DeviceChoice::Sim && matches!(case.runs_on, RunsOn::Both | RunsOn::GpusInFull) {
            let (name, extent, lock) = (case.name.clone(), options.extent, one_at_a_time.clone());
            let run = move || {
                let _alone = lock.lock().unwrap_or_else(PoisonError::into_inner);
                child::run_in_child(&name, MachineKind::Cuda, extent, patience(GPU_TIMEOUT, extent.full))
            };
            let fate = on_gpus(&case, options, gpus);
            trials.push(trial(format!("cuda::{}", case.name), fate, &mut skipped, run));
        }
    }
    skipped.print(&options.arguments);
    trials
}

/// Names of the skipped trials, by the reason.
#[derive(Default)]
struct Skipped(BTreeMap<String, Vec<String>>);

impl Skipped {
    fn print(&self, arguments: &Arguments) {
        for (why, names) in &self.0 {
            let names: Vec<_> = names.iter().filter(|name| is_asked_for(name, arguments)).collect();
            match &names[..] {
                [] => {}
                [name] => println!("SKIPPED {name}: {why}"),
                [first, ..] => {
                    println!("SKIPPED {} tests (`ignored` below, the first is {first}): {why}", names.len());
                }
            }
        }
    }
}

fn on_gpus(case: &Case, options: &Options, gpus: &Gpus) -> Fate {
    match &gpus.found {
        Err(why) if options.device == DeviceChoice::Cuda => Fate::Fail(format!("GPUs were asked for: {why}")),
        Err(why) => Fate::Skip(why.clone()),
        Ok(found) if found * options.extent.ranks_per_gpu < case.ranks_needed => {
            Fate::Skip(format!("it needs {} GPUs, {found} found", case.ranks_needed))
        }
        Ok(_) if case.runs_on == RunsOn::GpusInFull && !options.extent.full => {
            Fate::Skip("it takes long; `--full` runs it".into())
        }
        Ok(_) => unshared(case, options.extent).unwrap_or(Fate::Run),
    }
}

/// Why a case does not run where ranks share devices.
fn unshared(case: &Case, extent: Extent) -> Option<Fate> {
    let needs_own = extent.ranks_per_gpu > 1 && !case.may_share;
    needs_own.then(|| Fate::Skip("each of its ranks needs a device of its own".into()))
}

fn without_gpu() -> Fate {
    match symmem::Machine::cuda() {
        Ok(machine) => Fate::Skip(format!("this host has {} GPUs", machine.device_count())),
        Err(_) => Fate::Run,
    }
}

fn with_multicast() -> Fate {
    match MulticastSwitch::from_env() {
        MulticastSwitch::On => Fate::Run,
        MulticastSwitch::Off { by } => Fate::Skip(format!("multicast is switched off by {by}")),
    }
}

fn trial(
    name: String,
    fate: Fate,
    skipped: &mut Skipped,
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    match fate {
        Fate::Run => Trial::test(name.clone(), move || told(&name, run)),
        Fate::Fail(why) => Trial::test(name, move || Err(why.into())),
        Fate::Skip(why) => {
            skipped.0.entry(why.clone()).or_default().push(name.clone());
            Trial::test(name, move || Err(why.into())).with_ignored_flag(true)
        }
    }
}

/// Whether a trial is one to run, by its name.
pub(super) fn is_asked_for(name: &str, arguments: &Arguments) -> bool {
    let matches =
        |filter: &String| if arguments.exact { name == filter } else { name.contains(filter.as_str()) };
    !arguments.list && arguments.filter.iter().all(matches) && !arguments.skip.iter().any(matches)
}

/// Runs a case and says at once what became of it, if it failed or took long: the list of failures stands at the end of
/// a run, which may never come.
fn told(name: &str, run: impl FnOnce() -> Result<()>) -> Result<(), Failed> {
    let start = Instant::now();
    let outcome = run();
    let took = start.elapsed();
    if let Err(error) = &outcome {
        eprintln!("FAILED {name} after {:.1} s: {error:#}", took.as_secs_f64());
    } else if took >= SLOW {
        eprintln!("{name} took {:.1} s", took.as_secs_f64());
    }
    outcome.map_err(|error| format!("{error:#}").into())
}

fn patience(brief: Duration, full: bool) -> Duration {
    if full { brief * FULL_FACTOR } else { brief }
}

fn sim_patience(full: bool) -> Duration {
    patience(SIM_TIMEOUT, full)
}

/// Runs a case on a thread of its own, so that one that hangs is a failure and not a silence.
fn run_on_sim(case: Case, extent: Extent) -> Result<()> {
    let (done, result) = channel();
    let thread = std::thread::Builder::new().name(case.name.clone()).spawn(move || {
        let outcome = child::run(&case, MachineKind::Sim, extent);
        // Whoever gave up waiting has dropped the receiver.
        drop(done.send(outcome));
    })?;
    let timeout = sim_patience(extent.full);
    match result.recv_timeout(timeout) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => anyhow::bail!("still running after {} s", timeout.as_secs()),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => anyhow::bail!("the case's thread ended without a result"),
        },
    }
}
