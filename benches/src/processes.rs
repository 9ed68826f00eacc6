//! `--procs N`: this program starts itself again for each rank, carries messages between the ranks, and ends with them.
//!
//! Rank 0 prints the table. A rank that fails fails all; none outlives the parent, which waits a bounded time.

use crate::link::{Answer, ID, PARENT, RANK};
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use symmem::UniqueId;

/// After the first failure the others have so long to say what they know.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks whether a child has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The ranks, each a process. Killed on drop.
struct Children {
    children: Vec<Child>,
    sockets: Vec<UnixStream>,
    said: Receiver<Said>,
    errors: Vec<JoinHandle<String>>,
}

/// What a child's socket brought.
enum Said {
    /// A line.
    Line(u32, String),
    /// Nothing more.
    End(u32),
}

/// Runs the bench in `n_procs` processes, for at most `timeout`.
///
/// # Errors
///
/// If they cannot be started, or take too long.
pub(crate) fn run(n_procs: u32, timeout: Duration) -> Result<ExitCode> {
    let mut children = Children::start(n_procs)?;
    let failure = children.relay(Instant::now() + timeout)?;
    children.finish(failure)
}

impl Children {
    fn start(n_procs: u32) -> Result<Self> {
        let id = UniqueId::new()?.to_string();
        let (say, said) = channel();
        let mut all = Self { children: Vec::new(), sockets: Vec::new(), said, errors: Vec::new() };
        for rank in 0..n_procs {
            all.start_one(rank, &id, &say).with_context(|| format!("starting rank {rank}"))?;
        }
        Ok(all)
    }

    fn start_one(&mut self, rank: u32, id: &str, say: &Sender<Said>) -> Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).stdin(OwnedFd::from(theirs)).stderr(Stdio::piped());
        command.env(RANK, rank.to_string()).env(ID, id).env(PARENT, std::process::id().to_string());
        if rank > 0 {
            command.stdout(Stdio::null());
        }
        let mut child = command.spawn()?;
        let errors = child.stderr.take();
        self.children.push(child);
        let (reader, say) = (ours.try_clone()?, say.clone());
        self.sockets.push(ours);
        std::thread::Builder::new().spawn(move || listen(rank, reader, &say))?;
        self.errors.push(std::thread::Builder::new().spawn(move || tee(errors, rank == 0))?);
        Ok(())
    }

    /// Answers meetings until every rank has ended; gives the first failure.
    fn relay(&mut self, end: Instant) -> Result<Option<String>> {
        let n = self.children.len();
        let mut parts: Vec<Option<Value>> = vec![None; n];
        let mut open = n;
        let (mut failure, mut end) = (None, end);
        while open > 0 {
            let left = end.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(Said::Line(rank, line)) => parts[rank as usize] = Some(serde_json::from_str(&line)?),
                Ok(Said::End(rank)) => {
                    open -= 1;
                    if failure.is_none() && !self.ended_well(rank as usize)? {
                        failure = Some(format!("rank {rank} failed"));
                        end = end.min(Instant::now() + PATIENCE);
                    }
                }
                Err(_) => {
                    return Ok(failure.or_else(|| Some("the bench took too long (--timeout-s)".to_owned())));
                }
            }
            self.answer(&mut parts, failure.as_deref());
        }
        Ok(failure)
    }

    /// Whether a rank whose socket is closed has ended without an error.
    fn ended_well(&mut self, rank: usize) -> Result<bool> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.children[rank].try_wait()? {
                return Ok(status.success());
            }
            if Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Answers whoever waits: all, once all have come, or at once after a failure.
    fn answer(&mut self, parts: &mut [Option<Value>], failure: Option<&str>) {
        let answer = match failure {
            Some(reason) => Answer::Failed(reason.to_owned()),
            None if parts.iter().all(Option::is_some) => {
                Answer::All(parts.iter().flatten().cloned().collect())
            }
            None => return,
        };
        let line = serde_json::to_string(&answer).expect("an answer is plain JSON") + "\n";
        for (part, mut socket) in parts.iter_mut().zip(&self.sockets) {
            if part.take().is_some() {
                // A child that has died meanwhile is found by its closed socket.
                drop(socket.write_all(line.as_bytes()));
            }
        }
    }

    /// Ends what is left, and prints what ranks other than 0 had to say of a failure.
    fn finish(mut self, failure: Option<String>) -> Result<ExitCode> {
        let mut code = None;
        for child in &mut self.children {
            if failure.is_some() {
                // It may have ended by itself.
                drop(child.kill());
            }
            code = code.or(child.wait()?.code().filter(|code| *code != 0));
        }
        let said: Vec<String> =
            self.errors.drain(..).map(|thread| thread.join().unwrap_or_default()).collect();
        let Some(failure) = failure else { return Ok(ExitCode::SUCCESS) };
        let mut known = said[0].clone();
        for (rank, text) in said.iter().enumerate().skip(1).filter(|(_, text)| !text.trim().is_empty()) {
            if !known.contains(text.trim()) {
                eprintln!("rank {rank}: {}", text.trim());
                known.push_str(text);
            }
        }
        eprintln!("symmem-bench: {failure}");
        Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Most have ended by themselves.
            drop(child.kill().and_then(|()| child.wait()));
        }
    }
}

fn listen(rank: u32, socket: UnixStream, say: &Sender<Said>) {
    for line in BufReader::new(socket).lines() {
        let Ok(line) = line else { break };
        if say.send(Said::Line(rank, line)).is_err() {
            return;
        }
    }
    // The parent may have given up.
    drop(say.send(Said::End(rank)));
}

/// Reads what a child says on standard error; passes it on where it is `shown`.
fn tee(pipe: Option<impl Read>, shown: bool) -> String {
    let mut text = String::new();
    let Some(pipe) = pipe else { return text };
    for line in BufReader::new(pipe).lines() {
        let Ok(line) = line else { break };
        if shown {
            eprintln!("{line}");
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}
