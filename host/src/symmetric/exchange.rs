//! How the memory of ranks of other processes gets into the space: each exports its allocation as a file descriptor and
//! imports everybody else's (`cuMemExportToShareableHandle`, `cuMemImportFromShareableHandle`).

use crate::backend::Access;
use crate::comm::bootstrap::{Bootstrap, agree};
use crate::symmetric::{AllocOffset, Backing, FlatOffset, SymmetricSpace};
use crate::vmm::{Mapping, PhysicalAllocation};
use crate::{ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// One rank's answer: the lengths of its allocations, or why there are none.
struct Answer {
    lens_bytes: Vec<u64>,
    reason: String,
}

impl Answer {
    fn encode(&self) -> Vec<u8> {
        let n = self.lens_bytes.len() as u64;
        let lens = self.lens_bytes.iter().flat_map(|len| len.to_le_bytes());
        n.to_le_bytes().into_iter().chain(lens).chain(self.reason.bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (n, rest) = bytes.split_first_chunk::<8>()?;
        let n_bytes = usize::try_from(u64::from_le_bytes(*n)).ok()?.checked_mul(8)?;
        let (lens, reason) = rest.split_at_checked(n_bytes)?;
        let lens_bytes = lens.as_chunks::<8>().0.iter().map(|len| u64::from_le_bytes(*len)).collect();
        Some(Self { lens_bytes, reason: String::from_utf8_lossy(reason).into_owned() })
    }
}

/// Lengths of one rank's allocations with the descriptors that came for them.
type Part = Vec<(u64, OwnedFd)>;

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
    let export = |backing: Backing| {
        let fds = backing.physical().map(PhysicalAllocation::export).collect::<Result<Vec<_>>>()?;
        Ok((fds, backing))
    };
    let exported = own.and_then(export);
    let answer = match &exported {
        Ok((_, backing)) => Answer {
            lens_bytes: backing.physical().map(PhysicalAllocation::len_bytes).collect(),
            reason: String::new(),
        },
        Err(error) => Answer { lens_bytes: Vec::new(), reason: error.to_string() },
    };
    let fds: Vec<_> = exported.iter().flat_map(|(fds, _)| fds.iter().map(AsFd::as_fd)).collect();
    let parts = bootstrap.all_gather_fds("memory: descriptors", answer.encode(), &fds)?;
    let parts = read_parts(parts, bootstrap.rank())?;
    let (fds, mut backing) = exported?;
    // All have received them.
    drop(fds);
    let imported = import_all(bootstrap.rank(), space, backing.flat(), devices, parts);
    backing.set_peers(agree(bootstrap, step, imported)?);
    Ok(backing)
}

/// What each rank sent; the same error on all ranks if one has nothing to send.
fn read_parts(parts: Vec<(Vec<u8>, Vec<OwnedFd>)>, own_rank: u32) -> Result<Vec<Part>> {
    let mut read = Vec::with_capacity(parts.len());
    for (rank, (bytes, fds)) in (0..).zip(parts) {
        let answer = Answer::decode(&bytes).ok_or_else(|| {
            let (step, reason) = ("memory: descriptors".to_owned(), "it is no answer".to_owned());
            ErrorKind::BadMessage { rank, step, reason }
        })?;
        if !answer.reason.is_empty() {
            return Err(ErrorKind::RankFailed { rank, reason: answer.reason }.into());
        }
        if rank != own_rank && fds.len() != answer.lens_bytes.len() {
            let step = "memory: descriptors".to_owned();
            let reason =
                format!("{} descriptors came for {} allocations", fds.len(), answer.lens_bytes.len());
            return Err(ErrorKind::BadMessage { rank, step, reason }.into());
        }
        read.push(answer.lens_bytes.into_iter().zip(fds).collect());
    }
    Ok(read)
}

/// Maps each descriptor's memory in its rank's part of the space, a rank's allocations behind each other. A descriptor
/// is closed as soon as it is imported.
fn import_all(
    own_rank: u32,
    space: &SymmetricSpace,
    flat: FlatOffset,
    devices: &[u32],
    parts: Vec<Part>,
) -> Result<Vec<Mapping>> {
    let mut peers = Vec::new();
    for (rank, part) in (0..).zip(parts).filter(|(rank, _)| *rank != own_rank) {
        let mut at = AllocOffset::new(0);
        for (len_bytes, fd) in part {
            let mapped = import(space, rank, at.in_space(flat), devices, fd, len_bytes);
            peers.push(mapped.map_err(|error| error.context(format!("mapping the memory of rank {rank}")))?);
            at.bytes += len_bytes;
        }
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
