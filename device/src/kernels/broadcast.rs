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

use super::cut::{Part, Places, Slots, Tile};
use super::exchange::{self, Exchange, may_send, receive, send_to_all};
use crate::abi::CollectiveArgs;
use crate::element::{Byte, Pack};
use crate::packets::{Ll, Packets};
use crate::team::Team;
use crate::thread;
use crate::wait::Watch;

#[inline(always)]
pub(super) fn broadcast_ll(args: &CollectiveArgs) -> bool {
    run::<Ll, 1>(args)
}

#[inline(always)]
fn run<P: Packets, const N: usize>(args: &CollectiveArgs) -> bool {
    let (team, message) = (Team::new(&args.comm), Part::whole(P::BYTES, args));
    exchange::run::<P, _, N>(args, &Broadcast { team, root: args.root as u32, message })
}

struct Broadcast {
    team: Team,
    root: u32,
    message: Part,
}

impl Broadcast {
    #[inline(always)]
    fn is_root(&self) -> bool {
        self.team.rank() == self.root
    }
}

impl<P: Packets, const N: usize> Exchange<P, N> for Broadcast {
    type Input = Slots<N>;
    type Loaded = [Pack; N];

    #[inline(always)]
    fn input(&self, tile: &Tile<N>) -> Slots<N> {
        tile.input(&self.message, self.team, self.team.rank())
    }

    #[inline(always)]
    fn load(&self, tile: &Tile<N>, input: Slots<N>) -> [Pack; N] {
        if self.is_root() {
            tile.load_from::<Byte>(&self.message, input, self.team, self.root)
        } else {
            [[0; 2]; N]
        }
    }

    #[inline(always)]
    fn send(&self, packets: &P, watch: &Watch, tile: &Tile<N>, own: [Pack; N]) {
        if self.is_root() {
            send_to_all(packets, watch, tile, 0, own);
        } else if intact!("broadcast_empty_slots") {
            send_empty(packets, watch, self.team);
        }
    }

    #[inline(always)]
    fn receive(&self, packets: &P, watch: &mut Watch, tile: &Tile<N>, own: [Pack; N]) {
        // Computed before the wait.
        let output = tile.output(&self.message, self.team, self.team.rank()).now();
        let packs = if self.is_root() { own } else { receive(packets, watch, tile, self.root, 0) };
        tile.store_at::<Byte>(&self.message, &output, self.team, self.team.rank(), packs);
        if intact!("broadcast_empty_slots") {
            receive_empty(packets, watch, self.team, self.root);
        }
    }
}

/// Sends every peer a slot without data; each by another thread.
#[inline(always)]
fn send_empty<P: Packets>(packets: &P, watch: &Watch, team: Team) {
    let mut distance = thread::thread_idx_x() + 1;
    while distance < team.n_ranks() {
        if may_send(watch) {
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
