//! Joins the ranks of several processes of one host.
//!
//! | module | what |
//! |---|---|
//! | [`card`], [`directory`], [`tcp`] | how ranks find each other: each shows a card, in a shared directory or to rank 0 |
//! | [`mesh`] | connects every two ranks by a Unix stream socket, then removes all names from the file system |
//! | [`frame`] | what a message looks like, and what is refused |
//! | [`channel`] | a socket that carries frames and file descriptors, each call with a deadline |
//! | [`seat`], [`reader`] | one rank at the meeting, and the thread that reads from all peers and notices those that died |
//!
//! Every two ranks have a socket of their own, rather than all to rank 0: whoever dies is noticed by each survivor
//! itself, rank 0 too; a descriptor goes straight to who needs it; and no rank's code differs from another's. The price,
//! `n_ranks − 1` descriptors a rank, is small on one host.

mod card;
mod channel;
mod deadline;
mod directory;
mod frame;
mod mesh;
mod reader;
mod seat;
#[cfg(all(test, feature = "sim"))]
mod steps;
mod tcp;
#[cfg(test)]
mod tests;

pub(crate) use mesh::join;

use crate::comm::unique_id::JobId;

/// Who sends: equal in all messages of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) job: JobId,
    pub(crate) rank: u32,
    pub(crate) n_ranks: u32,
}
