//! How the processes of a bench meet: each tells its part to the parent and gets everybody's, or why one has failed.
//!
//! The parent gives each child a socket as its standard input; a message is a line of JSON.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use symmem::UniqueId;

/// Variables by which the parent tells a child its place.
pub(crate) const RANK: &str = "SYMMEM_BENCH_RANK";
pub(crate) const ID: &str = "SYMMEM_BENCH_ID";
pub(crate) const PARENT: &str = "SYMMEM_BENCH_PARENT";

/// What the parent answers.
#[derive(Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Every rank's part, in rank order.
    All(Vec<Value>),
    /// Somebody failed; this run ends.
    Failed(String),
}

/// A child's place among its siblings.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) rank: u32,
    pub(crate) id: UniqueId,
    reader: BufReader<UnixStream>,
}

impl Link {
    /// This process's link, if a parent made it.
    ///
    /// # Errors
    ///
    /// If what the parent left cannot be read.
    pub(crate) fn find() -> Result<Option<Self>> {
        let Ok(rank) = std::env::var(RANK) else { return Ok(None) };
        let set =
            |name: &str| std::env::var(name).with_context(|| format!("{name} is not set beside {RANK}"));
        let rank = rank.parse().with_context(|| format!("{RANK} is {rank}"))?;
        end_with_parent(&set(PARENT)?)?;
        let socket = std::io::stdin().as_fd().try_clone_to_owned().context("taking the parent's socket")?;
        Ok(Some(Self { rank, id: set(ID)?.parse()?, reader: BufReader::new(socket.into()) }))
    }

    /// Everybody's part, in rank order.
    ///
    /// # Errors
    ///
    /// If a sibling failed, or the parent is gone.
    pub(crate) fn gather<T: Serialize + DeserializeOwned>(&mut self, mine: &T) -> Result<Vec<T>> {
        let mut line = serde_json::to_string(mine)?;
        line.push('\n');
        self.reader.get_mut().write_all(line.as_bytes()).context("telling the parent")?;
        let mut answer = String::new();
        if self.reader.read_line(&mut answer).context("hearing from the parent")? == 0 {
            bail!("the parent is gone");
        }
        match serde_json::from_str(&answer)? {
            Answer::Failed(reason) => bail!("{reason}"),
            Answer::All(parts) => parts.into_iter().map(|part| Ok(serde_json::from_value(part)?)).collect(),
        }
    }
}

/// The kernel kills this process when its parent dies.
fn end_with_parent(parent: &str) -> Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).context("asking to end with the parent")?;
    // It may have died before that call.
    let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    if now.as_deref() != Some(parent) {
        bail!("the parent is gone");
    }
    Ok(())
}
