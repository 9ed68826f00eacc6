//! Every structure that host and device share, with its size and offsets asserted on both sides.
//!
//! Offsets named `*_offset` count bytes from the start of one rank's part of the symmetric space.

#[cfg(not(target_arch = "nvptx64"))]
use bytemuck::{Pod, Zeroable};
use core::mem::{offset_of, size_of};

/// Blocks that may meet at the barrier: the largest grid of a barrier kernel.
pub const BARRIER_BLOCKS_MAX: u32 = 256;
/// Words for each rank that the check of calls has.
const CHECK_PLACES: u64 = 8;
/// Blocks that own LL slots: the largest grid of a kernel of LL packets.
pub const LL_BLOCKS_MAX: u32 = 128;
/// Blocks that own sentinel slots: the largest grid of a kernel that sends them.
pub const SENTINEL_BLOCKS_MAX: u32 = 128;
/// Bytes of one slot, of whichever protocol.
pub const SLOT_BYTES: u64 = 16;
/// Bytes of payload that one LL slot carries.
pub const LL_PAYLOAD_BYTES: u64 = 8;
/// Bytes of payload that one slot of the 128-bit LL protocol carries.
pub const LL_128_PAYLOAD_BYTES: u64 = 12;
/// Bytes of payload that one sentinel slot carries.
pub const SENTINEL_PAYLOAD_BYTES: u64 = 16;
/// Bytes of the note beside a sentinel slot, which few slots need.
pub const NOTE_BYTES: u64 = 4;
/// What sentinel slots of any words take for nothing: neither text nor small numbers nor floats that are common.
pub const SENTINEL_POISON: u64 = 0xa7d3_5e91_c86b_f24d;
/// What is sent in place of [`SENTINEL_POISON`]. A note says which of the two was meant.
pub const SENTINEL_SUBSTITUTE: u64 = SENTINEL_POISON ^ 1;
/// Banks of LL and of sentinel slots; an epoch uses the bank of its parity.
pub const BANKS: u64 = 2;
/// Blocks that own scratch: the largest grid of a push kernel.
pub const PUSH_BLOCKS_MAX: u32 = 256;
/// Regions of scratch that a sender has at a block, used by turns.
pub const PUSH_TURNS: u32 = 3;
/// Bytes of scratch in one rank's memory for messages that are pushed.
pub const PUSH_SCRATCH_BYTES: u64 = 64 << 20;

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
    /// Bytes of the message of an all-reduce or a broadcast, or of one rank's part in every other collective.
    pub len_bytes: u64,
    /// Slots or packs of one part of the message: of the whole, where it is not divided among the ranks.
    pub slots_per_part: u64,
    /// Those of them that one block moves; the host divides so that no kernel has to.
    pub slots_per_block: u32,
    /// Packs of scratch in which one sender reaches one block in one turn ([`DevBaseLayout::scratch_packs`]).
    pub scratch_packs: u16,
    /// The rank whose input all get, in a broadcast.
    pub root: u16,
}

/// Arguments of the kernels around a collective that is checked ([`crate::kernels::CHECK_ENTER`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(Pod, Zeroable))]
pub struct CheckArgs {
    /// The communicator.
    pub comm: DevComm,
    /// Stands for all that is equal on all ranks in a call.
    pub call: u64,
}

/// Arguments of a kernel that does a collective again and again (`kernels/looped.rs`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(Pod, Zeroable))]
pub struct LoopArgs {
    /// The collective's own.
    pub collective: CollectiveArgs,
    /// How often; equal on all ranks.
    pub repeats: u32,
    /// Is 0.
    pub reserved: u32,
}

/// `FaultRecord::state`: nothing happened.
pub const STATE_OK: u32 = 0;
/// `FaultRecord::state`: a wait of this rank ran past its bound.
pub const STATE_TIMEOUT: u32 = 1;
/// `FaultRecord::state`: a peer poisoned the communicator; `peer` says which.
pub const STATE_POISONED: u32 = 2;
/// `FaultRecord::state`: the host raised the abort word.
pub const STATE_ABORTED: u32 = 3;

/// `FaultRecord::state`: `peer` called something else than this rank; `calls` says what.
pub const STATE_MISMATCHED: u32 = 4;
/// `FaultRecord::state`: an operation began on this rank while another was under way.
pub const STATE_CONCURRENT: u32 = 5;

/// `FaultRecord::step`: waiting for a peer at a barrier on entry.
pub const STEP_BARRIER_ENTRY: u32 = 1;
/// `FaultRecord::step`: waiting for a peer at a barrier on exit.
pub const STEP_BARRIER_EXIT: u32 = 2;
/// `FaultRecord::step`: waiting for a slot of a peer.
pub const STEP_RECEIVE: u32 = 3;
/// `FaultRecord::step`: at the entry of a kernel.
pub const STEP_ENTRY: u32 = 4;
/// `FaultRecord::step`: waiting at the barrier behind which pushed data are there.
pub const STEP_BARRIER_PUSHED: u32 = 5;
/// `FaultRecord::step`: waiting at the barrier before or behind copies.
pub const STEP_BARRIER_COPIES: u32 = 6;
/// `FaultRecord::step`: waiting to hear what a peer calls.
pub const STEP_CHECK: u32 = 7;

/// `FaultRecord::peer`: one that the waiting rank cannot tell, since a barrier by multicast counts arrivals.
pub const PEER_UNKNOWN: u32 = u32::MAX;

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
    /// The rank that it waited for, or [`PEER_UNKNOWN`], or the one that poisoned it.
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
    /// What this rank and `peer` called, where that differs.
    pub calls: [u64; 2],
    /// Fills the cache line.
    pub reserved: [u32; 4],
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
    /// Never written: what a thread loads that has nothing to load.
    pub blank: [u64; 6],
}

/// Where the parts of `DevBase` lie, as a function of the number of ranks alone.
///
/// | part | shape | writer |
/// |---|---|---|
/// | header | [`DevBaseHeader`] | host, any rank |
/// | barrier epochs | `u32[BARRIER_BLOCKS_MAX]` | this rank's block |
/// | LL epochs | `u32[LL_BLOCKS_MAX]` | this rank's block |
/// | 128-bit LL epochs | `u32[LL_BLOCKS_MAX]` | this rank's block |
/// | sentinel epochs | `u32[SENTINEL_BLOCKS_MAX]` | this rank's block |
/// | scratch turns | `u32[PUSH_BLOCKS_MAX]` | this rank's block |
/// | barrier inboxes | `u32[BARRIER_BLOCKS_MAX][n_ranks]` | the sender |
/// | multicast barrier epochs | `u32[BARRIER_BLOCKS_MAX]` | this rank's block |
/// | multicast barrier inboxes | `u32[BARRIER_BLOCKS_MAX]` | all ranks, by multicast |
/// | multicast LL epochs | `u32[LL_BLOCKS_MAX]` | this rank's block |
/// | check: barrier epoch | `u32`, in the place of `u32[n_ranks]` | this rank |
/// | check: busy mark | `u32`, in the place of `u32[n_ranks]` | this rank |
/// | check: barrier inboxes | `u32[2][n_ranks]`, the first half | the sender |
/// | check: calls | `u64[2][n_ranks]` | the sender |
/// | LL slots | `[LL_BLOCKS_MAX][BANKS][n_ranks][slots]` × 16 bytes | the sender |
/// | 128-bit LL slots | as LL slots | the sender |
/// | multicast LL slots | as LL slots, fewer | the sender, by multicast |
/// | sentinel slots | `[SENTINEL_BLOCKS_MAX][BANKS][n_ranks][slots]` × 16 bytes | the sender |
/// | sentinel notes | as sentinel slots, × 4 bytes | the sender |
/// | scratch | `[PUSH_BLOCKS_MAX][PUSH_TURNS][n_ranks − 1][scratch_packs]` × 16 bytes | the sender |
///
/// All but the scratch starts as zero.
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

    /// Offset of the 128-bit LL epoch of `block`.
    #[inline(always)]
    pub const fn ll_128_epoch_offset(self, block: u32) -> u64 {
        self.ll_epoch_offset(LL_BLOCKS_MAX) + block as u64 * 4
    }

    /// Offset of the sentinel epoch of `block`.
    #[inline(always)]
    pub const fn sentinel_epoch_offset(self, block: u32) -> u64 {
        self.ll_128_epoch_offset(LL_BLOCKS_MAX) + block as u64 * 4
    }

    /// Offset of the word that says whose turn it is in the scratch of `block`.
    #[inline(always)]
    pub const fn push_turn_offset(self, block: u32) -> u64 {
        self.sentinel_epoch_offset(SENTINEL_BLOCKS_MAX) + block as u64 * 4
    }

    /// Offset of the word in which `sender` tells `block` that it has arrived at the barrier.
    #[inline(always)]
    pub const fn barrier_inbox_offset(self, block: u32, sender: u32) -> u64 {
        self.push_turn_offset(PUSH_BLOCKS_MAX) + (block as u64 * self.n_ranks as u64 + sender as u64) * 4
    }

    /// Offset of the multicast barrier epoch of `block`.
    #[inline(always)]
    pub const fn mc_barrier_epoch_offset(self, block: u32) -> u64 {
        self.barrier_inbox_offset(BARRIER_BLOCKS_MAX, 0) + block as u64 * 4
    }

    /// Offset of the word that counts the arrivals of all ranks at the multicast barrier of `block`.
    #[inline(always)]
    pub const fn mc_barrier_inbox_offset(self, block: u32) -> u64 {
        self.mc_barrier_epoch_offset(BARRIER_BLOCKS_MAX) + block as u64 * 4
    }

    /// Offset of the multicast LL epoch of `block`.
    #[inline(always)]
    pub const fn ll_mc_epoch_offset(self, block: u32) -> u64 {
        self.mc_barrier_inbox_offset(BARRIER_BLOCKS_MAX) + block as u64 * 4
    }

    /// Offset of the epoch of the barrier at which the ranks meet before a collective that is checked.
    #[inline(always)]
    pub const fn check_epoch_offset(self) -> u64 {
        self.check_offset(0)
    }

    /// Offset of the word that is 1 while a collective that is checked is under way on this rank.
    #[inline(always)]
    pub const fn check_busy_offset(self) -> u64 {
        self.check_offset(1)
    }

    /// Offset of the word in which `sender` tells that it has arrived at that barrier.
    #[inline(always)]
    pub const fn check_inbox_offset(self, sender: u32) -> u64 {
        self.check_offset(2) + sender as u64 * 4
    }

    /// Offset of the word in which `sender` says what it calls, in the bank of `epoch`.
    #[inline(always)]
    pub const fn check_call_offset(self, epoch: u32, sender: u32) -> u64 {
        let bank = epoch as u64 & 1;
        self.check_offset(4) + (bank * self.n_ranks as u64 + sender as u64) * 8
    }

    /// Slots in which one sender reaches one block in one epoch by multicast.
    #[inline(always)]
    pub const fn ll_mc_slots_per_block(self) -> u32 {
        if self.n_ranks <= 8 { 128 } else { 32 }
    }

    /// Slots in which one sender reaches one block in one epoch, by either unicast LL protocol.
    #[inline(always)]
    pub const fn ll_slots_per_block(self) -> u32 {
        match self.n_ranks {
            0..=2 => 1024,
            3..=8 => 512,
            _ => 32,
        }
    }

    /// Slots in which one sender reaches one block in one sentinel epoch.
    #[inline(always)]
    pub const fn sentinel_slots_per_block(self) -> u32 {
        match self.n_ranks {
            0..=2 => 4096,
            3..=4 => 1024,
            5..=8 => 256,
            _ => 32,
        }
    }

    /// Offset of the first LL slot of `sender` for `block` in the bank of `epoch`.
    #[inline(always)]
    pub const fn ll_slots_offset(self, block: u32, epoch: u32, sender: u32) -> u64 {
        self.ll_offset() + self.ll_slot(block, epoch, sender) * SLOT_BYTES
    }

    /// Offset of the first 128-bit LL slot of `sender` for `block` in the bank of `epoch`.
    #[inline(always)]
    pub const fn ll_128_slots_offset(self, block: u32, epoch: u32, sender: u32) -> u64 {
        self.ll_slots_offset(LL_BLOCKS_MAX, 0, 0) + self.ll_slot(block, epoch, sender) * SLOT_BYTES
    }

    /// Offset of the first multicast LL slot of `sender` for `block` in the bank of `epoch`.
    #[inline(always)]
    pub const fn ll_mc_slots_offset(self, block: u32, epoch: u32, sender: u32) -> u64 {
        let slot = self.slot(self.ll_mc_slots_per_block(), block, epoch, sender);
        self.ll_128_slots_offset(LL_BLOCKS_MAX, 0, 0) + slot * SLOT_BYTES
    }

    /// Offset of the first sentinel slot of `sender` for `block` in the bank of `epoch`.
    #[inline(always)]
    pub const fn sentinel_slots_offset(self, block: u32, epoch: u32, sender: u32) -> u64 {
        self.ll_mc_slots_offset(LL_BLOCKS_MAX, 0, 0) + self.sentinel_slot(block, epoch, sender) * SLOT_BYTES
    }

    /// Offset of the note of the first sentinel slot of `sender` for `block` in the bank of `epoch`.
    #[inline(always)]
    pub const fn sentinel_notes_offset(self, block: u32, epoch: u32, sender: u32) -> u64 {
        let notes = self.sentinel_slots_offset(SENTINEL_BLOCKS_MAX, 0, 0);
        notes + self.sentinel_slot(block, epoch, sender) * NOTE_BYTES
    }

    /// Bytes from the start on that hold zeros before the first kernel.
    #[inline(always)]
    pub const fn zeroed_bytes(self) -> u64 {
        self.sentinel_notes_offset(SENTINEL_BLOCKS_MAX, 0, 0)
    }

    /// Packs of 16 bytes of scratch in which one sender reaches one block in one turn: a whole number of cache lines.
    /// On the host; kernels are told, since a division would be a check and a trap.
    pub const fn scratch_packs(self) -> u32 {
        (PUSH_SCRATCH_BYTES / (PUSH_TURNS as u64 * PUSH_BLOCKS_MAX as u64 * self.n_senders() * SLOT_BYTES))
            as u32
            & !7
    }

    /// Offset in `owner`'s memory of the scratch of `sender`, another rank, for `block` in a turn, below [`PUSH_TURNS`].
    #[inline(always)]
    pub const fn scratch_offset(
        self,
        scratch_packs: u32,
        block: u32,
        turn: u32,
        (owner, sender): (u32, u32),
    ) -> u64 {
        let place = sender - (sender > owner) as u32;
        let region = (block as u64 * PUSH_TURNS as u64 + turn as u64) * self.n_senders() + place as u64;
        self.zeroed_bytes() + region * scratch_packs as u64 * SLOT_BYTES
    }

    /// Bytes of `DevBase`.
    pub const fn len_bytes(self) -> u64 {
        self.scratch_offset(self.scratch_packs(), PUSH_BLOCKS_MAX, 0, (0, 0))
    }

    /// Ranks that store into the scratch of one.
    const fn n_senders(self) -> u64 {
        if self.n_ranks > 1 { self.n_ranks as u64 - 1 } else { 1 }
    }

    #[inline(always)]
    const fn ll_offset(self) -> u64 {
        self.check_offset(CHECK_PLACES).next_multiple_of(128)
    }

    #[inline(always)]
    const fn check_offset(self, place: u64) -> u64 {
        self.ll_mc_epoch_offset(LL_BLOCKS_MAX) + place * self.n_ranks as u64 * 4
    }

    const fn ll_slot(self, block: u32, epoch: u32, sender: u32) -> u64 {
        self.slot(self.ll_slots_per_block(), block, epoch, sender)
    }

    const fn sentinel_slot(self, block: u32, epoch: u32, sender: u32) -> u64 {
        self.slot(self.sentinel_slots_per_block(), block, epoch, sender)
    }

    /// A sum of which one term alone has the epoch, since kernels compute the others before they know it.
    const fn slot(self, from_one: u32, block: u32, epoch: u32, sender: u32) -> u64 {
        let from_all = self.n_ranks as u64 * from_one as u64;
        block as u64 * BANKS * from_all + sender as u64 * from_one as u64 + epoch as u64 % BANKS * from_all
    }
}

const _: () = {
    assert!(size_of::<DevComm>() == 40);
    assert!(offset_of!(DevComm, base_mc) == 32);
    assert!(offset_of!(DevComm, record) == 16);
    assert!(size_of::<CollectiveArgs>() == 80);
    assert!(offset_of!(CollectiveArgs, len_bytes) == 56);
    assert!(offset_of!(CollectiveArgs, root) == 78);
    assert!(DevBaseLayout::new(1).scratch_packs() <= u16::MAX as u32);
    assert!(size_of::<CheckArgs>() == 48);
    assert!(size_of::<LoopArgs>() == 88);
    assert!(offset_of!(LoopArgs, repeats) == 80);
    assert!(size_of::<FaultRecord>() == 64);
    assert!(offset_of!(FaultRecord, calls) == 32);
    assert!(offset_of!(FaultRecord, abort) == 28);
    assert!(size_of::<DevBaseHeader>() == 64);
    assert!(offset_of!(DevBaseHeader, timeout_ns) == 8);
    assert!(DevBaseLayout::new(8).zeroed_bytes() <= 64 << 20);
    assert!(DevBaseLayout::new(3).check_call_offset(0, 0).is_multiple_of(8));
    assert!(DevBaseLayout::new(8).zeroed_bytes().is_multiple_of(128));
};
