//! Teams and symmetric pointers: how a kernel names memory of a peer.

use crate::abi::DevComm;
use core::marker::PhantomData;

/// The ranks that can load and store each other's memory, seen from one of them.
#[derive(Clone, Copy)]
pub struct Team {
    base_uc: u64,
    stride_bytes: u64,
    rank: u32,
    n_ranks: u32,
}

impl Team {
    /// The team of a communicator.
    #[inline(always)]
    pub fn new(comm: &DevComm) -> Self {
        Self {
            base_uc: comm.base_uc,
            stride_bytes: comm.stride_bytes,
            rank: comm.rank,
            n_ranks: comm.n_ranks,
        }
    }

    /// This rank.
    #[inline(always)]
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// Ranks in the team.
    #[inline(always)]
    pub fn n_ranks(self) -> u32 {
        self.n_ranks
    }

    /// The `distance`-th rank after this one, around the circle; `distance` is below [`Self::n_ranks`].
    ///
    /// Ranks that visit their peers in this order spread their first accesses over all links.
    #[inline(always)]
    pub fn neighbour(self, distance: u32) -> u32 {
        let rank = self.rank + distance;
        if rank >= self.n_ranks { rank - self.n_ranks } else { rank }
    }

    /// Address of the byte at `offset` in the memory of `rank`.
    #[inline(always)]
    pub fn address(self, rank: u32, offset: u64) -> u64 {
        self.base_uc + rank as u64 * self.stride_bytes + offset
    }

    /// Address of the byte at `offset` in this rank's own memory.
    #[inline(always)]
    pub fn own_address(self, offset: u64) -> u64 {
        self.address(self.rank, offset)
    }
}

/// A place in symmetric memory: the same offset on every rank. `T` is what lies there.
#[derive(Clone, Copy)]
pub struct SymPtr<T> {
    offset: u64,
    pointee: PhantomData<*mut T>,
}

impl<T> SymPtr<T> {
    /// The place `offset` bytes into each rank's part of the symmetric space.
    #[inline(always)]
    pub fn new(offset: u64) -> Self {
        Self { offset, pointee: PhantomData }
    }

    /// The place `count` elements further on.
    #[inline(always)]
    #[expect(clippy::should_implement_trait, reason = "named as `add` of raw pointers is")]
    pub fn add(self, count: u64) -> Self {
        self.add_bytes(count * size_of::<T>() as u64)
    }

    /// The place `len_bytes` further on.
    #[inline(always)]
    pub fn add_bytes(self, len_bytes: u64) -> Self {
        Self::new(self.offset + len_bytes)
    }

    /// Offset in bytes.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Its address in the memory of `rank`.
    #[inline(always)]
    pub fn at(self, team: Team, rank: u32) -> u64 {
        team.address(rank, self.offset)
    }

    /// Its address in this rank's own memory.
    #[inline(always)]
    pub fn own(self, team: Team) -> u64 {
        team.own_address(self.offset)
    }
}
