//! Finding out that a thread only sees again what it has seen before.
//!
//! A thread polls when it loads words that it has loaded before at the same instruction and finds the same values, and
//! does nothing else that another thread could notice. What it computes meanwhile (a poll counter, a look at the clock)
//! does not matter. Loops over up to [`WINDOW`] words are found.

/// Loads that are remembered: of a loop that the compiler has unrolled eight times over two words, and of what such a loop
/// looks at now and then.
const WINDOW: usize = 32;

/// A load and what it gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Address; shared memory is told apart by the top bit.
    pub(crate) address: u64,
    /// The value, or a digest of a value of several words.
    pub(crate) value: u64,
    /// The instruction.
    pub(crate) pc: u32,
}

impl Seen {
    /// A digest that is not 0, which marks an unused entry.
    #[inline(always)]
    fn tag(self) -> u32 {
        let mixed = (self.address ^ (u64::from(self.pc) << 44)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.value.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        (mixed ^ mixed >> 29) as u32 | 1
    }
}

/// What a thread loaded lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct PollTable {
    /// Loads since the thread last did something new.
    repeats: u32,
    progressed: bool,
    next: u8,
    /// The last loads that were new, as digests.
    tags: [u32; WINDOW],
    last: Seen,
}

/// What a burst amounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It stored, saw something new, or may have.
    Progress,
    /// It computed, and did not touch memory.
    Neutral,
    /// It saw again what it had seen; so many times.
    Repoll(u32),
}

impl PollTable {
    /// Notes a load.
    #[inline(always)]
    pub(crate) fn load(&mut self, pc: u32, address: u64, value: u64) {
        let seen = Seen { address, value, pc };
        let tag = seen.tag();
        // No early exit: many comparisons at once are faster than a search.
        let known = self.tags.iter().fold(false, |known, &other| known | (other == tag));
        if known {
            self.repeats += 1;
            self.last = seen;
        } else {
            self.next = (self.next + 1) % WINDOW as u8;
            self.tags[self.next as usize] = tag;
            self.progress();
        }
    }

    /// Notes that the thread did something that others can notice.
    #[inline(always)]
    pub(crate) fn progress(&mut self) {
        self.repeats = 0;
        self.progressed = true;
    }

    /// Judges the burst that ends here.
    pub(crate) fn outcome(&mut self) -> Outcome {
        let progressed = std::mem::take(&mut self.progressed);
        match std::mem::take(&mut self.repeats) {
            repeats if repeats >= 2 || (repeats == 1 && !progressed) => Outcome::Repoll(repeats),
            0 if !progressed => Outcome::Neutral,
            _ => Outcome::Progress,
        }
    }

    /// The load that was repeated last; `None` when none was.
    pub(crate) fn last(&self) -> Option<Seen> {
        (self.last != Seen::default()).then_some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_polls_from_work() {
        let check = |loads: &[(u32, u64, u64)], expect: Outcome| {
            let mut table = PollTable::default();
            loads.iter().for_each(|&(pc, address, value)| table.load(pc, address, value));
            assert_eq!(table.outcome(), expect, "{loads:?}");
        };
        check(&[], Outcome::Neutral);
        check(&[(1, 64, 0)], Outcome::Progress);
        check(&[(1, 64, 0), (1, 64, 0), (1, 64, 0)], Outcome::Repoll(2));
        check(&[(1, 64, 0), (1, 64, 0), (1, 64, 1)], Outcome::Progress);
        check(&[(1, 64, 0), (1, 72, 0), (1, 80, 0), (1, 88, 0)], Outcome::Progress);
        check(&[(1, 64, 0), (2, 64, 0), (3, 64, 0), (4, 64, 0)], Outcome::Progress);
    }

    #[test]
    fn finds_a_loop_over_several_words() {
        for n in 1..=WINDOW as u64 {
            let mut table = PollTable::default();
            for round in 0..3 {
                (0..n).for_each(|word| table.load(5, 0x7f00_0000_0000 + word * 0x4000_0000, 0));
                let expect = if round == 0 { Outcome::Progress } else { Outcome::Repoll(n as u32) };
                assert_eq!(table.outcome(), expect, "{n} words, round {round}");
            }
        }
    }

    #[test]
    fn a_store_is_progress_until_the_next_polls() {
        let mut table = PollTable::default();
        table.load(1, 64, 0);
        table.progress();
        table.load(1, 64, 0);
        assert_eq!(table.outcome(), Outcome::Progress);
        table.load(1, 64, 0);
        assert_eq!(table.outcome(), Outcome::Repoll(1));
    }
}
