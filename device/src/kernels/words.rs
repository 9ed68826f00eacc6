//! The words of a block's share, one epoch's worth at a time.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's words are registers, unrolled over `n`; iterators over them make more code"
)]

use super::share::{Share, min};
use crate::abi::{CollectiveArgs, DevBaseLayout, LL_PATH_ONE_TILE, LL_PATH_RAGGED, LL_PAYLOAD_BYTES};
use crate::ll::LlSession;
use crate::ptx;
use crate::span::{load_word, store_word};
use crate::team::{SymPtr, Team};
use crate::thread;
use crate::wait::Watch;

/// The part of a block's share that one epoch moves: up to `N` words a thread.
///
/// `PATH` is one of the `LL_PATH_*` values of [`crate::abi`], which say what holds of the message.
pub(super) struct Words<const N: usize, const PATH: u32> {
    pub(super) team: Team,
    input: SymPtr<u8>,
    output: SymPtr<u8>,
    pub(super) len_bytes: u64,
    share: Share,
    capacity: u64,
}

/// Words that one thread has in flight where a block's share is larger than the block.
pub(super) const WORDS_PER_THREAD: usize = 4;

impl<const N: usize, const PATH: u32> Words<N, PATH> {
    /// All words are whole and aligned; else any may be ragged or misaligned.
    const FULL: bool = PATH != LL_PATH_RAGGED;
    /// The share fits in one epoch.
    const ONE_TILE: bool = PATH == LL_PATH_ONE_TILE;

    /// This block's words of a message of `len_bytes`.
    #[inline(always)]
    pub(super) fn new(args: &CollectiveArgs, len_bytes: u64) -> Self {
        let slots = DevBaseLayout::new(args.comm.n_ranks).ll_slots_per_block();
        #[expect(
            clippy::manual_div_ceil,
            reason = "no message is near 2^64 bytes, and `div_ceil` minds those that are"
        )]
        let n_words = (len_bytes + (LL_PAYLOAD_BYTES - 1)) / LL_PAYLOAD_BYTES;
        let words_per_block = args.words_per_block as u64;
        Self {
            team: Team::new(&args.comm),
            input: SymPtr::new(args.input_offset),
            output: SymPtr::new(args.output_offset),
            len_bytes,
            share: Share::of_size(n_words, thread::block_idx_x(), words_per_block),
            capacity: min(slots as u64, thread::block_dim_x() as u64 * N as u64),
        }
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.share.is_empty()
    }

    #[inline(always)]
    pub(super) fn is_last_tile(&self) -> bool {
        Self::ONE_TILE || self.share.end - self.share.start <= self.capacity
    }

    #[inline(always)]
    pub(super) fn next_tile(&mut self) {
        self.share.start += self.capacity;
    }

    /// The slot of this thread's `n`-th word.
    #[inline(always)]
    fn slot(&self, n: usize) -> u32 {
        thread::thread_idx_x() + n as u32 * thread::block_dim_x()
    }

    /// Whether this thread has an `n`-th word in this epoch.
    #[inline(always)]
    pub(super) fn has(&self, n: usize) -> bool {
        let slot = self.slot(n) as u64;
        (Self::ONE_TILE || slot < self.capacity) && slot < self.share.end - self.share.start
    }

    /// Offset of this thread's `n`-th word in the message, in bytes.
    #[inline(always)]
    fn at(&self, n: usize) -> u64 {
        (self.share.start + self.slot(n) as u64) * LL_PAYLOAD_BYTES
    }

    /// Loads this thread's words. The words that it does not have are 0.
    #[inline(always)]
    pub(super) fn load(&self) -> [u64; N] {
        let mut own = [0; N];
        for n in 0..N {
            if self.has(n) {
                let address = self.input.add_bytes(self.at(n)).own(self.team);
                // SAFETY: the host checked that the input lies inside a window; with `FULL` it is aligned.
                own[n] = unsafe {
                    if Self::FULL {
                        ptx::ld_weak_b64(address)
                    } else {
                        load_word(address, self.word_bytes(self.at(n)))
                    }
                };
            }
        }
        own
    }

    /// Sends this thread's words to every peer, unless it has given up.
    #[inline(always)]
    pub(super) fn send(&self, session: &LlSession, watch: &Watch, own: [u64; N]) {
        let mut distance = if watch.is_well() { 1 } else { self.team.n_ranks() };
        while distance < self.team.n_ranks() {
            let peer = self.team.neighbour(distance);
            for n in 0..N {
                if self.has(n) {
                    session.send(peer, self.slot(n), own[n]);
                }
            }
            distance += 1;
        }
    }

    /// This thread's words from `sender`; the words that it does not have are 0.
    #[inline(always)]
    pub(super) fn receive(&self, session: &LlSession, watch: &mut Watch, sender: u32) -> [u64; N] {
        let mut wanted = [false; N];
        for n in 0..N {
            wanted[n] = self.has(n);
        }
        session.receive(watch, sender, thread::thread_idx_x(), thread::block_dim_x(), wanted)
    }

    /// Stores this thread's words to the output, `skip_bytes` behind its start.
    #[inline(always)]
    pub(super) fn store(&self, skip_bytes: u64, words: [u64; N]) {
        for n in 0..N {
            if self.has(n) {
                let address = self.output.add_bytes(skip_bytes + self.at(n)).own(self.team);
                // SAFETY: the host checked that the output lies inside a window; with `FULL` it is aligned.
                unsafe {
                    if Self::FULL {
                        ptx::st_weak_b64(address, words[n]);
                    } else {
                        store_word(address, self.word_bytes(self.at(n)), words[n]);
                    }
                }
            }
        }
    }

    /// Bytes of the word at `at`: 8, or fewer at the end of the message.
    #[inline(always)]
    fn word_bytes(&self, at: u64) -> u64 {
        min(self.len_bytes - at, LL_PAYLOAD_BYTES)
    }
}
