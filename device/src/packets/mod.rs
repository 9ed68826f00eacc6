//! Packets: protocols in which data and the sign that they have arrived travel in one store, so that nothing else needs
//! to be waited for.
//!
//! | module | a slot of 16 bytes carries | sign |
//! |---|---|---|
//! | `ll` | 8 bytes | an epoch beside each 4 bytes |
//! | `ll` ([`LlMc`]) | 8 bytes, by multicast | as above |
//! | `ll` ([`Ll128`]) | 12 bytes | an epoch beside them, in one 16-byte access |
//! | `sentinel` ([`Sentinel`]) | 16 bytes of floats | being other than the poison |
//! | `sentinel` ([`SentinelAny`]) | 16 bytes of anything | as above |
//!
//! What they have in common: every block owns its slots and its epoch, in memory of the protocol's own, so that a change
//! of block count never hands a slot to a block with another epoch. Slots are used again some epochs later, after
//! something from that peer has arrived that it sent behind its reads. This rests on two assumptions beyond PTX: H1, no
//! store becomes visible before the loads that its branch tested have returned; H2, a kernel's stores are performed
//! before any store of the next kernel on that stream. It also means that in every epoch each rank sends at least one
//! slot to each other rank, per block: slots without data are sent and waited for like others, and a block whose share
//! is empty on all ranks steps no epoch.

mod ll;
mod sentinel;

pub use ll::{Ll, Ll128, LlMc};
pub use sentinel::{Sentinel, SentinelAny};

use crate::abi::{DevBaseLayout, DevComm};
use crate::element::Pack;
use crate::team::Team;
use crate::wait::Watch;

/// The slots of one block in one kernel.
///
/// An epoch goes: [`Self::open`], sends, receives (more sends and receives in the upper half of the slots, if the
/// algorithm has two stages), [`Self::retire`]; then [`Self::next_epoch`], or the kernel ends. In the last one
/// [`Self::save`] stands behind the first sends.
pub trait Packets: Sized {
    /// Bytes of payload of a slot.
    const BYTES: u64;

    /// Whether an epoch has more slots than a block sends at once.
    const HAS_TILES: bool;

    /// Slots in which one sender reaches one block in one epoch.
    fn capacity(layout: DevBaseLayout) -> u32;

    /// Starts the block's next epoch.
    fn begin(comm: &DevComm) -> Self;

    /// What is due at the start of an epoch, before its first send. Executed by the whole block.
    #[inline(always)]
    fn open(&self) {}

    /// Sends a payload to slot `index` of `peer`.
    fn send(&self, peer: u32, index: u32, payload: Pack);

    /// Sends a payload to slot `index` of every peer.
    fn send_to_all(&self, index: u32, payload: Pack);

    /// Receives the slots `index`, `index + step`, … of `sender`, `count` of them, at most `N`; the rest of the answer
    /// holds whatever.
    ///
    /// All of them are loaded before the first is looked at, so that `N` polls cost one round trip to memory. No load
    /// stands in a branch: in place of slots beyond the last the last is loaded again.
    fn receive<const N: usize>(
        &self,
        watch: &mut Watch,
        sender: u32,
        index: u32,
        step: u32,
        count: u32,
    ) -> [Pack; N];

    /// Leaves the epoch for the next kernel. Executed by the whole block, where it costs nothing: between sends and
    /// receives.
    fn save(&self);

    /// Whether [`Self::retire`] has something to do in this epoch.
    fn has_to_retire(&self) -> bool;

    /// What is due behind the receives. Executed by the whole block.
    fn retire(&self);

    /// Goes on to the next epoch of the same kernel; says whether no thread of the block has given up. Executed by the
    /// whole block, which gets one answer.
    fn next_epoch(&mut self, watch: &Watch) -> bool;
}

/// Calls `f` with every peer of this rank, the next one first.
#[inline(always)]
fn for_all_peers(team: Team, mut f: impl FnMut(u32)) {
    let mut distance = 1;
    while distance < team.n_ranks() {
        f(team.neighbour(distance));
        distance += 1;
    }
}
