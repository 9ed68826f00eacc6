//! What the kernels that exchange packets have in common: a tile is sent, received, folded.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

use super::cut::Tile;
use crate::element::{Element, Folded, Pack, Reduction, finish_all};
use crate::packets::Packets;
use crate::team::Team;
use crate::thread;
use crate::wait::Watch;

/// Sends this thread's slots of a tile to those of `peer` from `first` on, unless it has given up.
#[inline(always)]
pub(super) fn send<P: Packets, const N: usize>(
    packets: &P,
    watch: &Watch,
    tile: &Tile<N>,
    peer: u32,
    first: u32,
    own: [Pack; N],
) {
    for n in 0..N {
        if tile.has(n) && (watch.is_well() || !intact!("poison_before_sends")) {
            packets.send(peer, first + tile.index(n), own[n]);
        }
    }
}

/// This thread's slots of a tile from those of `sender` from `first` on.
#[inline(always)]
pub(super) fn receive<P: Packets, const N: usize>(
    packets: &P,
    watch: &mut Watch,
    tile: &Tile<N>,
    sender: u32,
    first: u32,
) -> [Pack; N] {
    packets.receive(watch, sender, first + tile.index(0), thread::block_dim_x(), tile.count())
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
