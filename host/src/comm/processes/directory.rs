//! A meeting in a directory that all ranks see: each puts its card there, by renaming, and its socket.

use super::Identity;
use super::card::{Card, STEP, bad_message, io};
use super::deadline::Deadline;
use super::frame::{Assembler, Refused};
use crate::comm::unique_id::JobId;
use crate::{Error, ErrorKind, Result};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind as IoKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks into the directory.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A private directory of a job, and the names that this rank has in it. They go on drop, and the directory with the
/// last rank's.
#[derive(Debug)]
pub(super) struct JobDirectory {
    path: PathBuf,
    names: Vec<PathBuf>,
}

impl JobDirectory {
    /// Makes the directory, mode 0700, or takes the one that another rank has made.
    pub(super) fn open(path: &Path) -> Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == IoKind::AlreadyExists => check_private(path)?,
            Err(error) => return Err(io(format!("making the directory {}", path.display()), error)),
        }
        Ok(Self { path: path.into(), names: Vec::new() })
    }

    /// A name in it that no other process uses, removed with this.
    pub(super) fn fresh_name(&mut self, rank: u32) -> Result<PathBuf> {
        let random = JobId::random()?.to_string();
        let name = self.path.join(format!("{rank}-{}-{}", std::process::id(), &random[..8]));
        self.names.push(name.clone());
        Ok(name)
    }

    /// Shows this rank's card to all.
    pub(super) fn publish(&mut self, us: Identity, card: &Card) -> Result<()> {
        let draft = self.fresh_name(us.rank)?;
        let target = self.card_path(us.rank);
        fs::write(&draft, card.message(us))
            .map_err(|error| io(format!("writing {}", draft.display()), error))?;
        fs::rename(&draft, &target).map_err(|error| io(format!("making {}", target.display()), error))?;
        self.names.push(target);
        Ok(())
    }

    /// Waits for the cards of all ranks; gives them in rank order.
    pub(super) fn cards(&self, us: Identity, deadline: Deadline) -> Result<Vec<Card>> {
        let mut cards = vec![None; us.n_ranks as usize];
        loop {
            for (rank, card) in cards.iter_mut().enumerate().filter(|(_, card)| card.is_none()) {
                *card = self.card(us, rank as u32)?;
            }
            let missing: Vec<u32> = (0..us.n_ranks).filter(|&rank| cards[rank as usize].is_none()).collect();
            if missing.is_empty() {
                return Ok(cards.into_iter().flatten().collect());
            }
            if deadline.is_over() {
                return Err(deadline.error(format!("the meeting in {}", self.path.display()), missing));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The card of a rank, once it is there. One of another job is an old one: its owner will replace it.
    pub(super) fn card(&self, us: Identity, rank: u32) -> Result<Option<Card>> {
        let path = self.card_path(rank);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
            Err(error) => return Err(io(format!("reading {}", path.display()), error)),
        };
        let mut assembler = Assembler::default();
        assembler.push(&bytes, []);
        match assembler.next(us, Some(rank)) {
            Ok(Some(frame)) => Card::of_frame(&frame).map(Some),
            Ok(None) | Err(Refused::Job) => Ok(None),
            Err(refused) => Err(bad_message(rank, STEP, refused)),
        }
    }

    fn card_path(&self, rank: u32) -> PathBuf {
        self.path.join(format!("rank-{rank}"))
    }
}

impl Drop for JobDirectory {
    fn drop(&mut self) {
        for name in &self.names {
            // A draft has been renamed, and a socket may never have been made.
            drop(fs::remove_file(name));
        }
        // Others may still have names there; the last one succeeds.
        drop(fs::remove_dir(&self.path));
    }
}

/// Refuses a directory that others may look into.
fn check_private(path: &Path) -> Result<()> {
    let refused = |found: String| -> Error {
        let allowed = "a directory of this user alone (mode 0700)".into();
        let what = "directory in which ranks meet";
        ErrorKind::InvalidArgument { what, found: format!("{} {found}", path.display()), allowed }.into()
    };
    let facts =
        fs::symlink_metadata(path).map_err(|error| io(format!("looking at {}", path.display()), error))?;
    let (user, own) = (facts.uid(), rustix::process::geteuid().as_raw());
    if !facts.is_dir() {
        return Err(refused("is no directory".into()));
    }
    if user != own {
        return Err(refused(format!("belongs to user {user}, this process runs as {own}")));
    }
    match facts.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(refused(format!("has mode {:o}", facts.mode() & 0o777))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(rank: u32, n_ranks: u32) -> Identity {
        Identity { job: JobId([1; 16]), rank, n_ranks }
    }

    fn fresh_path() -> PathBuf {
        std::env::temp_dir().join(format!("symmem-test-{}", JobId::random().unwrap()))
    }

    fn soon() -> Deadline {
        Deadline::after(Duration::from_millis(20))
    }

    #[test]
    fn cards_meet_and_nothing_is_left() {
        let path = fresh_path();
        let mut ranks: Vec<_> = (0..3).map(|_| JobDirectory::open(&path).unwrap()).collect();
        for (rank, directory) in ranks.iter_mut().enumerate() {
            let card = Card::new(format!("/socket/{rank}").into()).unwrap();
            directory.publish(us(rank as u32, 3), &card).unwrap();
        }
        let found = ranks[1].cards(us(1, 3), soon()).unwrap();
        assert_eq!(
            found.iter().map(|card| card.socket.clone()).collect::<Vec<_>>()[2],
            Path::new("/socket/2")
        );
        drop(ranks);
        assert!(!path.exists());
    }

    #[test]
    fn who_does_not_come_is_named() {
        let mut directory = JobDirectory::open(&fresh_path()).unwrap();
        directory.publish(us(1, 3), &Card::new("/x".into()).unwrap()).unwrap();
        let error = directory.cards(us(1, 3), soon()).unwrap_err();
        assert!(error.to_string().contains("missing ranks: [0, 2]"), "{error}");
    }

    #[test]
    fn an_old_card_is_none_and_another_count_is_refused() {
        let mut directory = JobDirectory::open(&fresh_path()).unwrap();
        let card = Card::new("/x".into()).unwrap();
        directory.publish(Identity { job: JobId([2; 16]), ..us(0, 2) }, &card).unwrap();
        assert_eq!(directory.card(us(1, 2), 0).unwrap(), None);
        directory.publish(us(0, 2), &card).unwrap();
        let error = directory.card(us(1, 3), 0).unwrap_err();
        assert!(error.to_string().contains("the sender counts 2 ranks, this rank 3"), "{error}");
    }

    #[test]
    fn a_public_directory_is_refused() {
        let path = fresh_path();
        DirBuilder::new().mode(0o755).create(&path).unwrap();
        let error = JobDirectory::open(&path).unwrap_err();
        assert!(error.to_string().contains("mode 755"), "{error}");
        fs::remove_dir(&path).unwrap();
    }
}
