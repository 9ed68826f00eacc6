//! How the ranks of a communicator tell each other things on the host.

use crate::{Error, ErrorKind, Result};
use bytemuck::Pod;
use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// What to do when a peer dies; it is given the error that names the peer.
pub(crate) type OnLoss = Box<dyn Fn(&Error) + Send>;

/// A meeting of all ranks. Every exchange has a deadline: it ends on all ranks, with a result or an error.
pub(crate) trait Bootstrap: Debug + Send + Sync {
    /// This rank.
    fn rank(&self) -> u32;
    /// All ranks give a message and get everybody's, in rank order. `step` must be the same on all.
    fn all_gather(&self, step: &'static str, message: Vec<u8>) -> Result<Vec<Vec<u8>>>;
    /// As [`Self::all_gather`], with file descriptors for the ranks of other processes. Ranks of this process get none:
    /// what they would import is theirs already.
    fn all_gather_fds(
        &self,
        step: &'static str,
        message: Vec<u8>,
        _fds: &[BorrowedFd<'_>],
    ) -> Result<Vec<(Vec<u8>, Vec<OwnedFd>)>> {
        Ok(self.all_gather(step, message)?.into_iter().map(|message| (message, Vec::new())).collect())
    }
    /// Whether there are ranks in other processes.
    fn spans_processes(&self) -> bool {
        false
    }
    /// From now on, calls this when a peer dies: at once if one has. Ranks of one process die together.
    fn watch(&self, _on_loss: OnLoss) {}
    /// This rank is about to leave: every exchange that it is in, or comes to, ends within `patience`.
    fn hurry(&self, patience: Duration);
    /// This rank will come to no further exchange; whoever waits for it is told at once.
    fn leave(&self);
    /// The same for a rank that broke off in the middle: peers in other processes take it for dead.
    fn break_off(&self) {
        self.leave();
    }
}

/// [`Bootstrap::all_gather`], in a span that says the step and the bytes.
pub(crate) fn gather(
    bootstrap: &dyn Bootstrap,
    step: &'static str,
    message: Vec<u8>,
) -> Result<Vec<Vec<u8>>> {
    let _entered =
        tracing::trace_span!("exchange", rank = bootstrap.rank(), step, bytes = message.len()).entered();
    bootstrap.all_gather(step, message)
}

/// [`gather`] of one structure.
pub(crate) fn exchange<M: Pod>(bootstrap: &dyn Bootstrap, step: &'static str, message: &M) -> Result<Vec<M>> {
    let messages = gather(bootstrap, step, bytemuck::bytes_of(message).to_vec())?;
    Ok(messages.iter().map(|bytes| bytemuck::pod_read_unaligned(bytes)).collect())
}

/// Every rank says how its part went: all go on, or all get the same error, which names the first rank that failed and
/// carries what it met.
pub(crate) fn agree<T>(bootstrap: &dyn Bootstrap, step: &'static str, local: Result<T>) -> Result<T> {
    let errors = outcomes(bootstrap, step, &local)?;
    match (0..).zip(errors).find_map(|(rank, error)| Some((rank, error?))) {
        Some((rank, cause)) => Err(Error::of_rank(rank, cause)),
        None => local,
    }
}

/// Every rank says how its part went; gives each rank's error, if it has one, in rank order.
pub(crate) fn outcomes<T>(
    bootstrap: &dyn Bootstrap,
    step: &'static str,
    local: &Result<T>,
) -> Result<Vec<Option<Error>>> {
    let message = local.as_ref().err().map(Error::to_bytes).unwrap_or_default();
    let unreadable = || ErrorKind::Foreign {
        what: "its error".into(),
        detail: "this version of symmem cannot read it".into(),
    };
    let read = |bytes: Vec<u8>| {
        (!bytes.is_empty()).then(|| Error::from_bytes(&bytes).unwrap_or_else(|| unreadable().into()))
    };
    Ok(gather(bootstrap, step, message)?.into_iter().map(read).collect())
}

/// The value that all ranks gave for `field`, or the error that lists what each gave.
pub(crate) fn equal<T: PartialEq + Clone + std::fmt::Display>(
    field: &'static str,
    values: &[T],
) -> Result<T> {
    if values.iter().all(|value| *value == values[0]) {
        return Ok(values[0].clone());
    }
    let values = values.iter().map(ToString::to_string).collect();
    Err(ErrorKind::Mismatch { field, values }.into())
}
