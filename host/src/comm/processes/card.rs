//! What a rank tells the others before they are connected: its host, and where its socket is.

use super::Identity;
use super::frame::{Frame, Kind, encode};
use crate::{Error, ErrorKind, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The step that errors name.
pub(super) const STEP: &str = "rendezvous";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// One rank's card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    /// Names the running kernel: equal for all processes of one host, its containers included.
    pub(super) boot_id: String,
    /// For people.
    pub(super) host: String,
    /// Where the rank listens.
    pub(super) socket: PathBuf,
}

impl Card {
    /// The card of a rank of this process.
    pub(super) fn new(socket: PathBuf) -> Result<Self> {
        let boot_id =
            std::fs::read_to_string(BOOT_ID).map_err(|error| io(format!("reading {BOOT_ID}"), error))?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Self { boot_id: boot_id.trim().into(), host, socket })
    }

    /// Its bytes, without the header of a message.
    pub(super) fn payload(&self) -> Vec<u8> {
        let head = format!("{}\n{}\n", self.boot_id, self.host);
        [head.as_bytes(), self.socket.as_os_str().as_bytes()].concat()
    }

    /// Reads [`Self::payload`].
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let mut parts = payload.splitn(3, |byte| *byte == b'\n');
        let mut text = || String::from_utf8(parts.next()?.to_vec()).ok();
        let (boot_id, host) = (text()?, text()?);
        Some(Self { boot_id, host, socket: OsStr::from_bytes(parts.next()?).into() })
    }

    /// As a message.
    pub(super) fn message(&self, us: Identity) -> Vec<u8> {
        encode(us, Kind::Hello, 0, STEP, &self.payload(), 0)
    }

    /// From a message.
    pub(super) fn of_frame(frame: &Frame) -> Result<Self> {
        Self::read(&frame.payload).ok_or_else(|| bad_message(frame.rank, STEP, "it is no card"))
    }
}

/// Refuses ranks on several hosts: nothing of this works across them.
pub(super) fn check_hosts(cards: &[Card]) -> Result<()> {
    let first = &cards[0];
    match cards.iter().position(|card| card.boot_id != first.boot_id) {
        None => Ok(()),
        Some(rank) => {
            let hint = format!(
                "rank 0 is on host {}, rank {rank} on host {}; start all ranks of a communicator on one host",
                first.host, cards[rank].host
            );
            Err(ErrorKind::Unsupported { what: "a communicator over several hosts".into(), hint }.into())
        }
    }
}

pub(super) fn bad_message(rank: u32, step: impl Into<String>, reason: impl ToString) -> Error {
    ErrorKind::BadMessage { rank, step: step.into(), reason: reason.to_string() }.into()
}

pub(super) fn io(what: impl Into<String>, reason: impl ToString) -> Error {
    ErrorKind::Io { what: what.into(), reason: reason.to_string() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card(boot_id: &str, host: &str) -> Card {
        Card { boot_id: boot_id.into(), host: host.into(), socket: "/tmp/a\nb".into() }
    }

    #[test]
    fn a_card_is_read_as_it_was_written() {
        let mine = Card::new("/run/x".into()).unwrap();
        assert_eq!(Card::read(&mine.payload()), Some(mine));
        assert_eq!(Card::read(&card("a", "b").payload()), Some(card("a", "b")));
        assert_eq!(Card::read(b"only\ntwo"), None);
    }

    #[test]
    fn hosts_are_named() {
        let error = check_hosts(&[card("1", "alpha"), card("1", "pod"), card("2", "beta")]).unwrap_err();
        assert!(error.to_string().contains("rank 0 is on host alpha, rank 2 on host beta"), "{error}");
        assert!(check_hosts(&[card("1", "alpha"), card("1", "pod")]).is_ok());
    }

    proptest! {
        #[test]
        fn noise_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            drop(Card::read(&bytes));
        }
    }
}
