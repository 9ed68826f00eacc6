//! Launch descriptions: what a kernel of your own needs to run, as JSON.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use symmem_builder::Builder;
use symmem_tests::random::Random;

/// A launch description; docs/checking.md explains each field.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// A device crate, relative to the description.
    #[serde(rename = "crate")]
    krate: Option<PathBuf>,
    /// A PTX file, relative to the description.
    ptx: Option<PathBuf>,
    pub(crate) kernel: String,
    pub(crate) ranks: Vec<u32>,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    #[serde(default)]
    pub(crate) shared_bytes: u32,
    /// Launches in a row on every rank.
    #[serde(default = "one")]
    pub(crate) launches: u32,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) arguments: Vec<Argument>,
}

fn one() -> u32 {
    1
}

/// Symmetric memory: every rank has such a buffer, at the same offset.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    pub(crate) content: Content,
    /// What it must hold in the end.
    pub(crate) expect: Option<Content>,
}

/// What 32-bit words hold.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Content {
    Zero,
    /// Each its own index.
    Index,
    /// The rank.
    Rank,
    /// Other words on every rank and in every buffer.
    Random,
    /// The rank so many after this one, around the circle.
    RankPlus(i32),
    /// These, again and again.
    U32(Vec<u32>),
}

/// A parameter of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Argument {
    /// `DevComm`.
    Comm,
    /// 64 bits: where a buffer lies in every rank's part of the symmetric space.
    Offset(String),
    /// 64 bits: the address of the rank's own buffer.
    Address(String),
    /// 32 bits: 1 in the first launch, 2 in the second, …
    Launch,
    U32(u32),
    U64(u64),
}

impl Description {
    /// Reads a description.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let read: Self = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
        read.check().with_context(|| format!("{}", path.display()))?;
        Ok(read)
    }

    fn check(&self) -> Result<()> {
        let is_some = |what: &str, n: u64, max: u64| {
            ensure!((1..=max).contains(&n), "{what} is {n}, allowed: 1 to {max}");
            Ok(())
        };
        ensure!(self.krate.is_some() != self.ptx.is_some(), "name either `crate` or `ptx`");
        ensure!(!self.ranks.is_empty(), "`ranks` is empty");
        self.ranks.iter().try_for_each(|&n| is_some("a number of ranks", n.into(), 64))?;
        is_some("blocks", self.blocks.into(), 1 << 16)?;
        is_some("threads", self.threads.into(), 1024)?;
        is_some("launches", self.launches.into(), 1024)?;
        for buffer in &self.buffers {
            is_some(&format!("bytes of {}", buffer.name), buffer.bytes as u64, 64 << 20)?;
            ensure!(buffer.content != Content::U32(Vec::new()), "{}: no words", buffer.name);
            ensure!(buffer.expect != Some(Content::U32(Vec::new())), "{}: no words expected", buffer.name);
            let forms = "what is random cannot be expected";
            ensure!(buffer.expect != Some(Content::Random), "{}: {forms}", buffer.name);
        }
        for argument in &self.arguments {
            if let Argument::Offset(name) | Argument::Address(name) = argument {
                let is_known = self.buffers.iter().any(|buffer| buffer.name == *name);
                ensure!(is_known, "no buffer is named `{name}`");
            }
        }
        Ok(())
    }

    /// The kernel's PTX, compiled if need be. `path` is that of the description.
    pub(crate) fn text(&self, path: &Path, sm: u32) -> Result<String> {
        let folder = path.parent().unwrap_or(Path::new(""));
        if let Some(ptx) = &self.ptx {
            let ptx = folder.join(ptx);
            return std::fs::read_to_string(&ptx).with_context(|| format!("cannot read {}", ptx.display()));
        }
        let krate = folder.join(self.krate.as_deref().unwrap_or(Path::new(".")));
        // Without a parent the folder is the empty path, which is no folder's name.
        let krate = if krate.as_os_str().is_empty() { PathBuf::from(".") } else { krate };
        let artifacts = Builder::new(krate).sm(sm).build()?;
        Ok(artifacts.modules.into_iter().next().context("one module was asked for")?.text)
    }
}

impl Content {
    /// The bytes on one rank; `salt` tells buffers apart.
    pub(crate) fn bytes(&self, len: usize, rank: u32, n_ranks: u32, salt: u64) -> Vec<u8> {
        let mut random = Random::new(salt << 32 | u64::from(rank));
        let word = |index: usize| match self {
            Self::Zero => 0,
            Self::Index => index as u32,
            Self::Rank => rank,
            Self::Random => random.bits() as u32,
            Self::RankPlus(distance) => {
                (i64::from(rank) + i64::from(*distance)).rem_euclid(n_ranks.into()) as u32
            }
            Self::U32(words) => words[index % words.len()],
        };
        let mut bytes: Vec<u8> = (0..len.div_ceil(4)).map(word).flat_map(u32::to_le_bytes).collect();
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: impl Fn(&mut serde_json::Value)) -> Result<()> {
        let mut value = serde_json::json!({
            "ptx": "a.ptx", "kernel": "k", "ranks": [2], "blocks": 1, "threads": 32,
            "buffers": [{"name": "a", "bytes": 6, "content": {"u32": [1, 2]}, "expect": {"rank_plus": -1}}],
            "arguments": ["comm", {"offset": "a"}, {"u32": 7}, "launch"],
        });
        change(&mut value);
        serde_json::from_value::<Description>(value)?.check()
    }

    #[test]
    fn descriptions_are_checked() {
        read(|_| {}).expect("whole");
        assert!(read(|value| value["crate"] = "b".into()).is_err());
        assert!(read(|value| value["ranks"] = serde_json::json!([0])).is_err());
        assert!(read(|value| value["arguments"][1]["offset"] = "b".into()).is_err());
        assert!(read(|value| value["buffers"][0]["expect"] = "random".into()).is_err());
        assert!(read(|value| value["blocks"] = 0.into()).is_err());
        assert!(read(|value| value["colour"] = 0.into()).is_err());
    }

    #[test]
    fn contents() {
        let check = |content: Content, expect: &[u8]| assert_eq!(content.bytes(6, 0, 3, 1), expect);
        check(Content::U32(vec![1, 2]), &[1, 0, 0, 0, 2, 0]);
        check(Content::RankPlus(-1), &[2, 0, 0, 0, 2, 0]);
        check(Content::Index, &[0, 0, 0, 0, 1, 0]);
        assert_ne!(Content::Random.bytes(6, 0, 3, 1), Content::Random.bytes(6, 1, 3, 1));
    }
}
