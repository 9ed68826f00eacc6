//! The virtual clock.
//!
//! One nanosecond is one round: as many instructions as there are live threads, as if each thread ran one instruction
//! a nanosecond. So a bound that a kernel measures with `%globaltimer` does not shrink when more threads run. The clock
//! jumps when all threads sleep, and when the machine is told to let time pass in a stall.

/// Fractions of a nanosecond that are kept.
const FRACTION_BITS: u32 = 10;
/// First jump in a stall, in nanoseconds.
const JUMP_NS_FIRST: u64 = 1_000_000;
/// A stall that outlasts such a jump (about 13 days) is no matter of time.
const JUMP_NS_MAX: u64 = 1 << 50;

/// See the module.
#[derive(Debug)]
pub(crate) struct Clock {
    fractions: u64,
    jump_ns: u64,
}

impl Clock {
    /// At 1 second, so that no kernel reads a time near 0.
    pub(crate) fn new() -> Self {
        Self { fractions: 1_000_000_000 << FRACTION_BITS, jump_ns: JUMP_NS_FIRST }
    }

    /// Nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.fractions >> FRACTION_BITS
    }

    /// Lets the time of so many instructions pass.
    pub(crate) fn advance(&mut self, instructions: u64, n_live: u64) {
        self.fractions += (instructions << FRACTION_BITS) / n_live.max(1);
    }

    /// Jumps to a time, if that is later.
    pub(crate) fn jump_to(&mut self, time_ns: u64) {
        self.fractions = self.fractions.max(time_ns << FRACTION_BITS);
    }

    /// Jumps in a stall, twice as far as the last time; `false` when no further jump makes sense.
    pub(crate) fn jump_in_stall(&mut self) -> bool {
        if self.jump_ns > JUMP_NS_MAX {
            return false;
        }
        self.jump_to(self.now_ns() + self.jump_ns);
        self.jump_ns *= 2;
        true
    }

    /// The stall is over: the next one begins with a small jump.
    pub(crate) fn end_stall(&mut self) {
        self.jump_ns = JUMP_NS_FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_a_nanosecond() {
        let mut clock = Clock::new();
        let start_ns = clock.now_ns();
        (0..100).for_each(|_| clock.advance(64, 32));
        assert_eq!(clock.now_ns() - start_ns, 200);
    }

    #[test]
    fn jumps_double_and_end() {
        let mut clock = Clock::new();
        let start_ns = clock.now_ns();
        assert!(clock.jump_in_stall() && clock.jump_in_stall());
        assert_eq!(clock.now_ns() - start_ns, 3 * JUMP_NS_FIRST);
        let n_jumps = (0..100).take_while(|_| clock.jump_in_stall()).count();
        assert!(n_jumps < 40);
        clock.end_stall();
        assert!(clock.jump_in_stall());
    }
}
