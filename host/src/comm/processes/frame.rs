//! What a message looks like: a fixed header, then the payload. Everything in it is checked before it is used.

use super::Identity;
use crate::digest::digest;
use bytemuck::{Pod, Zeroable};
use std::collections::VecDeque;
use std::fmt;
use std::mem::offset_of;
use std::os::fd::OwnedFd;

const MAGIC: u64 = u64::from_le_bytes(*b"symmem\x00\x01");
const STEP_BYTES: usize = 48;
/// Longest payload. A registration sends a few words a window.
const PAYLOAD_BYTES_MAX: u64 = 16 << 20;
/// Most file descriptors with one message.
pub(super) const FDS_MAX: usize = 16;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Says who connects.
    Hello = 1,
    /// A rank's part in an exchange.
    Gather = 2,
    /// The rank will send nothing more; the payload says why, if that is no plain leave.
    Goodbye = 3,
}

/// A message on its way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Header {
    magic: u64,
    job: [u8; 16],
    /// Number of the exchange.
    sequence: u64,
    step: [u8; STEP_BYTES],
    rank: u32,
    n_ranks: u32,
    kind: u32,
    n_fds: u32,
    len_bytes: u64,
    payload_digest: u64,
    /// Of all bytes before it. Last.
    digest: u64,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(offset_of!(Header, digest) + 8 == HEADER_BYTES);

/// A message that arrived whole.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) sequence: u64,
    pub(super) step: String,
    pub(super) rank: u32,
    pub(super) payload: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// Why bytes are no message of this job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Not a message of this program.
    Magic,
    /// The bytes changed on the way.
    Digest,
    /// Of another communicator.
    Job,
    /// The sender counts other ranks.
    Size { theirs: u32, ours: u32 },
    /// A rank that does not exist, or not the one this socket belongs to.
    Rank { found: u32, expected: Option<u32> },
    /// No kind of message.
    Kind(u32),
    /// Longer than any message.
    Length(u64),
    /// Descriptors are missing, or there are too many.
    Descriptors { found: usize, expected: u32 },
    /// The stream ended inside a message.
    Truncated { found: usize },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(f, "it is no message of this version of symmem"),
            Self::Digest => write!(f, "its bytes were changed on the way"),
            Self::Job => write!(f, "it belongs to another communicator"),
            Self::Size { theirs, ours } => write!(f, "the sender counts {theirs} ranks, this rank {ours}"),
            Self::Rank { found, expected: Some(expected) } => {
                write!(f, "it says that rank {found} sent it, not rank {expected}")
            }
            Self::Rank { found, expected: None } => write!(f, "there is no rank {found}"),
            Self::Kind(kind) => write!(f, "its kind {kind} is unknown"),
            Self::Length(len) => write!(f, "it has {len} bytes, at most {PAYLOAD_BYTES_MAX} are allowed"),
            Self::Descriptors { found, expected } => write!(
                f,
                "{found} file descriptors came with it, not {expected}; see the limit on open files (ulimit -n)"
            ),
            Self::Truncated { found } => write!(f, "it ended after {found} bytes"),
        }
    }
}

/// The bytes of a message.
pub(super) fn encode(
    from: Identity,
    kind: Kind,
    sequence: u64,
    step: &str,
    payload: &[u8],
    n_fds: usize,
) -> Vec<u8> {
    let mut name = [0; STEP_BYTES];
    debug_assert!(step.len() <= STEP_BYTES, "the name of the step {step:?} is too long");
    let len = step.len().min(STEP_BYTES);
    name[..len].copy_from_slice(&step.as_bytes()[..len]);
    let mut header = Header {
        magic: MAGIC,
        job: from.job.0,
        sequence,
        step: name,
        rank: from.rank,
        n_ranks: from.n_ranks,
        kind: kind as u32,
        n_fds: n_fds as u32,
        len_bytes: payload.len() as u64,
        payload_digest: digest(payload),
        digest: 0,
    };
    header.digest = header.own_digest();
    [bytemuck::bytes_of(&header), payload].concat()
}

impl Header {
    fn own_digest(&self) -> u64 {
        digest(&bytemuck::bytes_of(self)[..offset_of!(Header, digest)])
    }

    /// Checks everything but the payload. `peer` is the rank that the socket belongs to, where that is known.
    fn check(&self, us: Identity, peer: Option<u32>) -> Result<Kind, Refused> {
        if self.magic != MAGIC {
            return Err(Refused::Magic);
        }
        if self.digest != self.own_digest() {
            return Err(Refused::Digest);
        }
        if self.job != us.job.0 {
            return Err(Refused::Job);
        }
        if self.n_ranks != us.n_ranks {
            return Err(Refused::Size { theirs: self.n_ranks, ours: us.n_ranks });
        }
        if self.rank >= us.n_ranks || peer.is_some_and(|peer| peer != self.rank) {
            return Err(Refused::Rank { found: self.rank, expected: peer });
        }
        if self.len_bytes > PAYLOAD_BYTES_MAX {
            return Err(Refused::Length(self.len_bytes));
        }
        if self.n_fds as usize > FDS_MAX {
            return Err(Refused::Descriptors { found: 0, expected: self.n_fds });
        }
        let kinds = [Kind::Hello, Kind::Gather, Kind::Goodbye];
        kinds.into_iter().find(|kind| *kind as u32 == self.kind).ok_or(Refused::Kind(self.kind))
    }

    fn step(&self) -> String {
        let len = self.step.iter().position(|byte| *byte == 0).unwrap_or(STEP_BYTES);
        String::from_utf8_lossy(&self.step[..len]).into_owned()
    }
}

/// Puts messages together from what arrives.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    bytes: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

impl Assembler {
    /// Takes what arrived. A message's descriptors come with its first byte, so before its last.
    pub(super) fn push(&mut self, bytes: &[u8], fds: impl IntoIterator<Item = OwnedFd>) {
        self.bytes.extend_from_slice(bytes);
        self.fds.extend(fds);
    }

    /// The next whole message, if there is one.
    pub(super) fn next(&mut self, us: Identity, peer: Option<u32>) -> Result<Option<Frame>, Refused> {
        let Some(head) = self.bytes.get(..HEADER_BYTES) else { return Ok(None) };
        let header: Header = bytemuck::pod_read_unaligned(head);
        let kind = header.check(us, peer)?;
        let end = HEADER_BYTES + header.len_bytes as usize;
        let Some(payload) = self.bytes.get(HEADER_BYTES..end) else { return Ok(None) };
        if digest(payload) != header.payload_digest {
            return Err(Refused::Digest);
        }
        let n_fds = header.n_fds as usize;
        if self.fds.len() < n_fds {
            return Err(Refused::Descriptors { found: self.fds.len(), expected: header.n_fds });
        }
        let frame = Frame {
            kind,
            sequence: header.sequence,
            step: header.step(),
            rank: header.rank,
            payload: payload.to_vec(),
            fds: self.fds.drain(..n_fds).collect(),
        };
        self.bytes.drain(..end);
        Ok(Some(frame))
    }

    /// What to say of the end of the stream: nothing where a message ended too.
    pub(super) fn end(&self) -> Result<(), Refused> {
        match self.bytes.len() {
            0 => Ok(()),
            found => Err(Refused::Truncated { found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::unique_id::JobId;
    use proptest::prelude::*;

    const US: Identity = Identity { job: JobId([7; 16]), rank: 0, n_ranks: 3 };
    const PEER: Identity = Identity { rank: 2, ..US };

    fn message(payload: &[u8]) -> Vec<u8> {
        encode(PEER, Kind::Gather, 5, "register: offers", payload, 0)
    }

    fn read(bytes: &[u8]) -> Result<Option<Frame>, Refused> {
        let mut assembler = Assembler::default();
        assembler.push(bytes, []);
        assembler.next(US, Some(2))
    }

    proptest! {
        /// However the bytes are cut up, the messages come out as they went in.
        #[test]
        fn messages_survive_any_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..5),
            cut in 1usize..300,
        ) {
            let bytes: Vec<u8> = payloads.iter().flat_map(|payload| message(payload)).collect();
            let (mut assembler, mut found) = (Assembler::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                assembler.push(piece, []);
                while let Some(frame) = assembler.next(US, Some(2)).expect("all is well") {
                    prop_assert_eq!((frame.kind, frame.sequence, frame.rank), (Kind::Gather, 5, 2));
                    prop_assert_eq!(frame.step, "register: offers");
                    found.push(frame.payload);
                }
            }
            prop_assert_eq!(found, payloads);
            prop_assert_eq!(assembler.end(), Ok(()));
        }

        /// A message with any bit changed is refused, and one that is cut short is never taken for whole.
        #[test]
        fn any_flip_is_refused_and_any_cut_is_seen(
            payload in prop::collection::vec(any::<u8>(), 0..100),
            place in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let whole = message(&payload);
            let place = place.index(whole.len());
            let mut flipped = whole.clone();
            flipped[place] ^= 1 << bit;
            prop_assert!(read(&flipped).is_err());
            let mut assembler = Assembler::default();
            assembler.push(&whole[..place], []);
            prop_assert!(assembler.next(US, Some(2)).expect("so far it is well").is_none());
            prop_assert_eq!(assembler.end().is_err(), place > 0);
        }

        /// Bytes of any kind are refused or waited for.
        #[test]
        fn noise_is_never_a_message(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(!matches!(read(&bytes), Ok(Some(_))));
        }
    }

    #[test]
    fn what_is_not_ours_is_refused_by_name() {
        let of = |from: Identity, kind: u32, n_fds: usize, len_bytes: Option<u64>| {
            let mut header: Header =
                bytemuck::pod_read_unaligned(&encode(from, Kind::Hello, 0, "", &[], n_fds));
            header.kind = kind;
            header.len_bytes = len_bytes.unwrap_or(0);
            header.digest = header.own_digest();
            read(bytemuck::bytes_of(&header)).expect_err("it is not ours")
        };
        let other = JobId([8; 16]);
        assert_eq!(of(Identity { job: other, ..PEER }, 1, 0, None), Refused::Job);
        assert_eq!(of(Identity { n_ranks: 4, ..PEER }, 1, 0, None), Refused::Size { theirs: 4, ours: 3 });
        let elsewhere = Refused::Rank { found: 1, expected: Some(2) };
        assert_eq!(of(Identity { rank: 1, ..PEER }, 1, 0, None), elsewhere);
        assert_eq!(of(PEER, 9, 0, None), Refused::Kind(9));
        assert_eq!(of(PEER, 1, 1, None), Refused::Descriptors { found: 0, expected: 1 });
        assert_eq!(of(PEER, 1, 99, None), Refused::Descriptors { found: 0, expected: 99 });
        assert_eq!(of(PEER, 1, 0, Some(u64::MAX)), Refused::Length(u64::MAX));
    }
}
