//! Sentinel slots: the data are the sign.
//!
//! A slot is two words of 8 bytes, pure data, sent by one `st.relaxed.sys.v2.b64`; each word is one access and so
//! single-copy atomic (PTX ISA 8.2). Memory holds each word xored with the poison, so that zeroed memory is poisoned: a
//! word that is no longer 0 has arrived. What is sent, be it input, a reduced value or padding, is never poison:
//!
//! * [`Sentinel`]: the poison is a word of all ones, which in every float type is a word of NaN. A word that equals it is
//!   rewritten to canonical NaN.
//! * [`SentinelAny`]: every word may be data. The poison is one that data hardly ever are; where they are, another word
//!   stands for it, and a note beside the slot tells the two apart. Who sees that other word waits for the note, and takes
//!   it away.
//!
//! Each block has two banks, used by turns; whoever received a slot poisons it again at once. Rank p writes bank e + 2 of
//! rank q after it received a slot of epoch e + 1 from q, and q sent that after its whole block had poisoned what it
//! received at e: inside a kernel by the block barrier and the fence in `next_epoch`, from kernel to kernel by H2 (see
//! [`super`]). Notes are taken away in the same way.

#![expect(
    clippy::needless_range_loop,
    reason = "a thread's slots are registers, unrolled over `n`; iterators over them make more code"
)]

use super::{Packets, for_all_peers};
use crate::abi::{
    DevBaseLayout, DevComm, NOTE_BYTES, SENTINEL_PAYLOAD_BYTES, SENTINEL_POISON, SENTINEL_SUBSTITUTE,
    SLOT_BYTES, STEP_RECEIVE,
};
use crate::element::{Float, Pack};
use crate::ptx;
use crate::team::Team;
use crate::thread;
use crate::wait::{Awaited, Watch};
use core::hint::cold_path;
use core::marker::PhantomData;

/// Sentinel slots of floats `T`.
pub type Sentinel<T> = Unpoisoned<Floats<T>>;
/// Sentinel slots of anything.
pub type SentinelAny = Unpoisoned<Anything>;

/// Which words are sent.
pub trait Words {
    /// What words are xored with in memory.
    const POISON: u64;
    /// What is sent in place of the poison, as it stands in memory.
    const SUBSTITUTE: u64;
    /// Whether the substitute may be data too, so that a note tells which of the two was meant.
    const HAS_NOTES: bool;
}

/// Words of floats `T`.
pub struct Floats<T>(PhantomData<T>);
/// Any words.
pub struct Anything;

impl<T: Float> Words for Floats<T> {
    const POISON: u64 = u64::MAX;
    const SUBSTITUTE: u64 = T::NAN_WORD ^ Self::POISON;
    const HAS_NOTES: bool = false;
}

impl Words for Anything {
    const POISON: u64 = SENTINEL_POISON;
    const SUBSTITUTE: u64 = SENTINEL_SUBSTITUTE ^ Self::POISON;
    const HAS_NOTES: bool = true;
}

/// A note that is there; with one bit for each word of the slot in which the substitute is meant, bit 0 for the first.
const NOTE: u32 = 4;

/// Sentinel slots of words `W`.
pub struct Unpoisoned<W> {
    team: Team,
    layout: DevBaseLayout,
    block: u32,
    epoch: u32,
    words: PhantomData<W>,
}

impl<W: Words> Packets for Unpoisoned<W> {
    const BYTES: u64 = SENTINEL_PAYLOAD_BYTES;
    const HAS_TILES: bool = true;

    #[inline(always)]
    fn capacity(layout: DevBaseLayout) -> u32 {
        layout.sentinel_slots_per_block()
    }

    #[inline(always)]
    fn begin(comm: &DevComm) -> Self {
        let (team, layout, block) =
            (Team::new(comm), DevBaseLayout::new(comm.n_ranks), thread::block_idx_x());
        // SAFETY: `DevBase` is mapped; the word was last written by this block's previous kernel.
        let last = unsafe { ptx::ld_weak_b32(team.own_address(layout.sentinel_epoch_offset(block))) };
        let epoch = if intact!("sentinel_epoch_step") { last.wrapping_add(1) } else { last };
        Self { team, layout, block, epoch, words: PhantomData }
    }

    #[inline(always)]
    fn send(&self, peer: u32, index: u32, payload: Pack) {
        let slot = [payload[0] ^ W::POISON, payload[1] ^ W::POISON];
        let sent = |word| if word == 0 && intact!("sentinel_substitute") { W::SUBSTITUTE } else { word };
        let address = self.team.address(peer, self.slot_offset(self.team.rank(), index));
        // SAFETY: `DevBase` of every rank is mapped for this device and `index` is below the layout's number of slots.
        unsafe { ptx::st_relaxed_sys_v2_b64(address, [sent(slot[0]), sent(slot[1])]) }
        if W::HAS_NOTES && (is_noted::<W>(slot[0]) || is_noted::<W>(slot[1])) {
            cold_path();
            self.send_note(peer, index, slot);
        }
    }

    #[inline(always)]
    fn send_to_all(&self, index: u32, payload: Pack) {
        for_all_peers(self.team, |peer| self.send(peer, index, payload));
    }

    #[inline(always)]
    fn receive<const N: usize>(
        &self,
        watch: &mut Watch,
        sender: u32,
        index: u32,
        step: u32,
        count: u32,
    ) -> [Pack; N] {
        let mut slots = [[0u64; 2]; N];
        if count == 0 {
            return slots;
        }
        watch.until(Awaited { peer: sender, step: STEP_RECEIVE, epoch: self.epoch }, || {
            let mut all_there = true;
            for n in 0..N {
                let slot = index + (n as u32).min(count - 1) * step;
                // SAFETY: `DevBase` is mapped and the caller's indices are below the layout's number of slots.
                slots[n] = unsafe { ptx::ld_relaxed_sys_v2_b64(self.own_slot(sender, slot)) };
            }
            for n in 0..N {
                all_there &= (slots[n][0] != 0) & (slots[n][1] != 0);
            }
            (all_there, 0)
        });
        for n in 0..N {
            let is_mine = (n as u32) < count;
            if is_mine && intact!("sentinel_poisoning") {
                // SAFETY: as above.
                unsafe { ptx::st_relaxed_sys_v2_b64(self.own_slot(sender, index + n as u32 * step), [0, 0]) }
            }
            if W::HAS_NOTES && is_mine && (slots[n][0] == W::SUBSTITUTE || slots[n][1] == W::SUBSTITUTE) {
                cold_path();
                slots[n] = self.take_note(watch, sender, index + n as u32 * step, slots[n]);
            }
            slots[n] = [slots[n][0] ^ W::POISON, slots[n][1] ^ W::POISON];
        }
        slots
    }

    #[inline(always)]
    fn save(&self) {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 && intact!("sentinel_epoch_save") {
            let word = self.team.own_address(self.layout.sentinel_epoch_offset(self.block));
            // SAFETY: `DevBase` is mapped; the block's threads have read the word before the block barrier above.
            unsafe { ptx::st_weak_b32(word, self.epoch) }
        }
    }

    #[inline(always)]
    fn has_to_retire(&self) -> bool {
        false
    }

    #[inline(always)]
    fn retire(&self) {}

    #[inline(always)]
    fn next_epoch(&mut self, watch: &Watch) -> bool {
        if intact!("sentinel_epoch_step_in_kernel") {
            self.epoch = self.epoch.wrapping_add(1);
        }
        let goes_on = !thread::sync_threads_or(!watch.is_well());
        // Behind the barrier, so that each thread's later sends release what all threads of the block have poisoned: a
        // release is a fence and a store of one thread (PTX ISA 8.9.1).
        ptx::fence_acq_rel_sys();
        goes_on
    }
}

impl<W: Words> Unpoisoned<W> {
    /// Tells `peer` which words of a slot, as they stand in memory, are the substitute itself.
    #[inline(always)]
    fn send_note(&self, peer: u32, index: u32, slot: [u64; 2]) {
        let is_meant = |word| (word == W::SUBSTITUTE) as u32;
        let note = NOTE | is_meant(slot[0]) | is_meant(slot[1]) << 1;
        let address = self.team.address(peer, self.note_offset(self.team.rank(), index));
        // SAFETY: as in `send`; each slot has a note.
        unsafe { ptx::st_relaxed_sys_b32(address, note) }
    }

    /// Waits for the note of a slot that holds the substitute and takes it away; gives the slot as it was meant.
    #[inline(always)]
    fn take_note(&self, watch: &mut Watch, sender: u32, index: u32, slot: [u64; 2]) -> [u64; 2] {
        let address = self.team.own_address(self.note_offset(sender, index));
        let mut note = 0;
        watch.until(Awaited { peer: sender, step: STEP_RECEIVE, epoch: self.epoch }, || {
            // SAFETY: `DevBase` is mapped; each slot has a note.
            note = unsafe { ptx::ld_relaxed_sys_b32(address) };
            (note != 0, note)
        });
        if intact!("sentinel_note_taken") {
            // SAFETY: as above.
            unsafe { ptx::st_relaxed_sys_b32(address, 0) }
        }
        let meant = |word, bit: u32| if word == W::SUBSTITUTE && note & bit == 0 { 0 } else { word };
        [meant(slot[0], 1), meant(slot[1], 2)]
    }

    #[inline(always)]
    fn slot_offset(&self, sender: u32, index: u32) -> u64 {
        let bank = if intact!("sentinel_bank_switch") { self.epoch } else { 0 };
        self.layout.sentinel_slots_offset(self.block, bank, sender) + index as u64 * SLOT_BYTES
    }

    #[inline(always)]
    fn own_slot(&self, sender: u32, index: u32) -> u64 {
        self.team.own_address(self.slot_offset(sender, index))
    }

    #[inline(always)]
    fn note_offset(&self, sender: u32, index: u32) -> u64 {
        self.layout.sentinel_notes_offset(self.block, self.epoch, sender) + index as u64 * NOTE_BYTES
    }
}

/// Whether a word, as it stands in memory, makes its slot one with a note.
#[inline(always)]
fn is_noted<W: Words>(word: u64) -> bool {
    word == 0 || word == W::SUBSTITUTE
}
