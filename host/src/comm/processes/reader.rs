//! The thread that reads from all peers: it puts messages into inboxes, and notices at once when a peer dies.

use super::Identity;
use super::card::{bad_message, io};
use super::channel::{Arrival, Channel, Failure};
use super::frame::{Assembler, Frame, Kind};
use super::seat::{Inbox, Mesh};
use crate::comm::lock;
use crate::{Error, ErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Exchanges that a peer may be ahead: it may have sent the next one's message before this rank has taken the last.
const AHEAD_MAX: usize = 2;
/// After so long a poll looks again by itself.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How a peer's stream ended.
enum End {
    /// It said goodbye, or what it sent is of no use.
    Known(Error),
    /// It died.
    Lost,
}

/// Reads until this rank leaves or all peers have gone.
pub(super) fn read(mesh: &Mesh, mut assemblers: Vec<Assembler>) {
    let mut open: Vec<u32> = (0..mesh.us.n_ranks).filter(|&rank| rank != mesh.us.rank).collect();
    // What came with a greeting is looked at first.
    let mut ready = open.clone();
    while !open.is_empty() && !lock(&mesh.state).has_left {
        for rank in std::mem::take(&mut ready) {
            let (channel, assembler) = (channel(mesh, rank), &mut assemblers[rank as usize]);
            if let Err(end) = drain(mesh, rank, channel, assembler) {
                open.retain(|one| *one != rank);
                close(mesh, rank, end);
            }
        }
        ready = wait(mesh, &open);
    }
}

fn channel(mesh: &Mesh, rank: u32) -> &Channel {
    mesh.channels[rank as usize].as_ref().expect("every other rank has a channel")
}

/// Peers that have something to read.
fn wait(mesh: &Mesh, open: &[u32]) -> Vec<u32> {
    if open.is_empty() {
        return Vec::new();
    }
    let poll_fd = |&rank: &u32| PollFd::from_borrowed_fd(channel(mesh, rank).fd(), PollFlags::IN);
    let mut fds: Vec<_> = open.iter().map(poll_fd).collect();
    match poll(&mut fds, Some(&LOOK_AGAIN)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => tracing::error!(%error, "polling the sockets of peers"),
    }
    open.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(rank, _)| *rank).collect()
}

/// Takes all that has come from a peer.
fn drain(mesh: &Mesh, rank: u32, channel: &Channel, assembler: &mut Assembler) -> Result<(), End> {
    loop {
        while let Some(frame) = assembler.next(mesh.us, Some(rank)).map_err(|refused| bad(rank, refused))? {
            deliver(mesh, rank, frame)?;
        }
        match channel.take(assembler) {
            Ok(Arrival::Some) => {}
            Ok(Arrival::None) => return Ok(()),
            Ok(Arrival::End) => {
                assembler.end().map_err(|refused| bad(rank, refused))?;
                return Err(End::Lost);
            }
            Err(Failure::Refused(refused)) => return Err(bad(rank, refused)),
            Err(Failure::Os(errno)) => {
                return Err(End::Known(io(format!("reading from rank {rank}"), errno)));
            }
            Err(Failure::Closed | Failure::Late) => return Err(End::Lost),
        }
    }
}

fn bad(rank: u32, reason: impl ToString) -> End {
    End::Known(bad_message(rank, "the exchange", reason))
}

fn deliver(mesh: &Mesh, rank: u32, frame: Frame) -> Result<(), End> {
    match frame.kind {
        Kind::Hello => return Err(bad(rank, "it greets again")),
        Kind::Goodbye => return Err(End::Known(goodbye(mesh.us, rank, &frame.payload))),
        Kind::Gather => {}
    }
    let mut state = lock(&mesh.state);
    take_turn(&mut state.inboxes[rank as usize], rank, frame)?;
    drop(state);
    mesh.changed.notify_all();
    Ok(())
}

/// Takes a message that is the peer's next one.
fn take_turn(inbox: &mut Inbox, rank: u32, frame: Frame) -> Result<(), End> {
    let step = frame.step.clone();
    let refused = |reason: String| Err(End::Known(bad_message(rank, step, reason)));
    if frame.sequence != inbox.next_sequence {
        return refused(format!("it is message {}, number {} is due", frame.sequence, inbox.next_sequence));
    }
    if inbox.frames.len() >= AHEAD_MAX {
        return refused(format!("it is {AHEAD_MAX} exchanges ahead"));
    }
    inbox.next_sequence += 1;
    inbox.frames.push_back(frame);
    Ok(())
}

fn goodbye(us: Identity, rank: u32, payload: &[u8]) -> Error {
    let Some((culprit, reason)) = payload.split_first_chunk::<4>() else {
        return ErrorKind::RankFailed { rank, reason: "it left the communicator".into() }.into();
    };
    let (culprit, reason) = (u32::from_le_bytes(*culprit), String::from_utf8_lossy(reason));
    let reason = if culprit == rank { reason.into_owned() } else { format!("rank {rank} says: {reason}") };
    ErrorKind::RankFailed { rank: culprit.min(us.n_ranks - 1), reason }.into()
}

/// Notes that nothing more will come from a peer. If it died, kernels that wait for it must end.
fn close(mesh: &Mesh, rank: u32, end: End) {
    let (error, is_lost) = match end {
        End::Known(error) => (error, false),
        End::Lost => {
            let reason = "its process ended, or closed its connection without a word".to_owned();
            (ErrorKind::RankFailed { rank, reason }.into(), true)
        }
    };
    let mut state = lock(&mesh.state);
    let is_lost = is_lost && !state.has_left;
    state.inboxes[rank as usize].end = Some(error.clone());
    if is_lost {
        state.lost.get_or_insert(error.clone());
    }
    drop(state);
    mesh.changed.notify_all();
    if is_lost {
        tracing::warn!(rank, "a peer died");
        if let Some(on_loss) = &*lock(&mesh.on_loss) {
            on_loss(&error);
        }
    }
}
