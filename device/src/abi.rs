//! Every structure that host and device share, with its size and offsets asserted on both sides.
//!
//! Offsets named `*_offset` count bytes from the start of one rank's part of the symmetric space.

#[cfg(not(target_arch = "nvptx64"))]
use bytemuck::{Pod, Zeroable};
use core::mem::{offset_of, size_of};

/// Blocks that may meet at the barrier: the largest grid of a barrier kernel.
pub const BARRIER_BLOCKS_MAX: u32 = 256;
/// Blocks that own LL slots: the largest grid of an LL kernel.
pub const LL_BLOCKS_MAX: u32 = 128;
/// Bytes of one LL slot: two halves {data32, epoch32}.
pub const LL_SLOT_BYTES: u64 = 16;
/// Bytes of payload that one LL slot carries.
pub const LL_PAYLOAD_BYTES: u64 = 8;
/// Banks of LL slots; an epoch uses the bank of its parity.
pub const LL_BANKS: u64 = 2;

/// What a kernel knows of its communicator. Passed by value in every launch.
///
/// Nothing in it changes between operations, so that a captured graph may replay it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(Pod, Zeroable))]
pub struct DevComm {
    /// Address of rank 0's part of the symmetric space.
    pub base_uc: u64,
    /// Bytes from one rank's part to the next one's.
    pub stride_bytes: u64,
    /// Device address of this rank's [`FaultRecord`], in host memory.
    pub record: u64,
    /// This rank.
    pub rank: u32,
    /// Ranks in the team.
    pub n_ranks: u32,
    /// Address of the multicast space, whose byte at an offset stands for every rank's at that offset; 0 if there is none.
    pub base_mc: u64,
}

/// Arguments of every collective kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(Pod, Zeroable))]
pub struct CollectiveArgs {
    /// The communicator.
    pub comm: DevComm,
    /// Offset of the input in bytes, equal on all ranks.
    pub input_offset: u64,
    /// Offset of the output in bytes, equal on all ranks.
    pub output_offset: u64,
    /// All-reduce: elements of the message. All-gather: bytes of one rank's share.
    pub count: u64,
    /// LL kernels: 8-byte words that one block moves; the host divides so that no kernel has to.
    pub words_per_block: u32,
    /// LL kernels: one of the `LL_PATH_*` values.
    pub ll_path: u32,
}

/// `CollectiveArgs::ll_path`: any message.
pub const LL_PATH_RAGGED: u32 = 0;
/// `CollectiveArgs::ll_path`: the message consists of whole words at multiples of 8 bytes.
pub const LL_PATH_FULL: u32 = 1;
/// `CollectiveArgs::ll_path`: as [`LL_PATH_FULL`], and each block moves at most one word a thread, in one epoch.
pub const LL_PATH_ONE_TILE: u32 = 2;

impl CollectiveArgs {
    /// The shortest path that a message of `len_bytes` may take in blocks of `threads`.
    pub const fn ll_path_of(&self, len_bytes: u64, threads: u32) -> u32 {
        let slots = DevBaseLayout::new(self.comm.n_ranks).ll_slots_per_block();
        let capacity = if threads < slots { threads } else { slots };
        if !(self.input_offset | self.output_offset | len_bytes).is_multiple_of(LL_PAYLOAD_BYTES) {
            LL_PATH_RAGGED
        } else if self.words_per_block > capacity {
            LL_PATH_FULL
        } else {
            LL_PATH_ONE_TILE
        }
    }
}

/// `FaultRecord::state`: nothing happened.
pub const STATE_OK: u32 = 0;
/// `FaultRecord::state`: a wait of this rank ran past its bound.
pub const STATE_TIMEOUT: u32 = 1;
/// `FaultRecord::state`: a peer poisoned the communicator; `peer` says which.
pub const STATE_POISONED: u32 = 2;
/// `FaultRecord::state`: the host raised the abort word.
pub const STATE_ABORTED: u32 = 3;

/// `FaultRecord::step`: waiting for a peer at a barrier on entry.
pub const STEP_BARRIER_ENTRY: u32 = 1;
/// `FaultRecord::step`: waiting for a peer at a barrier on exit.
pub const STEP_BARRIER_EXIT: u32 = 2;
/// `FaultRecord::step`: waiting for an LL slot of a peer.
pub const STEP_LL_RECEIVE: u32 = 3;
/// `FaultRecord::step`: at the entry of a kernel.
pub const STEP_ENTRY: u32 = 4;

/// How a kernel tells the host that it gave up. One per rank, in host memory that the device maps.
///
/// The device writes all but `abort`, `state` last with `st.release.sys`; the host reads `state` first with acquire.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(Pod, Zeroable))]
pub struct FaultRecord {
    /// One of the `STATE_*` values.
    pub state: u32,
    /// The rank that gave up.
    pub rank: u32,
    /// The rank that it waited for, or that poisoned it.
    pub peer: u32,
    /// The block that gave up.
    pub block: u32,
    /// One of the `STEP_*` values.
    pub step: u32,
    /// The epoch waited for.
    pub epoch_expected: u32,
    /// The epoch found.
    pub epoch_seen: u32,
    /// Written by the host, read by the device: other than 0 ends every wait.
    pub abort: u32,
    /// Fills the cache line.
    pub reserved: [u32; 8],
}

/// Start of `DevBase`, at offset 0 of every rank's part of the symmetric space.
///
/// The arrays behind it are placed by [`DevBaseLayout`].
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(Pod, Zeroable))]
pub struct DevBaseHeader {
    /// 0, or 1 + the rank that gave up. Written by any rank with `st.relaxed.sys`, read by this one.
    pub poison: u32,
    /// Taken by the first thread of this rank that gives up (`atom.cas.gpu`).
    pub claim: u32,
    /// Bound of every wait in nanoseconds. Written by the host at init.
    pub timeout_ns: u64,
    /// Fills the cache line.
    pub reserved: [u64; 6],
}

/// Where the parts of `DevBase` lie, as a function of the number of ranks alone.
///
/// | part | shape | writer |
/// |---|---|---|
/// | header | [`DevBaseHeader`] | host, any rank |
/// | barrier epochs | `u32[BARRIER_BLOCKS_MAX]` | this rank's block |
/// | LL epochs | `u32[LL_BLOCKS_MAX]` | this rank's block |
/// | barrier inboxes | `u32[BARRIER_BLOCKS_MAX][n_ranks]` | the sender |
/// | LL slots | `[LL_BLOCKS_MAX][LL_BANKS][n_ranks][slots_per_block]` × 16 bytes | the sender |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevBaseLayout {
    /// Ranks in the team.
    pub n_ranks: u32,
}

impl DevBaseLayout {
    /// Layout for a team of `n_ranks` (at least 1).
    #[inline(always)]
    pub const fn new(n_ranks: u32) -> Self {
        Self { n_ranks }
    }

    /// Offset of the barrier epoch of `block`.
    #[inline(always)]
    pub const fn barrier_epoch_offset(self, block: u32) -> u64 {
        size_of::<DevBaseHeader>() as u64 + block as u64 * 4
    }

    /// Offset of the LL epoch of `block`.
    #[inline(always)]
    pub const fn ll_epoch_offset(self, block: u32) -> u64 {
        self.barrier_epoch_offset(BARRIER_BLOCKS_MAX) + block as u64 * 4
    }

    /// Offset of the word in which `sender` tells `block` that it has arrived at the barrier.
    #[inline(always)]
    pub const fn barrier_inbox_offset(self, block: u32, sender: u32) -> u64 {
        self.ll_epoch_offset(LL_BLOCKS_MAX) + (block as u64 * self.n_ranks as u64 + sender as u64) * 4
    }

    /// Slots in which one sender reaches one block in one epoch.
    #[inline(always)]
    pub const fn ll_slots_per_block(self) -> u32 {
        if self.n_ranks <= 8 { 512 } else { 32 }
    }

    /// Offset of the first slot of `sender` for `block` in the bank of `epoch`.
    #[inline(always)]
    pub const fn ll_slots_offset(self, block: u32, epoch: u32, sender: u32) -> u64 {
        let bank = block as u64 * LL_BANKS + (epoch as u64 & 1);
        let slot = (bank * self.n_ranks as u64 + sender as u64) * self.ll_slots_per_block() as u64;
        self.ll_offset() + slot * LL_SLOT_BYTES
    }

    /// Bytes of `DevBase`.
    #[inline(always)]
    pub const fn len_bytes(self) -> u64 {
        self.ll_slots_offset(LL_BLOCKS_MAX, 0, 0)
    }

    const fn ll_offset(self) -> u64 {
        self.barrier_inbox_offset(BARRIER_BLOCKS_MAX, 0).next_multiple_of(128)
    }
}

const _: () = {
    assert!(size_of::<DevComm>() == 40);
    assert!(offset_of!(DevComm, base_mc) == 32);
    assert!(offset_of!(DevComm, record) == 16);
    assert!(size_of::<CollectiveArgs>() == 72);
    assert!(offset_of!(CollectiveArgs, count) == 56);
    assert!(size_of::<FaultRecord>() == 64);
    assert!(offset_of!(FaultRecord, abort) == 28);
    assert!(size_of::<DevBaseHeader>() == 64);
    assert!(offset_of!(DevBaseHeader, timeout_ns) == 8);
    assert!(DevBaseLayout::new(8).len_bytes() <= 64 << 20);
};
