//! Finding out that a thread only sees again what it has seen before.
//!
//! A thread polls when it loads words that it has loaded before at the same instruction and finds the same values, and
//! does nothing else that another thread could notice. What it computes meanwhile (a poll counter, a look at the clock)
//! does not matter. A loop over fewer than five words is always found; over more, when they spread over the table's
//! sets.

/// Entries that an access may be kept in.
const WAYS: usize = 4;
/// Groups of entries.
const SETS: usize = 4;

/// A load and what it gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Address; shared memory is told apart by the top bit.
    pub(crate) address: u64,
    /// The value, or a digest of a value of several words.
    pub(crate) value: u64,
    /// The instruction.
    pub(crate) pc: u32,
    valid: bool,
}

/// What a thread loaded lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct PollTable {
    sets: [[Seen; WAYS]; SETS],
    next_way: u8,
    /// Loads since the thread last did something new.
    repeats: u32,
    progressed: bool,
    last: Option<Seen>,
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
        let seen = Seen { address, value, pc, valid: true };
        let hash = (address ^ (u64::from(pc) << 20)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = &mut self.sets[(hash >> 62) as usize];
        if set.contains(&seen) {
            self.repeats += 1;
            self.last = Some(seen);
            return;
        }
        let known = set.iter().position(|old| old.valid && old.address == address && old.pc == pc);
        let way = known.unwrap_or_else(|| {
            self.next_way = (self.next_way + 1) % WAYS as u8;
            self.next_way as usize
        });
        set[way] = seen;
        self.progress();
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

    /// The load that was repeated last.
    pub(crate) fn last(&self) -> Option<Seen> {
        self.last
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
    }

    #[test]
    fn finds_a_loop_over_several_words() {
        for n in 1..=4 {
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
