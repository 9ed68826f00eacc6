//! A case in a process of its own, so that a hang or a broken context ends with it.

use super::{Case, Context, Extent};
use anyhow::{Context as _, Result, bail};
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use symmem::backend::MachineKind;

/// Between two looks whether the child has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Streams of a GPU that have a queue of their own, as many as can (CUDA programming guide, "CUDA environment
/// variables"): the kernels of ranks that share a GPU wait for each other, and none may wait behind another.
const CONNECTIONS: (&str, &str) = ("CUDA_DEVICE_MAX_CONNECTIONS", "32");

/// Runs a case in a child process; kills it after `timeout`.
pub(crate) fn run_in_child(name: &str, kind: MachineKind, extent: Extent, timeout: Duration) -> Result<()> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    let device = if kind == MachineKind::Sim { "sim" } else { "cuda" };
    command.args(["--child", name, "--device", device]).args(extent.full.then_some("--full"));
    command.args(["--ranks-per-gpu", &extent.ranks_per_gpu.to_string()]);
    command.env(CONNECTIONS.0, CONNECTIONS.1);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.context("starting a child process")?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child, timeout)?;
    let said = [out, err].map(|thread| thread.join().unwrap_or_default()).concat();
    match status {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{status}\n{}", said.trim()),
        None => bail!("killed after {} s\n{}", timeout.as_secs(), said.trim()),
    }
}

/// What `--child` does.
pub(crate) fn run_here(name: &str, kind: MachineKind, extent: Extent) -> ExitCode {
    match find(name, kind, extent).and_then(|case| run(&case, kind, extent)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a case in this process and looks at what it left.
pub(crate) fn run(case: &Case, kind: MachineKind, extent: Extent) -> Result<()> {
    let context = Context::new(kind, extent, case.ranks_needed);
    (case.run)(&context)?;
    context.finish()
}

fn find(name: &str, kind: MachineKind, extent: Extent) -> Result<Case> {
    let gpus = match kind {
        MachineKind::Cuda => symmem::Machine::cuda()?.device_count(),
        MachineKind::Sim => 0,
    };
    let cases = crate::cases::all(extent, gpus);
    cases.into_iter().find(|case| case.name == name).with_context(|| format!("no case is named {name}"))
}

/// The exit status, or `None` if the child had to be killed.
fn wait(child: &mut Child, timeout: Duration) -> Result<Option<std::process::ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > timeout {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Reads a pipe to its end, so that the child never waits for room in it.
fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What a killed child leaves in the pipe is still worth reading.
        drop(pipe.map(|mut pipe| pipe.read_to_end(&mut bytes)));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
