//! One hop, everything to everyone: all-reduce `ll`, `ll_128`, `sentinel`. Every rank pushes its whole message to every
//! peer as packets and reduces what it receives.
//!
//! ```text
//!   rank 0   in ──┬─ slots of 1, 2, … ──►            in, slots[1], slots[2] ── fold ──► out
//!   rank 1   in ──┼─ slots of 0, 2, … ──►   poll     slots[0], in, slots[2] ── fold ──► out
//!   rank 2   in ──┴─ slots of 0, 1, … ──►            slots[0], slots[1], in ── fold ──► out
//! ```
//!
//! One hop, no barrier. A rank sends, for a message of S bytes: 2·S·(n−1) by `ll`, 4/3·S·(n−1) by `ll_128`, S·(n−1) by
//! `sentinel`.
//!
//! Ordering: all that crosses the link is packets; see [`crate::packets`]. Each slot of the output is stored by the
//! thread that loaded the same slot of the input, so in and out may be the same memory.

use super::cut::{Part, Places, Slots, Tile};
use super::exchange::{self, Exchange, fold_parts, send_to_all};
use crate::abi::CollectiveArgs;
use crate::element::{Element, Float, Pack, Reduction};
use crate::packets::{Ll, Ll128, Packets, Sentinel};
use crate::team::Team;
use crate::wait::Watch;
use core::marker::PhantomData;

#[inline(always)]
pub(super) fn all_reduce_ll<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<Ll, T, O, 1>(args)
}

#[inline(always)]
pub(super) fn all_reduce_ll_128<T: Element, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    run::<Ll128, T, O, 2>(args)
}

#[inline(always)]
pub(super) fn all_reduce_sentinel<T: Float, O: Reduction<T::Acc>>(args: &CollectiveArgs) -> bool {
    match T::BYTES {
        // Two slots of their accumulators would be spilled.
        1 => run::<Sentinel<T>, T, O, 1>(args),
        _ => run::<Sentinel<T>, T, O, 2>(args),
    }
}

#[inline(always)]
pub(super) fn run<P: Packets, T: Element, O: Reduction<T::Acc>, const N: usize>(
    args: &CollectiveArgs,
) -> bool {
    let message = Part::whole(P::BYTES, args);
    exchange::run::<P, _, N>(
        args,
        &PushAll::<T, O> { team: Team::new(&args.comm), message, types: PhantomData },
    )
}

struct PushAll<T, O> {
    team: Team,
    message: Part,
    types: PhantomData<(T, O)>,
}

impl<P: Packets, T: Element, O: Reduction<T::Acc>, const N: usize> Exchange<P, N> for PushAll<T, O> {
    type Input = Slots<N>;
    type Loaded = [Pack; N];

    #[inline(always)]
    fn input(&self, tile: &Tile<N>) -> Slots<N> {
        tile.input(&self.message, self.team, self.team.rank())
    }

    #[inline(always)]
    fn load(&self, tile: &Tile<N>, input: Slots<N>) -> [Pack; N] {
        tile.load_from::<T>(&self.message, input, self.team, self.team.rank())
    }

    #[inline(always)]
    fn send(&self, packets: &P, watch: &Watch, tile: &Tile<N>, own: [Pack; N]) {
        send_to_all(packets, watch, tile, 0, own);
    }

    #[inline(always)]
    fn receive(&self, packets: &P, watch: &mut Watch, tile: &Tile<N>, own: [Pack; N]) {
        // To load them again takes 3 % longer at 8 MiB, but registers for two tiles of narrow types there are not.
        let own = if P::HAS_TILES && N > 1 && T::BYTES < 4 {
            Exchange::<P, N>::load(self, tile, Exchange::<P, N>::input(self, tile))
        } else {
            own
        };
        // Computed before the wait.
        let output = tile.output(&self.message, self.team, self.team.rank()).now();
        let folded = fold_parts::<P, T, O, N>(packets, watch, tile, self.team, own);
        tile.store_at::<T>(&self.message, &output, self.team, self.team.rank(), folded);
    }
}
