//! All-to-all `ll`: every rank pushes to every peer the part that is that peer's, as packets; each unpacks what it
//! receives.
//!
//! ```text
//!   rank r   in[p] ──► slots of peer p                 for every other rank p
//!            in[r] ──────────────────────► out[r]
//!            poll      slots[s] ──────────► out[s]     for every other rank s
//! ```
//!
//! One hop, no barrier. A rank sends 2·S·(n−1) bytes for parts of S bytes.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. Input and output are disjoint: in place, a
//! rank would store a part that it has received where one lies that it has yet to send.

use super::cut::{Part, Slots, Tile};
use super::exchange::{self, Exchange, send_parts, store_received};
use crate::abi::CollectiveArgs;
use crate::element::{Byte, Pack};
use crate::packets::{Ll, Packets};
use crate::team::Team;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_to_all_ll(args: &CollectiveArgs) -> bool {
    run::<Ll, 1>(args)
}

#[inline(always)]
fn run<P: Packets, const N: usize>(args: &CollectiveArgs) -> bool {
    exchange::run::<P, _, N>(args, &AllToAll { args, team: Team::new(&args.comm) })
}

struct AllToAll<'a> {
    args: &'a CollectiveArgs,
    team: Team,
}

impl AllToAll<'_> {
    /// The part for `rank`. Slots are cut where it lies in the inputs, which is the same place on all ranks.
    #[inline(always)]
    fn part(&self, slot_bytes: u64, rank: u32) -> Part {
        Part::scattered(slot_bytes, self.args, rank)
    }

    /// Where the part that comes from `sender` is stored.
    #[inline(always)]
    fn place(&self, slot_bytes: u64, sender: u32) -> Part {
        let mine = self.part(slot_bytes, self.team.rank());
        mine.stored_behind(sender as u64 * self.args.len_bytes)
    }
}

impl<P: Packets, const N: usize> Exchange<P, N> for AllToAll<'_> {
    type Input = Slots<N>;
    type Loaded = [Pack; N];

    #[inline(always)]
    fn input(&self, tile: &Tile<N>) -> Slots<N> {
        tile.input(&self.part(P::BYTES, self.team.neighbour(1)), self.team, self.team.rank())
    }

    #[inline(always)]
    fn load(&self, tile: &Tile<N>, input: Slots<N>) -> [Pack; N] {
        let part = self.part(P::BYTES, self.team.neighbour(1));
        tile.load_from::<Byte>(&part, input, self.team, self.team.rank())
    }

    #[inline(always)]
    fn send(&self, packets: &P, watch: &Watch, tile: &Tile<N>, first: [Pack; N]) {
        let part = |rank| self.part(P::BYTES, rank);
        send_parts::<P, Byte, N>(packets, watch, tile, self.team, part, first);
    }

    #[inline(always)]
    fn receive(&self, packets: &P, watch: &mut Watch, tile: &Tile<N>, _first: [Pack; N]) {
        let mine = self.place(P::BYTES, self.team.rank());
        let own = tile.load::<Byte>(&mine, self.team, self.team.rank());
        tile.store::<Byte>(&mine, self.team, self.team.rank(), own);
        let place = |sender| self.place(P::BYTES, sender);
        store_received::<P, Byte, N>(packets, watch, tile, self.team, place);
    }
}
