//! Child processes with a time limit.

use crate::error::{BuildError, Result};
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the pipes of a finished child are still read: a grandchild may hold them open.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// What a child left behind.
#[derive(Debug)]
pub struct Captured {
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

/// Runs `command` with its output captured, for at most `limit`.
///
/// # Errors
///
/// It cannot be started, ends unsuccessfully or is still running after `limit` (then it is killed). The error has the
/// command line and what it printed.
pub fn capture(command: &mut Command, limit: Duration) -> Result<Captured> {
    capture_from(command, Stdio::null(), limit)
}

/// As [`capture`], with this standard input.
///
/// # Errors
///
/// As [`capture`].
pub fn capture_from(command: &mut Command, stdin: Stdio, limit: Duration) -> Result<Captured> {
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command)?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let ended = wait(&mut child, command, limit)?;
    let stdout = stdout.recv_timeout(DRAIN_LIMIT).unwrap_or_default();
    let stderr = stderr.recv_timeout(DRAIN_LIMIT).unwrap_or_default();
    match ended {
        Some(status) if status.success() => Ok(Captured { status, stdout, stderr }),
        ended => Err(BuildError::command(line(command), outcome(ended, limit), format!("{stdout}{stderr}"))),
    }
}

/// The command line as a person would type it.
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().replace('\x1f', " ")).collect::<Vec<_>>().join(" ")
}

fn start(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| BuildError::start(&command.get_program().to_string_lossy(), error))
}

fn wait(child: &mut Child, command: &Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let fail = |error| BuildError::start(&command.get_program().to_string_lossy(), error);
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(fail)? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            child.kill().map_err(fail)?;
            child.wait().map_err(fail)?;
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn outcome(ended: Option<ExitStatus>, limit: Duration) -> String {
    match ended {
        Some(status) => format!("failed ({status})"),
        None => format!("was still running after {} s and was killed", limit.as_secs()),
    }
}

/// Reads a pipe to its end on a thread of its own, so that a full pipe never blocks the child.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth showing, and a receiver that gave up needs nothing.
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).ok();
        }
        sender.send(String::from_utf8_lossy(&bytes).into_owned()).ok();
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_captured_and_failures_say_what_ran() {
        let limit = Duration::from_secs(60);
        let ok = capture(&mut shell("echo out; echo err >&2"), limit).unwrap();
        assert_eq!((ok.stdout.as_str(), ok.stderr.as_str()), ("out\n", "err\n"));
        let failed = capture(&mut shell("echo why >&2; exit 3"), limit).unwrap_err().to_string();
        assert!(failed.contains("exit 3` failed (exit status: 3):\nwhy"), "{failed}");
        let absent = capture(&mut Command::new("no-such-program"), limit).unwrap_err().to_string();
        assert!(absent.starts_with("cannot start `no-such-program`"), "{absent}");
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let error = capture(&mut shell("exec sleep 600"), Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("was still running after 0 s and was killed"), "{error}");
    }
}
