//! Broadcast `ll`: the root pushes its message to every peer as packets; each unpacks what it receives.
//!
//! ```text
//!   root     in ──┬─ slots of every peer ──►  poll   slots[root] ──► out   on every other rank
//!                 └───────────────────────────────────────────────► out   of the root
//!   others   an empty slot to every peer ──►  poll   slots[s]             of every rank s but the root
//! ```
//!
//! One hop, no barrier. The root sends 2·S·(n−1) bytes for a message of S bytes; its links carry all of them.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. The empty slots are what lets slots be used
//! again: who has received one at epoch e + 1 knows that its sender has read epoch e, and may write e + 2. Nobody waits
//! long for them, since each is sent before anything is waited for. In place, each slot of the root's message is loaded
//! and stored by the same thread with the same bytes.

use super::cut::{Part, Tile};
use super::exchange::{receive, send};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::Byte;
use crate::packets::{Ll, Packets};
use crate::team::Team;
use crate::thread;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn broadcast_ll(args: &CollectiveArgs) {
    run::<Ll, 1>(args);
}

#[inline(always)]
fn run<P: Packets, const N: usize>(args: &CollectiveArgs) {
    let (team, root) = (Team::new(&args.comm), args.root as u32);
    let message = Part::whole(P::BYTES, args);
    let mut tile = Tile::<N>::first(args, P::capacity(DevBaseLayout::new(args.comm.n_ranks)));
    let mut watch = Watch::enter_with_next_ready(&args.comm);
    if tile.is_empty() {
        return;
    }
    let mut packets = P::begin(&args.comm);
    loop {
        let is_last = tile.is_last();
        if team.rank() == root {
            let own = tile.load::<Byte>(&message, team, root);
            let mut distance = 1;
            while distance < team.n_ranks() {
                send(&packets, &watch, &tile, team.neighbour(distance), 0, own);
                distance += 1;
            }
            tile.store::<Byte>(&message, team, root, own);
        } else if intact!("broadcast_empty_slots") {
            send_empty(&packets, &watch, team);
        }
        packets.turn([tile.len(), 0], is_last);
        if team.rank() != root {
            let packs = receive(&packets, &mut watch, &tile, root, 0);
            tile.store::<Byte>(&message, team, team.rank(), packs);
        }
        if intact!("broadcast_empty_slots") {
            receive_empty(&packets, &mut watch, team, root);
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

/// Sends every peer a slot without data; each by another thread.
#[inline(always)]
fn send_empty<P: Packets>(packets: &P, watch: &Watch, team: Team) {
    let mut distance = thread::thread_idx_x() + 1;
    while distance < team.n_ranks() {
        if watch.is_well() || !intact!("poison_before_sends") {
            packets.send(team.neighbour(distance), 0, [0; 2]);
        }
        distance += thread::block_dim_x();
    }
}

/// Waits for the slot without data of every peer but the root; each by another thread.
#[inline(always)]
fn receive_empty<P: Packets>(packets: &P, watch: &mut Watch, team: Team, root: u32) {
    let mut distance = thread::thread_idx_x() + 1;
    while distance < team.n_ranks() {
        let sender = team.neighbour(distance);
        if sender != root {
            packets.receive::<1>(watch, sender, 0, 0, 1);
        }
        distance += thread::block_dim_x();
    }
}
