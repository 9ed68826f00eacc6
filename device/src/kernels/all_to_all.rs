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

use super::cut::{Part, Tile};
use super::exchange::{receive, send};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::Byte;
use crate::packets::{Ll, Packets};
use crate::team::Team;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_to_all_ll(args: &CollectiveArgs) {
    run::<Ll, 1>(args);
}

#[inline(always)]
fn run<P: Packets, const N: usize>(args: &CollectiveArgs) {
    let team = Team::new(&args.comm);
    let mut tile = Tile::<N>::first(args, P::capacity(DevBaseLayout::new(args.comm.n_ranks)));
    // Slots are cut where the part lies in the inputs, which is the same place on all ranks.
    let part = |rank| Part::scattered(P::BYTES, args, rank);
    let store = |tile: &Tile<N>, sender: u32, packs| {
        let place = part(team.rank()).stored_behind(sender as u64 * args.len_bytes);
        tile.store::<Byte>(&place, team, team.rank(), packs);
    };
    let mut watch = Watch::enter_with_next_ready(&args.comm);
    if tile.is_empty() {
        return;
    }
    let mut packets = P::begin(&args.comm);
    loop {
        let mut distance = 1;
        while distance < team.n_ranks() {
            let peer = team.neighbour(distance);
            let packs = tile.load::<Byte>(&part(peer), team, team.rank());
            send(&packets, &watch, &tile, peer, 0, packs);
            distance += 1;
        }
        let is_last = tile.is_last();
        packets.turn([tile.len(), 0], is_last);
        store(&tile, team.rank(), tile.load::<Byte>(&part(team.rank()), team, team.rank()));
        let mut distance = 1;
        while distance < team.n_ranks() {
            let sender = team.neighbour(distance);
            store(&tile, sender, receive(&packets, &mut watch, &tile, sender, 0));
            distance += 1;
        }
        packets.retire();
        if is_last {
            break;
        }
        tile.next();
        if !packets.next_epoch(&watch) {
            break;
        }
    }
    watch.leave();
}
