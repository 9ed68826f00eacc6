//! What the kernels that exchange packets have in common: tile after tile is sent, received, folded.
//!
//! Where an epoch has many tiles, each is sent before the one ahead of it is received:
//!
//! ```text
//!   send 0 │ send 1, save, receive 0 │ send 2, receive 1 │ … │ receive the last
//! ```
//!
//! So the link does not idle while a tile is folded. Nothing but the data themselves makes a thread wait, and once, behind
//! the first sends of the last epoch, the other threads of its block (`save`); no tile has slots of another.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

use super::cut::{Part, Places, Stretch, Tile};
use crate::abi::{CollectiveArgs, DevBaseLayout};
use crate::element::{Element, Folded, Pack, Reduction, Unit, finish_all};
use crate::packets::Packets;
use crate::ptx;
use crate::team::Team;
use crate::thread;
use crate::wait::Watch;

/// What one kernel does with each tile of `N` slots a thread.
pub(super) trait Exchange<P: Packets, const N: usize> {
    /// Whether the upper half of an epoch's slots carries a second stage.
    const HAS_TWO_STAGES: bool = false;

    /// Where in the inputs what is loaded lies.
    type Input: Places;

    /// Where that is for the thread's slots of a tile.
    fn input(&self, tile: &Tile<N>) -> Self::Input;

    /// What is loaded of a tile before it is sent.
    type Loaded: Copy;

    /// Loads the slots that are sent first, and whatever else there is room for.
    fn load(&self, tile: &Tile<N>, input: Self::Input) -> Self::Loaded;

    /// Sends the tile.
    fn send(&self, packets: &P, watch: &Watch, tile: &Tile<N>, loaded: Self::Loaded);

    /// Receives the tile and stores what becomes of it; `loaded` is what was given to [`Self::send`].
    fn receive(&self, packets: &P, watch: &mut Watch, tile: &Tile<N>, loaded: Self::Loaded);
}

/// Runs a kernel: all that this block has to move, up to `N` slots a thread at a time. Says whether the thread has not
/// given up.
#[inline(always)]
pub(super) fn run<P, X, const N: usize>(args: &CollectiveArgs, exchange: &X) -> bool
where
    P: Packets,
    X: Exchange<P, 1> + Exchange<P, N>,
{
    // Slots that a thread does not have take time too.
    if N == 1 || P::HAS_TILES && args.slots_per_block <= thread::block_dim_x() {
        run_tiles::<P, X, 1>(args, exchange)
    } else {
        run_tiles::<P, X, N>(args, exchange)
    }
}

#[inline(always)]
fn run_tiles<P: Packets, X: Exchange<P, N>, const N: usize>(args: &CollectiveArgs, exchange: &X) -> bool {
    let mut stretch = Stretch::first(args, epoch_slots::<P, X, N>(args.comm.n_ranks));
    let tile = stretch.first_tile();
    // Addresses are computed while the kernel before ends. The assembler moves behind the wait all that it may; so there is
    // a branch that depends on them, which nobody takes. For two stages that takes too many registers.
    let input = exchange.input(&tile);
    let input = if X::HAS_TWO_STAGES { input.now() } else { input };
    if !X::HAS_TWO_STAGES && input.any_bits() == 0 {
        return true;
    }
    let mut watch = Watch::enter_with_next_ready(&args.comm);
    if stretch.is_empty() {
        return true;
    }
    let mut packets = P::begin(&args.comm);
    // The words that the packets begin with and the data are under way together.
    let mut loaded = exchange.load(&tile, input);
    loop {
        // Settled while the others' packets come, since nothing hides what is done behind them.
        let is_over = ptx::mov_b32((stretch.is_last() && !packets.has_to_retire()) as u32) != 0;
        epoch(exchange, &mut packets, &mut watch, &stretch, loaded);
        if is_over {
            break;
        }
        packets.retire();
        if stretch.is_last() {
            break;
        }
        stretch.next();
        loaded = load_now(exchange, &stretch.first_tile());
        if !packets.next_epoch(&watch) {
            break;
        }
    }
    watch.leave()
}

/// One epoch, whose first tile is loaded.
#[inline(always)]
fn epoch<P: Packets, X: Exchange<P, N>, const N: usize>(
    exchange: &X,
    packets: &mut P,
    watch: &mut Watch,
    stretch: &Stretch,
    mut loaded: X::Loaded,
) {
    let mut tile = stretch.first_tile::<N>();
    packets.open();
    exchange.send(packets, watch, &tile, loaded);
    loop {
        let next = tile.next();
        let has_next = P::HAS_TILES && !next.is_empty();
        let mut loaded_next = loaded;
        if has_next {
            loaded_next = load_now(exchange, &next);
            exchange.send(packets, watch, &next, loaded_next);
        }
        if tile.at() == 0 && stretch.is_last() {
            packets.save();
        }
        exchange.receive(packets, watch, &tile, loaded);
        if !has_next {
            return;
        }
        (tile, loaded) = (next, loaded_next);
    }
}

/// Slots of an epoch, from each sender and in each stage.
#[inline(always)]
fn epoch_slots<P: Packets, X: Exchange<P, N>, const N: usize>(n_ranks: u32) -> u32 {
    let capacity = P::capacity(DevBaseLayout::new(n_ranks)) / if X::HAS_TWO_STAGES { 2 } else { 1 };
    if P::HAS_TILES { capacity } else { capacity.min(Tile::<N>::capacity()) }
}

#[inline(always)]
fn load_now<P: Packets, X: Exchange<P, N>, const N: usize>(exchange: &X, tile: &Tile<N>) -> X::Loaded {
    exchange.load(tile, exchange.input(tile))
}

/// Sends each peer this thread's slots of its part; those for the next rank are `first`.
#[inline(always)]
pub(super) fn send_parts<P: Packets, U: Unit, const N: usize>(
    packets: &P,
    watch: &Watch,
    tile: &Tile<N>,
    team: Team,
    part: impl Fn(u32) -> Part,
    first: [Pack; N],
) {
    let mut packs = first;
    let mut distance = 1;
    while distance < team.n_ranks() {
        for n in 0..N {
            if tile.has(n) && may_send(watch) {
                packets.send(team.neighbour(distance), tile.at() + tile.index(n), packs[n]);
            }
        }
        distance += 1;
        if distance < team.n_ranks() {
            packs = tile.load::<U>(&part(team.neighbour(distance)), team, team.rank());
        }
    }
}

/// Sends the same to every peer.
#[inline(always)]
pub(super) fn send_to_all<P: Packets, const N: usize>(
    packets: &P,
    watch: &Watch,
    tile: &Tile<N>,
    skip: u32,
    own: [Pack; N],
) {
    for n in 0..N {
        if tile.has(n) && may_send(watch) {
            packets.send_to_all(skip + tile.at() + tile.index(n), own[n]);
        }
    }
}

#[inline(always)]
pub(super) fn may_send(watch: &Watch) -> bool {
    watch.is_well() || !intact!("poison_before_sends")
}

/// This thread's slots of a tile from `sender`, `skip` slots further on than the tile has them.
#[inline(always)]
pub(super) fn receive<P: Packets, const N: usize>(
    packets: &P,
    watch: &mut Watch,
    tile: &Tile<N>,
    sender: u32,
    skip: u32,
) -> [Pack; N] {
    packets.receive(watch, sender, skip + tile.at() + tile.index(0), thread::block_dim_x(), tile.count())
}

/// Receives this thread's slots of a tile from every peer, and stores each peer's at its place.
#[inline(always)]
pub(super) fn store_received<P: Packets, U: Unit, const N: usize>(
    packets: &P,
    watch: &mut Watch,
    tile: &Tile<N>,
    team: Team,
    place: impl Fn(u32) -> Part,
) {
    let mut distance = 1;
    while distance < team.n_ranks() {
        let sender = team.neighbour(distance);
        let place = place(sender);
        // Computed before the wait, where registers suffice.
        let output = tile.output(&place, team, team.rank());
        let output = if N == 1 { output.now() } else { output };
        let packs = receive(packets, watch, tile, sender, 0);
        tile.store_at::<U>(&place, &output, team, team.rank(), packs);
        distance += 1;
    }
}

/// Folds this thread's own slots and those of all peers, in rank order.
#[inline(always)]
pub(super) fn fold_parts<P: Packets, T: Element, O: Reduction<T::Acc>, const N: usize>(
    packets: &P,
    watch: &mut Watch,
    tile: &Tile<N>,
    team: Team,
    own: [Pack; N],
) -> [Pack; N] {
    let mut folded = [Folded::<T>::first([0; 2]); N];
    let mut rank = 0;
    while rank < team.n_ranks() {
        let next = if rank == team.rank() { own } else { receive(packets, watch, tile, rank, 0) };
        for n in 0..N {
            folded[n] = if rank == 0 { Folded::first(next[n]) } else { folded[n].fold::<O>(next[n]) };
        }
        rank += 1;
    }
    finish_all::<T, O, N>(folded, team.n_ranks())
}
