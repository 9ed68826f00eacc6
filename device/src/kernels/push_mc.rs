//! One store to everyone: all-reduce `ll_mc`, all-gather `ll_mc`. Every rank sends its message, or its share, once, as
//! multicast packets that the switch brings to all; each rank reduces or unpacks what it receives.
//!
//! ```text
//!   rank r   in ──── switch ──┬─► slots[r] of rank 0
//!                             ├─► slots[r] of rank 1
//!                             └─► slots[r] of rank …
//!   rank r   poll slots[s] of every other rank s;   all-reduce: in and slots, folded in rank order ──► out
//!                                                   all-gather: slots[s] ──► out[s]
//! ```
//!
//! One hop through the switch, no barrier. A rank sends 2·S bytes for S bytes, whatever the number of ranks, and receives
//! 2·S·n: its own come back too. The fold is that of `ll`, so results have the same bits.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. Each slot of the output is stored by the
//! thread that loaded the same slot of the input, so in and out may be the same memory.

use super::cut::{Part, Tile};
use super::exchange::{fold_parts, receive};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::{Byte, Element, Pack, Reduction};
use crate::packets::{LlMc, Packets};
use crate::team::Team;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn all_reduce_ll_mc<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) {
    let (team, message) = (Team::new(&args.comm), Part::whole(LlMc::BYTES, args));
    rounds(
        args,
        |tile| tile.load::<T>(&message, team, team.rank()),
        |packets, watch, tile, own| {
            let folded = fold_parts::<LlMc, T, O, 1>(packets, watch, tile, team, own);
            tile.store::<T>(&message, team, team.rank(), folded);
        },
    );
}

#[inline(always)]
pub(super) fn all_gather_ll_mc(args: &CollectiveArgs) {
    let (team, share) = (Team::new(&args.comm), Part::share(LlMc::BYTES, args));
    let store = |tile: &Tile<1>, sender: u32, packs| {
        let place = share.stored_behind(sender as u64 * args.len_bytes);
        tile.store::<Byte>(&place, team, team.rank(), packs);
    };
    rounds(
        args,
        |tile| tile.load::<Byte>(&share, team, team.rank()),
        |packets, watch, tile, own| {
            store(tile, team.rank(), own);
            let mut distance = 1;
            while distance < team.n_ranks() {
                let sender = team.neighbour(distance);
                store(tile, sender, receive(packets, watch, tile, sender, 0));
                distance += 1;
            }
        },
    );
}

/// Loads a tile, sends it to all, and takes what others have sent; tile by tile.
#[inline(always)]
fn rounds(
    args: &CollectiveArgs,
    load: impl Fn(&Tile<1>) -> [Pack; 1],
    take: impl Fn(&LlMc, &mut Watch, &Tile<1>, [Pack; 1]),
) {
    let mut tile = Tile::<1>::first(args, LlMc::capacity(DevBaseLayout::new(args.comm.n_ranks)));
    let mut watch = Watch::enter_with_next_ready(&args.comm);
    if tile.is_empty() {
        return;
    }
    let mut packets = LlMc::begin(&args.comm);
    loop {
        let own = load(&tile);
        packets.begin_epoch();
        if tile.has(0) && watch.is_well() {
            packets.send_to_all(args.comm.base_mc, tile.index(0), own[0]);
        }
        let is_last = tile.is_last();
        packets.turn([tile.len(), 0], is_last);
        take(&packets, &mut watch, &tile, own);
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
