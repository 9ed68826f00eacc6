//! All-gather `ll`, `ll_128`, `sentinel`: every rank pushes its share to every peer as packets; each unpacks what it receives.
//!
//! ```text
//!   rank r   in ──┬─ slots of every peer ──►  poll   slots[s] ──► out[s]  for every other rank s
//!                 └────────────────────────────────────────────► out[r]
//! ```
//!
//! One hop, no barrier. A rank sends, for a share of S bytes: 2·S·(n−1) by `ll`, 4/3·S·(n−1) by `ll_128`, S·(n−1) by
//! `sentinel`.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. In place, `in` is `out[r]`, which is loaded
//! and stored by the same thread with the same bytes.

use super::cut::{Part, Slots, Tile};
use super::exchange::{self, Exchange, send_to_all, store_received};
use crate::abi::CollectiveArgs;
use crate::element::{Byte, FourBytes, Pack, Unit};
use crate::packets::{Ll, Ll128, Packets, SentinelAny};
use crate::team::Team;
use crate::wait::Watch;
use core::marker::PhantomData;

#[inline(always)]
pub(super) fn all_gather_ll(args: &CollectiveArgs) -> bool {
    run::<Ll, 1>(args)
}

#[inline(always)]
pub(super) fn all_gather_ll_128(args: &CollectiveArgs) -> bool {
    run::<Ll128, 2>(args)
}

#[inline(always)]
pub(super) fn all_gather_sentinel(args: &CollectiveArgs) -> bool {
    run::<SentinelAny, 2>(args)
}

#[inline(always)]
pub(super) fn run<P: Packets, const N: usize>(args: &CollectiveArgs) -> bool {
    // Ragged ends go faster by wider units, which is nearly always possible.
    if (args.input_offset | args.output_offset | args.len_bytes) & 3 == 0 {
        by_units::<P, FourBytes, N>(args)
    } else {
        by_units::<P, Byte, 1>(args)
    }
}

#[inline(always)]
fn by_units<P: Packets, U: Unit, const N: usize>(args: &CollectiveArgs) -> bool {
    let (team, share) = (Team::new(&args.comm), Part::share(P::BYTES, args));
    exchange::run::<P, _, N>(
        args,
        &Gather::<U> { team, share, share_bytes: args.len_bytes, unit: PhantomData },
    )
}

struct Gather<U> {
    team: Team,
    share: Part,
    share_bytes: u64,
    unit: PhantomData<U>,
}

impl<U: Unit> Gather<U> {
    /// Where the share of `sender` is stored.
    #[inline(always)]
    fn place(&self, sender: u32) -> Part {
        self.share.stored_behind(sender as u64 * self.share_bytes)
    }
}

impl<P: Packets, U: Unit, const N: usize> Exchange<P, N> for Gather<U> {
    type Input = Slots<N>;
    type Loaded = [Pack; N];

    #[inline(always)]
    fn input(&self, tile: &Tile<N>) -> Slots<N> {
        tile.input(&self.share, self.team, self.team.rank())
    }

    #[inline(always)]
    fn load(&self, tile: &Tile<N>, input: Slots<N>) -> [Pack; N] {
        tile.load_from::<U>(&self.share, input, self.team, self.team.rank())
    }

    #[inline(always)]
    fn send(&self, packets: &P, watch: &Watch, tile: &Tile<N>, own: [Pack; N]) {
        send_to_all(packets, watch, tile, 0, own);
    }

    #[inline(always)]
    fn receive(&self, packets: &P, watch: &mut Watch, tile: &Tile<N>, own: [Pack; N]) {
        // In the time that the others' take to come.
        tile.store::<U>(&self.place(self.team.rank()), self.team, self.team.rank(), own);
        store_received::<P, U, N>(packets, watch, tile, self.team, |sender| self.place(sender));
    }
}
