//! How the memory of ranks of other processes gets into the space: each exports its allocation as a file descriptor and
//! imports everybody else's (`cuMemExportToShareableHandle`, `cuMemImportFromShareableHandle`).

use crate::backend::Access;
use crate::comm::bootstrap::{Bootstrap, agree};
use crate::symmetric::{Backing, FlatOffset, SymmetricSpace};
use crate::vmm::{Mapping, PhysicalAllocation};
use crate::{ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// One rank's answer: the length of its allocation, or why there is none.
struct Answer {
    len_bytes: u64,
    reason: String,
}

impl Answer {
    fn encode(&self) -> Vec<u8> {
        [&self.len_bytes.to_le_bytes()[..], self.reason.as_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (len, reason) = bytes.split_first_chunk::<8>()?;
        let reason = String::from_utf8_lossy(reason).into_owned();
        Some(Self { len_bytes: u64::from_le_bytes(*len), reason })
    }
}

/// Joins what this rank has mapped with what the ranks of other processes have at the same offset. All ranks come here,
/// each with its own part or the reason why it has none; all get a backing, or all the same error.
pub(crate) fn with_peers(
    bootstrap: &dyn Bootstrap,
    step: &'static str,
    space: &SymmetricSpace,
    devices: &[u32],
    own: Result<Backing>,
) -> Result<Backing> {
    if !bootstrap.spans_processes() {
        return agree(bootstrap, step, own);
    }
    let exported = own.and_then(|backing| Ok((backing.physical().export()?, backing)));
    let answer = match &exported {
        Ok((_, backing)) => Answer { len_bytes: backing.physical().len_bytes(), reason: String::new() },
        Err(error) => Answer { len_bytes: 0, reason: error.to_string() },
    };
    let fds: Vec<_> = exported.iter().map(|(fd, _)| fd.as_fd()).collect();
    let parts = bootstrap.all_gather_fds("memory: descriptors", answer.encode(), &fds)?;
    let parts = read_parts(parts)?;
    let (fd, mut backing) = exported?;
    // All have received it.
    drop(fd);
    let imported = import_all(bootstrap.rank(), space, backing.flat(), devices, parts);
    backing.set_peers(agree(bootstrap, step, imported)?);
    Ok(backing)
}

/// What each rank sent; the same error on all ranks if one has nothing to send.
fn read_parts(parts: Vec<(Vec<u8>, Vec<OwnedFd>)>) -> Result<Vec<(u64, Option<OwnedFd>)>> {
    let mut read = Vec::with_capacity(parts.len());
    for (rank, (bytes, fds)) in (0..).zip(parts) {
        let answer = Answer::decode(&bytes).ok_or_else(|| {
            let (step, reason) = ("memory: descriptors".to_owned(), "it is no answer".to_owned());
            ErrorKind::BadMessage { rank, step, reason }
        })?;
        if !answer.reason.is_empty() {
            return Err(ErrorKind::RankFailed { rank, reason: answer.reason }.into());
        }
        read.push((answer.len_bytes, fds.into_iter().next()));
    }
    Ok(read)
}

/// Maps each descriptor's memory in its rank's part of the space. A descriptor is closed as soon as it is imported.
fn import_all(
    own_rank: u32,
    space: &SymmetricSpace,
    flat: FlatOffset,
    devices: &[u32],
    parts: Vec<(u64, Option<OwnedFd>)>,
) -> Result<Vec<Mapping>> {
    let mut peers = Vec::new();
    for (rank, (len_bytes, fd)) in (0..).zip(parts).filter(|(rank, _)| *rank != own_rank) {
        let Some(fd) = fd else {
            let (step, reason) =
                ("memory: descriptors".to_owned(), "no file descriptor came with it".to_owned());
            return Err(ErrorKind::BadMessage { rank, step, reason }.into());
        };
        let mapped = import(space, rank, flat, devices, fd, len_bytes);
        peers.push(mapped.map_err(|error| error.context(format!("mapping the memory of rank {rank}")))?);
    }
    Ok(peers)
}

fn import(
    space: &SymmetricSpace,
    rank: u32,
    flat: FlatOffset,
    devices: &[u32],
    fd: OwnedFd,
    len_bytes: u64,
) -> Result<Mapping> {
    let reservation = space.reservation();
    let physical = PhysicalAllocation::import(reservation.machine(), fd.as_fd(), len_bytes)?;
    drop(fd);
    let offset = space.address(rank, flat) - space.base_uc();
    let mapping = Mapping::new(reservation, offset, &Arc::new(physical))?;
    for &device in devices {
        mapping.set_access(device, Access::ReadWrite)?;
    }
    Ok(mapping)
}
