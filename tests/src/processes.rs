//! Ranks that are processes: this program starts itself again for each rank, and that runs a named program.

use crate::harness::Context;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use symmem::backend::MachineKind;
use symmem::sim::{ProbeKind, SimConfig, SimMachine};
use symmem::{Comm, CommConfig, Device, Machine, UniqueId};

/// Tells a process its place: `RANK N_RANKS PARENT cuda|sim ID`.
const PLACE: &str = "SYMMEM_TEST_PLACE";
/// After so long the ranks of a case are killed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a rank does.
pub(crate) type Program = fn(&Place) -> Result<()>;

/// A process's place among the ranks.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) n_ranks: u32,
    pub(crate) id: UniqueId,
    kind: MachineKind,
}

impl Place {
    fn find() -> Result<Self> {
        let text = std::env::var(PLACE).with_context(|| format!("reading {PLACE}"))?;
        let [rank, n_ranks, parent, kind, id] = &text.splitn(5, ' ').collect::<Vec<_>>()[..] else {
            bail!("{PLACE} is {text}");
        };
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
        ensure!(now.as_deref() == Some(parent), "the parent is gone");
        let kind = if *kind == "cuda" { MachineKind::Cuda } else { MachineKind::Sim };
        Ok(Self { rank: rank.parse()?, n_ranks: n_ranks.parse()?, id: id.parse()?, kind })
    }

    /// The GPUs, or a simulated machine with a device for each rank.
    pub(crate) fn machine(&self) -> Result<Machine> {
        self.machine_of(self.n_ranks)
    }

    /// The GPUs, or a simulated machine with so many devices.
    pub(crate) fn machine_of(&self, n_devices: u32) -> Result<Machine> {
        if self.kind == MachineKind::Cuda {
            return Ok(Machine::cuda()?);
        }
        let config = SimConfig { n_devices, probe: ProbeKind::None, ..SimConfig::default() };
        Ok(Machine::from_backend(SimMachine::new(config)?))
    }

    /// This rank's device.
    pub(crate) fn device(&self) -> Result<Device> {
        Ok(self.machine()?.device(self.rank)?)
    }

    /// The communicator of all ranks.
    pub(crate) fn comm(&self, device: &Device, config: &CommConfig) -> Result<Comm> {
        Ok(Comm::init_rank_with(device, self.n_ranks, self.rank, &self.id, config)?)
    }

    /// Another id, equal on all ranks.
    pub(crate) fn second_id(&self) -> Result<UniqueId> {
        let text = self.id.to_string();
        let (head, meeting) = text.split_once('@').context("an id has two parts")?;
        let last = if head.ends_with('0') { '1' } else { '0' };
        Ok(format!("{}{last}@{meeting}-second", &head[..head.len() - 1]).parse()?)
    }
}

/// What a process does that was started as a rank.
pub(crate) fn run_rank(program: Program) -> ExitCode {
    match Place::find().and_then(|place| program(&place)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Processes that each run a rank. Killed on drop.
#[derive(Debug)]
pub(crate) struct Ranks {
    ranks: Vec<Rank>,
}

#[derive(Debug)]
struct Rank {
    child: Child,
    /// Lines of its standard output.
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    is_killed: bool,
}

impl Ranks {
    /// Starts `n_ranks` processes that run the program of that name.
    pub(crate) fn start(context: &Context, program: &str, n_ranks: u32, id: &UniqueId) -> Result<Self> {
        Self::start_some(context, program, n_ranks, id, 0..n_ranks, |_| vec![])
    }

    /// The same for some of the ranks, with more variables for each.
    pub(crate) fn start_some(
        context: &Context,
        program: &str,
        n_ranks: u32,
        id: &UniqueId,
        ranks: impl IntoIterator<Item = u32>,
        variables: impl Fn(u32) -> Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let mut all = Self { ranks: Vec::new() };
        for rank in ranks {
            let kind = if context.is_sim() { "sim" } else { "cuda" };
            let place = format!("{rank} {n_ranks} {} {kind} {id}", std::process::id());
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["--rank-program", program]).env(PLACE, place).envs(variables(rank));
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().with_context(|| format!("starting rank {rank}"))?;
            let (lines, errors) = (lines(child.stdout.take()), text(child.stderr.take()));
            all.ranks.push(Rank { child, lines, errors: Some(errors), is_killed: false });
        }
        Ok(all)
    }

    /// Waits until a rank says this.
    pub(crate) fn expect_line(&self, rank: usize, expected: &str) -> Result<()> {
        let line = self.ranks[rank].lines.recv_timeout(PATIENCE);
        let line = line.with_context(|| format!("rank {rank} did not say {expected}"))?;
        ensure!(line == expected, "rank {rank} said {line} instead of {expected}");
        Ok(())
    }

    /// Kills a rank (SIGKILL).
    pub(crate) fn kill(&mut self, rank: usize) -> Result<()> {
        self.ranks[rank].is_killed = true;
        Ok(self.ranks[rank].child.kill()?)
    }

    /// Waits until all have ended; every one that was not killed must have ended well.
    pub(crate) fn finish(mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut failures = Vec::new();
        for (n, rank) in self.ranks.iter_mut().enumerate() {
            let status = loop {
                match rank.child.try_wait()? {
                    Some(status) => break Some(status),
                    None if Instant::now() >= end => break None,
                    None => std::thread::sleep(LOOK_AGAIN),
                }
            };
            if status.is_none() {
                rank.child.kill()?;
                rank.child.wait()?;
            }
            let said = rank.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
            match status {
                Some(status) if status.success() || rank.is_killed => {}
                Some(status) => failures.push(format!("rank {n}: {status}: {}", said.trim())),
                None => failures.push(format!("rank {n} was still running: {}", said.trim())),
            }
        }
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        Ok(())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            // Most have ended by themselves.
            drop(rank.child.kill().and_then(|()| rank.child.wait()));
        }
    }
}

fn lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (say, said) = channel();
    std::thread::spawn(move || {
        let pipe = pipe.map(BufReader::new);
        // The case may have ended before the rank.
        pipe.into_iter()
            .flat_map(BufRead::lines)
            .map_while(Result::ok)
            .try_for_each(|line| say.send(line))
            .ok()
    });
    said
}

fn text(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What a killed rank leaves in the pipe is still worth reading.
        drop(pipe.map(|mut pipe| pipe.read_to_end(&mut bytes)));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
