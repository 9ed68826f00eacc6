//! The lock around stage one, and files that appear whole or not at all.

use crate::error::{BuildError, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Holds `<dir>/symmem-builder.lock`; dropped, it lets the next builder in, unless a child still has a share in it.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Waits for at most `limit` until no other process or thread holds the lock of `dir`, which is made if absent.
    ///
    /// # Errors
    ///
    /// The folder or the file cannot be made, or another builder still holds the lock after `limit`.
    pub fn take(dir: &Path, limit: Duration) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|error| BuildError::io("make folder", dir, error))?;
        let path = dir.join("symmem-builder.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| BuildError::io("open", &path, error))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file, path }),
                Err(TryLockError::Error(error)) => return Err(BuildError::io("lock", &path, error)),
                Err(TryLockError::WouldBlock) if started.elapsed() > limit => {
                    return Err(BuildError::message(format!(
                        "another build has held {} for {} s; end it and try again",
                        path.display(),
                        limit.as_secs()
                    )));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// A share in the lock, as the standard input of a child: what is locked is the open file, whoever has it open. So a
    /// child that outlives its builder keeps the next one waiting.
    ///
    /// # Errors
    ///
    /// The process has too many files open.
    pub fn share(&self) -> Result<Stdio> {
        let share = self.file.try_clone();
        Ok(share.map_err(|error| BuildError::io("share", &self.path, error))?.into())
    }
}

/// Writes `content` to `path` so that a reader sees the old file or the new one, never a part. A file that already has
/// this content keeps its time stamp.
///
/// # Errors
///
/// The folder, the temporary file or the rename fails.
pub fn publish(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let content = content.as_ref();
    if std::fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| BuildError::io("make folder", folder, error))?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    std::fs::write(&temporary, content)
        .map_err(|error| BuildError::io("write", Path::new(&temporary), error))?;
    std::fs::rename(&temporary, path).map_err(|error| BuildError::io("rename a new file to", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn a_second_builder_waits_and_gives_up_by_name() {
        let scratch = Scratch::new("lock");
        let held = Lock::take(scratch.path(), Duration::ZERO).unwrap();
        let error = Lock::take(scratch.path(), Duration::from_millis(30)).unwrap_err().to_string();
        assert!(error.contains("symmem-builder.lock for 0 s"), "{error}");
        drop(held);
        Lock::take(scratch.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn published_files_are_whole_and_keep_their_time() {
        let scratch = Scratch::new("publish");
        let path = scratch.path().join("deep/module.ptx");
        publish(&path, "one").unwrap();
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        publish(&path, "one").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), before);
        publish(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        let names: Vec<_> =
            std::fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["module.ptx"], "no temporary file stays");
    }
}
