//! Where the slots of one block lie: two banks of them, used by turns, in each an area for every sender.

use crate::abi::{BANKS, SLOT_BYTES};
use crate::ptx;
use crate::team::Team;

/// The slots of one block.
#[derive(Clone, Copy)]
pub(super) struct Banks {
    /// Address of the first slot of rank 0 in this rank's own memory, in the bank in use.
    own: u64,
    /// Offset of the first slot of this rank in anyone's memory, in that bank.
    sent: u64,
    sender_bytes: u64,
    bank_bytes: u64,
    /// What the bank in use lies behind the first.
    bank: u64,
}

impl Banks {
    /// The slots that `offset` says, of a bank (as an epoch of it) and a sender. Addresses are computed here, not where
    /// they are used, which is later than there is time.
    #[inline(always)]
    pub(super) fn now(team: Team, offset: impl Fn(u32, u32) -> u64) -> Self {
        let first = offset(0, 0);
        Self {
            own: ptx::mov_b64(team.own_address(first)),
            sent: ptx::mov_b64(offset(0, team.rank())),
            sender_bytes: offset(0, 1) - first,
            bank_bytes: offset(1, 0) - first,
            bank: 0,
        }
    }

    /// Goes over to the bank of `epoch`.
    #[inline(always)]
    pub(super) fn use_for(&mut self, epoch: u32) {
        let before = self.bank;
        self.bank = if epoch as u64 % BANKS == 0 { 0 } else { self.bank_bytes };
        self.own = self.own + self.bank - before;
        self.sent = self.sent + self.bank - before;
    }

    /// Offset of the slot `index` of this rank in the memory of any rank.
    #[inline(always)]
    pub(super) fn sent(&self, index: u32) -> u64 {
        self.sent + index as u64 * SLOT_BYTES
    }

    /// Address of the slot `index` of `sender` in this rank's own memory.
    #[inline(always)]
    pub(super) fn own(&self, sender: u32, index: u32) -> u64 {
        self.own + sender as u64 * self.sender_bytes + index as u64 * SLOT_BYTES
    }
}
