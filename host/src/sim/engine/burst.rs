//! One burst of one thread, and where the thread goes after it.

use super::block::{Activity, Lane};
use super::environment::{Coordinates, Surroundings};
use super::poll::Outcome;
use super::probe::{Probe, Who};
use super::{Engine, FaultSite};
use crate::sim::interface::{Fault, Stop};
use crate::sim::memory::address_map::AddressMap;
use crate::sim::schedule::{Candidates, Pick, ThreadId};
use crate::sim::thread;
use std::cmp::Reverse;

/// Bursts in a row without any access to memory after which a thread no longer counts as polling.
const NEUTRAL_BURSTS_MAX: u8 = 8;

impl<P: Probe> Engine<P> {
    /// Lets the thread that the scheduler picks run a burst.
    pub(super) fn burst(&mut self, map: &AddressMap) -> Result<(), Box<FaultSite>> {
        let blocks = &self.blocks;
        let touches_memory = |who: ThreadId| {
            let block = blocks[who.block as usize].as_ref().expect("a listed thread is resident");
            block.touches_memory(who.thread)
        };
        let candidates =
            Candidates { active: &self.active, polling: &self.polling, touches_memory: &touches_memory };
        let pick = self.scheduler.pick(candidates);
        let list = if pick.polling { &self.polling } else { &self.active };
        let who = list[pick.index];
        let (stop, instructions) = self.run_thread(map, who, pick.burst);
        self.instructions += instructions;
        self.clock.advance(instructions, self.n_live);
        let outcome = self.lane(who).polls.outcome();
        match stop {
            Stop::Budget => {
                self.settle(pick, who, outcome);
                Ok(())
            }
            other => {
                self.unlist(pick);
                self.count_polls(outcome);
                self.stop(who, other).map_err(|fault| self.fault_site(who, fault))
            }
        }
    }

    fn run_thread(&mut self, map: &AddressMap, who: ThreadId, burst: u32) -> (Stop, u64) {
        let block = self.blocks[who.block as usize].as_mut().expect("a listed thread is resident");
        let grid = self.grids[block.grid].as_ref().expect("a resident block has a grid");
        let launch = &grid.begun.launch;
        let device = launch.function.device;
        let lane = &mut block.storage.lanes[who.thread as usize];
        let n_registers = block.kernel.n_registers as usize;
        let registers = &mut block.storage.registers[who.thread as usize * n_registers..][..n_registers];
        let mut surroundings = Surroundings {
            map,
            view: &mut self.devices[device as usize].view,
            who: Who { launch: grid.begun.number, device, block: block.number, thread: who.thread, pc: 0 },
            coordinates: Coordinates {
                n_threads: launch.shape.threads,
                n_blocks: launch.shape.blocks,
                multiprocessor: block.multiprocessor,
                dynamic_shared_bytes: launch.shape.shared_bytes,
                clock_ns: self.clock.now_ns(),
            },
            parameters: &launch.argument,
            shared: &mut block.storage.shared,
            polls: &mut lane.polls,
            probe: &mut self.probe,
            probed: &mut lane.probed,
            scheduler: &mut *self.scheduler,
            link_bytes: &mut self.link_bytes,
        };
        let (stop, instructions) =
            thread::run(&block.kernel, &mut lane.state, registers, &mut surroundings, burst);
        (stop, instructions.into())
    }

    fn lane(&mut self, who: ThreadId) -> &mut Lane<P> {
        let block = self.blocks[who.block as usize].as_mut().expect("a listed thread is resident");
        &mut block.storage.lanes[who.thread as usize]
    }

    fn unlist(&mut self, pick: Pick) {
        let list = if pick.polling { &mut self.polling } else { &mut self.active };
        list.swap_remove(pick.index);
    }

    fn count_polls(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Repoll(repeats) => self.quiet_polls += u64::from(repeats),
            Outcome::Progress => self.end_quiet_by_progress(),
            Outcome::Neutral => {}
        }
    }

    fn end_quiet_by_progress(&mut self) {
        self.quiet_polls = 0;
        self.n_progress += 1;
        self.clock.end_stall();
    }

    /// Keeps a thread that may go on in the right list.
    fn settle(&mut self, pick: Pick, who: ThreadId, outcome: Outcome) {
        self.count_polls(outcome);
        let lane = self.lane(who);
        let polls = match outcome {
            Outcome::Repoll(_) => true,
            Outcome::Progress => false,
            Outcome::Neutral => pick.polling && lane.n_neutral < NEUTRAL_BURSTS_MAX,
        };
        lane.n_neutral = if outcome == Outcome::Neutral && polls { lane.n_neutral + 1 } else { 0 };
        if polls != pick.polling {
            self.unlist(pick);
            if polls { self.polling.push(who) } else { self.active.push(who) }
        }
    }

    /// Acts on a stop other than a spent budget. The thread is in no list.
    fn stop(&mut self, who: ThreadId, stop: Stop) -> Result<(), Fault> {
        let block = self.blocks[who.block as usize].as_mut().expect("a listed thread is resident");
        let (probe, woken) = (&mut self.probe, &mut self.woken);
        match stop {
            Stop::Budget => woken.push(who.thread),
            Stop::BlockBarrier(request) => block.arrive(who.thread, request, probe, woken)?,
            Stop::Warp(request) => block.exchange(who.thread, request, probe, woken)?,
            Stop::Exit => block.exit(who.thread, probe, woken)?,
            Stop::Fault(fault) => return Err(fault),
            Stop::Sleep { duration_ns } => {
                self.sleep(who, duration_ns);
                return Ok(());
            }
        }
        let exited = block.storage.lanes[who.thread as usize].activity == Activity::Exited;
        let n_live = block.n_live;
        let threads = self.woken.drain(..);
        self.active.extend(threads.map(|thread| ThreadId { block: who.block, thread }));
        // Arriving somewhere is progress: each thread does it once per meeting.
        self.end_quiet_by_progress();
        if exited {
            self.n_live -= 1;
            if n_live == 0 {
                self.remove_block(who.block);
            }
        }
        Ok(())
    }

    fn sleep(&mut self, who: ThreadId, duration_ns: u32) {
        let wake_ns = self.clock.now_ns() + u64::from(duration_ns);
        self.n_sleeps += 1;
        self.sleeping.push(Reverse((wake_ns, self.n_sleeps, who)));
    }

    /// Lets threads go on whose time has come. Each counts as polling until it does something new.
    pub(super) fn wake_sleepers(&mut self) {
        let now_ns = self.clock.now_ns();
        while let Some(&Reverse((wake_ns, _, who))) = self.sleeping.peek() {
            if wake_ns > now_ns {
                break;
            }
            self.sleeping.pop();
            let block = self.blocks[who.block as usize].as_mut().expect("a sleeping thread is resident");
            block.resume(who.thread, [0; 2]);
            self.polling.push(who);
        }
    }

    fn fault_site(&mut self, who: ThreadId, fault: Fault) -> Box<FaultSite> {
        let pc = self.lane(who).state.pc;
        let block = self.blocks[who.block as usize].as_ref().expect("a listed thread is resident");
        let launch = self.grid(block.grid).begun.launch.clone();
        Box::new(FaultSite { launch, block: block.number, thread: who.thread, pc, fault })
    }
}
