//! One rank at a meeting of processes.

use super::Identity;
use super::card::{bad_message, io};
use super::channel::{Channel, Failure};
use super::deadline::Deadline;
use super::frame::{FDS_MAX, Frame, Kind, encode};
use super::mesh::Channels;
use super::reader;
use crate::comm::bootstrap::{Bootstrap, OnLoss, equal};
use crate::comm::lock;
use crate::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a last word may take to go out.
const GOODBYE_PATIENCE: Duration = Duration::from_millis(200);

/// A rank's place in the mesh, with the thread that reads from its peers. An exchange that fails is the last one: the
/// others are told, and every later exchange answers the same.
#[derive(Debug)]
pub(crate) struct ProcessSeat {
    mesh: Arc<Mesh>,
    reader: Option<JoinHandle<()>>,
}

/// What the seat shares with its reader.
pub(super) struct Mesh {
    pub(super) us: Identity,
    /// By rank; none for this one.
    pub(super) channels: Vec<Option<Channel>>,
    pub(super) state: Mutex<State>,
    /// Signalled when a message came or a peer has gone.
    pub(super) changed: Condvar,
    /// What to do when a peer dies.
    pub(super) on_loss: Mutex<Option<OnLoss>>,
    /// Number of the next exchange; held during one.
    turn: Mutex<u64>,
    timeout: Duration,
}

/// What has come so far.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By rank.
    pub(super) inboxes: Vec<Inbox>,
    /// The first peer that died.
    pub(super) lost: Option<Error>,
    /// Why there are no more exchanges.
    failed: Option<Error>,
    /// Exchanges end by then.
    hurry: Option<Instant>,
    pub(super) has_left: bool,
}

/// What came from one peer.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) frames: VecDeque<Frame>,
    /// Number of the exchange that its next message must have.
    pub(super) next_sequence: u64,
    /// Why nothing more will come.
    pub(super) end: Option<Error>,
}

impl ProcessSeat {
    /// Starts to read from all peers.
    pub(super) fn new(us: Identity, channels: Channels, timeout: Duration) -> Result<Self> {
        let (mut sockets, mut assemblers) = (Vec::new(), Vec::new());
        for channel in channels {
            let (socket, assembler) = channel.unzip();
            sockets.push(socket);
            assemblers.push(assembler.unwrap_or_default());
        }
        let inboxes = (0..us.n_ranks).map(|_| Inbox::default()).collect();
        let mesh = Arc::new(Mesh {
            us,
            channels: sockets,
            state: Mutex::new(State { inboxes, ..State::default() }),
            changed: Condvar::new(),
            on_loss: Mutex::new(None),
            turn: Mutex::new(0),
            timeout,
        });
        let its_mesh = mesh.clone();
        let name = format!("symmem peers {}", us.rank);
        let spawned =
            std::thread::Builder::new().name(name).spawn(move || reader::read(&its_mesh, assemblers));
        let reader = spawned.map_err(|error| io("starting a thread that reads from peers", error))?;
        Ok(Self { mesh, reader: Some(reader) })
    }
}

impl Mesh {
    fn peers(&self) -> impl Iterator<Item = (u32, &Channel)> {
        (0..).zip(&self.channels).filter_map(|(rank, channel)| Some((rank, channel.as_ref()?)))
    }

    /// One exchange: sends this rank's part to all, and waits for everybody's.
    fn exchange(&self, step: &str, message: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<Option<Frame>>> {
        let mut turn = lock(&self.turn);
        let deadline = self.usable(step)?;
        let bytes = encode(self.us, Kind::Gather, *turn, step, message, fds.len());
        *turn += 1;
        for (rank, channel) in self.peers() {
            match channel.send(&bytes, fds, deadline) {
                // Why it has gone is found in its inbox.
                Ok(()) | Err(Failure::Closed) => {}
                Err(Failure::Late) => return Err(deadline.error(step, vec![rank])),
                Err(Failure::Os(errno)) => return Err(io(format!("{step}: sending to rank {rank}"), errno)),
                Err(Failure::Refused(refused)) => return Err(bad_message(rank, step, refused)),
            }
        }
        self.collect(step, deadline)
    }

    /// The deadline of an exchange that begins now.
    fn usable(&self, step: &str) -> Result<Deadline> {
        let state = lock(&self.state);
        match &state.failed {
            Some(error) => Err(error.clone().context(format!("{step}, after an exchange that failed"))),
            None => Ok(Deadline::after(self.timeout)),
        }
    }

    fn collect(&self, step: &str, deadline: Deadline) -> Result<Vec<Option<Frame>>> {
        let mut state = lock(&self.state);
        loop {
            let waited_for =
                |rank: &u32| *rank != self.us.rank && state.inboxes[*rank as usize].frames.is_empty();
            let missing: Vec<u32> = (0..self.us.n_ranks).filter(waited_for).collect();
            if state.has_left {
                let reason = "it left the communicator".to_owned();
                return Err(ErrorKind::RankFailed { rank: self.us.rank, reason }.into());
            }
            if missing.is_empty() {
                return Ok(state.inboxes.iter_mut().map(|inbox| inbox.frames.pop_front()).collect());
            }
            if let Some(end) = missing.iter().find_map(|&rank| state.inboxes[rank as usize].end.clone()) {
                return Err(end.context(step));
            }
            let deadline = deadline.no_later_than(state.hurry);
            if deadline.is_over() {
                return Err(deadline.error(step, missing));
            }
            let waited = self.changed.wait_timeout(state, deadline.left());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends all exchanges, here and, with the reason, at the others.
    fn fail(&self, error: &Error) {
        let mut state = lock(&self.state);
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(error.clone());
        let is_last_word = state.hurry.is_none() && !state.has_left;
        drop(state);
        if is_last_word {
            let culprit = culprit(error.kind()).unwrap_or(self.us.rank);
            let reason = [&culprit.to_le_bytes()[..], error.to_string().as_bytes()].concat();
            self.say_goodbye(&reason);
        }
    }

    fn say_goodbye(&self, reason: &[u8]) {
        let bytes = encode(self.us, Kind::Goodbye, 0, "goodbye", reason, 0);
        let deadline = Deadline::after(GOODBYE_PATIENCE);
        for (rank, channel) in self.peers() {
            if let Err(failure) = channel.send(&bytes, &[], deadline) {
                tracing::debug!(rank, ?failure, "no goodbye");
            }
        }
    }
}

/// The rank that an error is about.
fn culprit(kind: &ErrorKind) -> Option<u32> {
    match kind {
        ErrorKind::RankFailed { rank, .. } | ErrorKind::BadMessage { rank, .. } => Some(*rank),
        ErrorKind::Deadline { missing, .. } => missing.first().copied(),
        _ => None,
    }
}

impl Bootstrap for ProcessSeat {
    fn rank(&self) -> u32 {
        self.mesh.us.rank
    }

    fn all_gather(&self, step: &'static str, message: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        Ok(self.all_gather_fds(step, message, &[])?.into_iter().map(|(message, _)| message).collect())
    }

    fn all_gather_fds(
        &self,
        step: &'static str,
        message: Vec<u8>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Vec<(Vec<u8>, Vec<OwnedFd>)>> {
        if fds.len() > FDS_MAX {
            let (found, allowed) = (fds.len().to_string(), format!("at most {FDS_MAX}"));
            let what = "number of file descriptors in one exchange";
            return Err(ErrorKind::InvalidArgument { what, found, allowed }.into());
        }
        let frames = self.mesh.exchange(step, &message, fds).inspect_err(|error| self.mesh.fail(error))?;
        let steps: Vec<&str> =
            frames.iter().map(|frame| frame.as_ref().map_or(step, |frame| frame.step.as_str())).collect();
        equal("the step of the exchange", &steps)?;
        let part = |frame: Option<Frame>| {
            frame.map_or_else(|| (message.clone(), Vec::new()), |frame| (frame.payload, frame.fds))
        };
        Ok(frames.into_iter().map(part).collect())
    }

    fn spans_processes(&self) -> bool {
        true
    }

    fn watch(&self, on_loss: OnLoss) {
        let mut watch = lock(&self.mesh.on_loss);
        // A peer may have died before anybody asked.
        if let Some(error) = &lock(&self.mesh.state).lost {
            on_loss(error);
        }
        *watch = Some(on_loss);
    }

    fn hurry(&self, patience: Duration) {
        lock(&self.mesh.state).hurry.get_or_insert(Instant::now() + patience);
        self.mesh.changed.notify_all();
    }

    fn leave(&self) {
        let mut state = lock(&self.mesh.state);
        if std::mem::replace(&mut state.has_left, true) {
            return;
        }
        drop(state);
        // From here on nobody is told of a loss.
        *lock(&self.mesh.on_loss) = None;
        self.mesh.changed.notify_all();
        self.mesh.say_goodbye(&[]);
        self.mesh.peers().for_each(|(_, channel)| channel.shut());
    }
}

impl Drop for ProcessSeat {
    fn drop(&mut self) {
        self.leave();
        if self.reader.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a thread that reads from peers panicked");
        }
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mesh({:?})", self.us)
    }
}
