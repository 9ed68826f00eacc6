//! One access, in few bytes.

use super::clocks::BlockNumber;
use crate::sim::interface::{MemoryAccess, Order, Scope};

/// No access: numbers of blocks begin at 1.
pub(super) const NOBODY: BlockNumber = 0;
/// The host.
pub(super) const HOST_BLOCK: BlockNumber = u32::MAX;
/// Stands in the place of a read where there are several; the time is an index.
pub(super) const SEVERAL: BlockNumber = u32::MAX - 1;

/// One access, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) block: BlockNumber,
    pub(super) time: u32,
    /// The instruction, and in the top 8 bits the proxy.
    pc_proxy: u32,
    pub(super) thread: u16,
    /// Scope (0 for weak), width as a power of two, order; [`OBSERVES`].
    kind: u16,
}

/// Of a read: it read the last write.
const OBSERVES: u16 = 1 << 15;
/// Its thread has passed an alias fence.
const ALIASES: u16 = 1 << 14;

impl Record {
    pub(super) const NONE: Self = Self { block: NOBODY, time: 0, pc_proxy: 0, thread: 0, kind: 0 };

    /// Of a thread.
    #[inline]
    pub(super) fn new(
        (block, thread, time): (BlockNumber, u16, u32),
        pc: u32,
        proxy: u8,
        access: MemoryAccess,
    ) -> Self {
        let strength = match access.scope {
            Scope::None => 0,
            Scope::Cta | Scope::Cluster => 1,
            Scope::Gpu => 2,
            Scope::Sys => 3,
        };
        let kind = strength | (access.width_bytes.trailing_zeros() as u16) << 2 | (access.order as u16) << 5;
        Self { block, time, pc_proxy: pc & 0xff_ffff | u32::from(proxy) << 24, thread, kind }
    }

    /// As a read, which gave the last write or something older.
    pub(super) fn that_observes(self, observes: bool) -> Self {
        Self { kind: self.kind & !OBSERVES | if observes { OBSERVES } else { 0 }, ..self }
    }

    /// Whether it is a read that gave the last write.
    pub(super) fn observes(self) -> bool {
        self.kind & OBSERVES != 0
    }

    /// Stands for the several accesses of an index.
    pub(super) fn several(index: u32) -> Self {
        Self { block: SEVERAL, time: index, ..Self::NONE }
    }

    /// Of the host.
    pub(super) fn host(time: u32) -> Self {
        Self { block: HOST_BLOCK, time, ..Self::NONE }
    }

    pub(super) fn pc(self) -> u32 {
        self.pc_proxy & 0xff_ffff
    }

    pub(super) fn proxy(self) -> u8 {
        (self.pc_proxy >> 24) as u8
    }

    /// Reach of a strong access plus 1; 0 for a weak one.
    #[inline]
    pub(super) fn strength(self) -> u16 {
        self.kind & 3
    }

    pub(super) fn width_bytes(self) -> u64 {
        1 << (self.kind >> 2 & 7)
    }

    pub(super) fn order(self) -> Order {
        let orders = [
            Order::Weak,
            Order::Volatile,
            Order::Relaxed,
            Order::Acquire,
            Order::Release,
            Order::AcqRel,
            Order::SeqCst,
        ];
        orders[usize::from(self.kind >> 5 & 7)]
    }

    #[inline]
    pub(super) fn is_none(self) -> bool {
        self.block == NOBODY
    }

    /// Whether both have equal elements, order and scope, and one proxy.
    #[inline]
    pub(super) fn same_kind(self, other: Self) -> bool {
        (self.kind ^ other.kind) & !OBSERVES == 0 && (self.pc_proxy ^ other.pc_proxy) >> 24 == 0
    }

    /// By a thread that has passed an alias fence.
    pub(super) fn behind_alias_fence(self, is_behind: bool) -> Self {
        Self { kind: self.kind & !ALIASES | if is_behind { ALIASES } else { 0 }, ..self }
    }

    /// Whether both are strong, of equal elements and one proxy, or one of them behind an alias fence; scopes are not
    /// looked at.
    #[inline]
    pub(super) fn may_be_morally_strong(self, other: Self) -> bool {
        self.strength() > 0
            && other.strength() > 0
            && (self.kind ^ other.kind) >> 2 & 7 == 0
            && ((self.kind | other.kind) & ALIASES != 0 || (self.pc_proxy ^ other.pc_proxy) >> 24 == 0)
    }

    #[inline]
    pub(super) fn same_thread(self, other: Self) -> bool {
        self.block == other.block && self.thread == other.thread
    }
}
