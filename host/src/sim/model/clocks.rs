//! Vector clocks of three levels: chains of launches, blocks, threads.
//!
//! A run has too many threads for a clock with a component each. What is known of a thread is told by the coarsest level
//! that says it: that its launch is done, as the place of the launch in a *chain* of launches of which each is known to
//! the next; that all threads of its block got to a barrier; or how far the thread itself got.
//!
//! A thread's time is a number that grows when it releases. At a barrier of the block all times become equal, so that
//! one number tells how far a whole block got. Times begin at 1.

/// Names a block in all clocks; blocks are counted in the order in which they start.
pub(super) type BlockNumber = u32;

/// Place of a launch in the order of all launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChainPlace {
    /// Which chain.
    pub(super) chain: u32,
    /// The how-many-eth launch in it.
    pub(super) index: u32,
}

/// Something that a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) block: BlockNumber,
    pub(super) place: ChainPlace,
    pub(super) thread: u16,
    pub(super) time: u32,
}

/// What is known of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockTime {
    block: BlockNumber,
    place: ChainPlace,
    /// All threads up to here.
    all: u32,
    /// Threads of which more is known, ascending.
    threads: Vec<(u16, u32)>,
}

impl BlockTime {
    fn knows(&self, thread: u16, time: u32) -> bool {
        time <= self.all || self.thread(thread).is_some_and(|known| time <= known)
    }

    fn thread(&self, thread: u16) -> Option<u32> {
        let index = self.threads.binary_search_by_key(&thread, |&(number, _)| number).ok()?;
        Some(self.threads[index].1)
    }

    fn learn(&mut self, thread: u16, time: u32) {
        if time <= self.all {
            return;
        }
        match self.threads.binary_search_by_key(&thread, |&(number, _)| number) {
            Ok(index) => self.threads[index].1 = self.threads[index].1.max(time),
            Err(index) => self.threads.insert(index, (thread, time)),
        }
    }

    fn learn_all(&mut self, time: u32) {
        if time > self.all {
            self.all = time;
            self.threads.retain(|&(_, known)| known > time);
        }
    }
}

/// What has happened before, as far as somebody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// Time of the host.
    host: u32,
    /// By chain: so many of its launches, from the first on, are done.
    chains: Vec<u32>,
    /// Blocks of launches that are not done, ascending.
    blocks: Vec<BlockTime>,
}

impl Clock {
    /// Whether an event is known.
    #[inline]
    pub(super) fn knows(&self, event: Event) -> bool {
        self.knows_launch(event.place)
            || self.block(event.block).is_some_and(|known| known.knows(event.thread, event.time))
    }

    /// Whether a launch is known to be done.
    #[inline]
    pub(super) fn knows_launch(&self, place: ChainPlace) -> bool {
        self.chains.get(place.chain as usize).is_some_and(|&n_done| n_done > place.index)
    }

    /// Whether the host is known to have got to a time.
    pub(super) fn knows_host(&self, time: u32) -> bool {
        time <= self.host
    }

    /// How far all threads of a block are known to have got.
    pub(super) fn all_of(&self, block: BlockNumber) -> u32 {
        self.block(block).map_or(0, |known| known.all)
    }

    fn block(&self, block: BlockNumber) -> Option<&BlockTime> {
        let index = self.blocks.binary_search_by_key(&block, |known| known.block).ok()?;
        Some(&self.blocks[index])
    }

    fn block_mut(&mut self, block: BlockNumber, place: ChainPlace) -> &mut BlockTime {
        let index = match self.blocks.binary_search_by_key(&block, |known| known.block) {
            Ok(index) => index,
            Err(index) => {
                self.blocks.insert(index, BlockTime { block, place, all: 0, threads: Vec::new() });
                index
            }
        };
        &mut self.blocks[index]
    }

    /// Learns of an event and of all that its thread did before.
    pub(super) fn learn(&mut self, event: Event) {
        self.block_mut(event.block, event.place).learn(event.thread, event.time);
    }

    /// Learns that all threads of a block got to a time.
    pub(super) fn learn_block(&mut self, block: BlockNumber, place: ChainPlace, time: u32) {
        self.block_mut(block, place).learn_all(time);
    }

    /// Learns that the host got to a time.
    pub(super) fn learn_host(&mut self, time: u32) {
        self.host = self.host.max(time);
    }

    /// Learns that a launch and those before it in its chain are done.
    pub(super) fn learn_launch(&mut self, place: ChainPlace) {
        let chain = place.chain as usize;
        if self.chains.len() <= chain {
            self.chains.resize(chain + 1, 0);
        }
        self.chains[chain] = self.chains[chain].max(place.index + 1);
        self.drop_covered();
    }

    /// Learns of the launches that `other` knows to be done.
    pub(super) fn learn_launches(&mut self, other: &Self) {
        if self.chains.len() < other.chains.len() {
            self.chains.resize(other.chains.len(), 0);
        }
        self.chains.iter_mut().zip(&other.chains).for_each(|(own, &theirs)| *own = (*own).max(theirs));
    }

    /// Learns all that `other` knows.
    pub(super) fn join(&mut self, other: &Self) {
        self.host = self.host.max(other.host);
        self.learn_launches(other);
        for theirs in &other.blocks {
            if self.knows_launch(theirs.place) {
                continue;
            }
            let own = self.block_mut(theirs.block, theirs.place);
            own.learn_all(theirs.all);
            theirs.threads.iter().for_each(|&(thread, time)| own.learn(thread, time));
        }
        self.drop_covered();
    }

    fn drop_covered(&mut self) {
        let chains = &self.chains;
        let is_open = |known: &BlockTime| {
            chains.get(known.place.chain as usize).is_none_or(|&n_done| n_done <= known.place.index)
        };
        self.blocks.retain(is_open);
    }
}

/// What has happened before, and what of it an alias fence has made visible at every address of its memory (PTX ISA
/// 8.9.4, "proxy-preserved base causality order").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Know {
    /// Through any chain of synchronisation.
    pub(super) seen: Clock,
    /// Through one with `fence.proxy.alias`, or with the end of a kernel, on the way.
    pub(super) alias: Clock,
}

impl Know {
    /// Learns all that `other` knows.
    pub(super) fn join(&mut self, other: &Self) {
        self.seen.join(&other.seen);
        self.alias.join(&other.alias);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(block: u32, thread: u16, time: u32) -> Event {
        Event { block, place: place(block), thread, time }
    }

    /// Three blocks a launch, two launches a chain.
    fn place(block: u32) -> ChainPlace {
        ChainPlace { chain: block / 6, index: block / 3 % 2 }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Learn(u32, u16, u32),
        Block(u32, u32),
        Launch(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..12_u32, 0..3_u16, 1..5_u32).prop_map(|(block, thread, time)| Step::Learn(block, thread, time)),
            2 => (0..12_u32, 1..5_u32).prop_map(|(block, time)| Step::Block(block, time)),
            1 => (0..12_u32).prop_map(Step::Launch),
        ];
        proptest::collection::vec(step, 0..12)
    }

    fn holds(steps: &[Step], asked: Event) -> bool {
        steps.iter().any(|step| match *step {
            Step::Learn(block, thread, time) => {
                block == asked.block && thread == asked.thread && asked.time <= time
            }
            Step::Block(block, time) => block == asked.block && asked.time <= time,
            Step::Launch(block) => {
                let done = place(block);
                asked.place.chain == done.chain && asked.place.index <= done.index
            }
        })
    }

    fn clock(steps: &[Step]) -> Clock {
        let mut clock = Clock::default();
        for step in steps {
            match *step {
                Step::Learn(block, thread, time) => clock.learn(event(block, thread, time)),
                Step::Block(block, time) => clock.learn_block(block, place(block), time),
                Step::Launch(block) => clock.learn_launch(place(block)),
            }
        }
        clock
    }

    proptest! {
        #[test]
        fn knows_what_it_has_learnt_and_what_it_joined(one in steps(), two in steps()) {
            let mut both = clock(&one);
            both.join(&clock(&two));
            let all: Vec<Step> = one.iter().chain(&two).copied().collect();
            for (block, thread, time) in (0..12).flat_map(|b| (0..3).flat_map(move |t| (1..6).map(move |at| (b, t, at)))) {
                let asked = event(block, thread, time);
                prop_assert_eq!(clock(&one).knows(asked), holds(&one, asked));
                prop_assert_eq!(both.knows(asked), holds(&all, asked));
            }
        }
    }
}
