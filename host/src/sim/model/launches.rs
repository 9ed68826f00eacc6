//! The order of launches: what streams, events, graphs and the host's waits say, and nothing else.
//!
//! All host threads count as one: how they are ordered among each other the machine does not see.

use super::clocks::{BlockNumber, ChainPlace, Event, Know};
use crate::sim::driver::module::Launch;
use crate::sim::driver::task::{Order, TaskId};
use crate::sim::engine::probe::Begun;
use std::collections::HashMap;
use std::sync::Arc;

/// Blocks that are remembered before a quiet moment is used to forget them.
const BLOCKS_KEPT: usize = 1 << 16;

/// A task that the host may still order something behind.
#[derive(Debug)]
struct Node {
    /// What the host knew when it put the task in.
    host: Arc<Know>,
    after: Vec<TaskId>,
    is_kernel: bool,
    /// What is known behind the task.
    done: Option<Arc<Know>>,
}

/// A launch that has begun.
#[derive(Debug)]
pub(super) struct LaunchInfo {
    pub(super) launch: Arc<Launch>,
    pub(super) place: ChainPlace,
    /// What was known when all that it comes behind was done.
    start: Arc<Know>,
    /// What its threads start with: less, where the kernel waits itself and so may begin before that is done.
    early: Arc<Know>,
    /// One of its threads has stored.
    has_stored: bool,
}

/// A block that has started.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockInfo {
    pub(super) launch: u32,
    pub(super) number: u32,
}

/// All launches and blocks.
#[derive(Debug)]
pub(super) struct Launches {
    host: Arc<Know>,
    host_time: u32,
    nodes: HashMap<TaskId, Node>,
    /// By number, from `first` on.
    launches: Vec<LaunchInfo>,
    first_launch: u32,
    blocks: Vec<BlockInfo>,
    first_block: BlockNumber,
    /// By chain: the last launch, and how many there are.
    chains: Vec<u32>,
    n_running: usize,
}

impl Launches {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            host: Arc::default(),
            host_time: 1,
            nodes: HashMap::new(),
            launches: Vec::new(),
            first_launch: 0,
            blocks: Vec::new(),
            first_block: 1,
            chains: Vec::new(),
            n_running: 0,
        }
    }

    /// A launch by its number.
    pub(super) fn launch(&self, number: u32) -> &LaunchInfo {
        &self.launches[(number - self.first_launch) as usize]
    }

    /// A block by its number.
    pub(super) fn block(&self, number: BlockNumber) -> BlockInfo {
        self.blocks[(number - self.first_block) as usize]
    }

    /// The device that a block runs on.
    pub(super) fn device_of(&self, block: BlockNumber) -> u32 {
        self.launch(self.block(block).launch).launch.function.device
    }

    /// Something that a thread of a block did.
    pub(super) fn event(&self, block: BlockNumber, thread: u16, time: u32) -> Event {
        let place = self.launch(self.block(block).launch).place;
        Event { block, place, thread, time }
    }

    /// What the host knows, and its time.
    pub(super) fn host(&self) -> (&Know, u32) {
        (&self.host, self.host_time)
    }

    /// Whether no work is under way or waits.
    pub(super) fn is_idle(&self) -> bool {
        self.n_running == 0 && self.nodes.values().all(|node| !node.is_kernel || node.done.is_some())
    }

    /// The host has put in a task, or knows that one is done.
    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Added { task, after, is_kernel } => {
                let mut host = Know::clone(&self.host);
                host.seen.learn_host(self.host_time);
                host.alias.learn_host(self.host_time);
                self.host_time += 1;
                self.nodes.insert(task, Node { host: Arc::new(host), after, is_kernel, done: None });
            }
            Order::Known(task) => {
                if let Some(know) = self.settle(task) {
                    Arc::make_mut(&mut self.host).join(&know);
                }
                self.forget_behind(task);
            }
        }
    }

    /// What is known behind a task that is done; `None` if the host knows all of it.
    fn settle(&mut self, task: TaskId) -> Option<Arc<Know>> {
        let node = self.nodes.get(&task)?;
        if let Some(done) = &node.done {
            return Some(done.clone());
        }
        let know = self.before(task);
        self.nodes.get_mut(&task)?.done = Some(know.clone());
        Some(know)
    }

    /// What is known when a task begins.
    fn before(&mut self, task: TaskId) -> Arc<Know> {
        let Some(node) = self.nodes.get(&task) else { return self.host.clone() };
        let (mut know, after) = (node.host.clone(), node.after.clone());
        for earlier in after {
            if let Some(done) = self.settle(earlier) {
                Arc::make_mut(&mut know).join(&done);
            }
        }
        know
    }

    /// Forgets a task and all before it: the host knows them.
    fn forget_behind(&mut self, task: TaskId) {
        let mut open = vec![task];
        while let Some(task) = open.pop() {
            if let Some(node) = self.nodes.remove(&task) {
                open.extend(node.after);
            }
        }
    }

    /// A launch begins. It goes on with a chain whose last launch it knows to be done, if there is one.
    pub(super) fn begin(&mut self, begun: &Begun) {
        let start = self.before(begun.task);
        let early = match self.nodes.get(&begun.task) {
            Some(node) if begun.launch.shape.waits_itself => node.host.clone(),
            _ => start.clone(),
        };
        let goes_on = |(chain, &n): (usize, &u32)| {
            let place = ChainPlace { chain: chain as u32, index: n - 1 };
            start.seen.knows_launch(place).then_some(chain)
        };
        let chain = self.chains.iter().enumerate().find_map(goes_on).unwrap_or_else(|| {
            self.chains.push(0);
            self.chains.len() - 1
        });
        let place = ChainPlace { chain: chain as u32, index: self.chains[chain] };
        self.chains[chain] += 1;
        self.n_running += 1;
        self.launches.push(LaunchInfo {
            launch: begun.launch.clone(),
            place,
            start,
            early,
            has_stored: false,
        });
    }

    /// What a thread of a launch starts with.
    pub(super) fn early(&self, launch: u32) -> &Arc<Know> {
        &self.launch(launch).early
    }

    /// What it knows when it has waited for the work before the launch.
    pub(super) fn start(&self, launch: u32) -> &Arc<Know> {
        &self.launch(launch).start
    }

    /// A block starts; gives its number.
    pub(super) fn begin_block(&mut self, launch: u32, number: u32) -> BlockNumber {
        self.blocks.push(BlockInfo { launch, number });
        self.first_block + self.blocks.len() as u32 - 1
    }

    /// A launch is done; `know` is what its threads knew.
    pub(super) fn end(&mut self, begun: &Begun, know: Option<Arc<Know>>) {
        let info = &mut self.launches[(begun.number - self.first_launch) as usize];
        let mut know = know.unwrap_or_else(|| info.start.clone());
        let own = Arc::make_mut(&mut know);
        own.seen.learn_launch(info.place);
        own.alias.learn_launch(info.place);
        self.n_running -= 1;
        if let Some(node) = self.nodes.get_mut(&begun.task) {
            node.done = Some(know);
        }
    }

    /// All work was dropped: the host knows that nothing runs any more.
    pub(super) fn clear(&mut self) {
        let host = Arc::make_mut(&mut self.host);
        for info in &self.launches {
            host.seen.learn_launch(info.place);
            host.alias.learn_launch(info.place);
        }
        self.nodes.clear();
        self.n_running = 0;
    }

    /// A thread of a launch stores; if it is the first, what was known when the launch began.
    pub(super) fn begin_storing(&mut self, launch: u32) -> Option<Arc<Know>> {
        let info = &mut self.launches[(launch - self.first_launch) as usize];
        let is_first = !std::mem::replace(&mut info.has_stored, true);
        is_first.then(|| info.start.clone())
    }

    /// Whether no work is under way or waits, and the host knows of all that was.
    pub(super) fn is_quiet(&self) -> bool {
        self.n_running == 0 && self.nodes.is_empty()
    }

    /// In a quiet moment, forgets launches and blocks if there are many. Nothing that was kept of an access is needed
    /// then.
    pub(super) fn forget_if_many(&mut self) -> bool {
        let are_many = self.blocks.len() >= BLOCKS_KEPT;
        if are_many {
            self.first_launch += self.launches.len() as u32;
            self.first_block += self.blocks.len() as u32;
            self.launches.clear();
            self.blocks.clear();
        }
        are_many
    }
}
