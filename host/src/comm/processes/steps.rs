//! Whole communicators of three ranks, whose rank 1 talks through somebody in the middle: at each step of init,
//! registration and deregistration a message of it is lost, late, doubled or cut short.

use super::Identity;
use super::channel::Channel;
use super::deadline::Deadline;
use super::frame::{Assembler, Frame, Kind, encode};
use super::seat::ProcessSeat;
use crate::Result;
use crate::comm::init::Process;
use crate::comm::unique_id::JobId;
use crate::comm::worker::Worker;
use crate::comm::{Comm, CommConfig};
use crate::machine::Machine;
use crate::sim::{LiveCounts, SimConfig, SimMachine};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const N_RANKS: u32 = 3;
/// Whose messages are tampered with.
const ONE: u32 = 1;
/// Bound of each exchange where a message is tampered with.
const TIMEOUT: Duration = Duration::from_millis(300);
/// Each rank ends one wait by its deadline, and another when it parts; the rest is room for a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    /// Later than the deadline.
    Late,
    Doubled,
    CutShort,
}

/// What somebody in the middle does to rank 1's message of one number, and the steps that passed.
#[derive(Debug)]
struct Middle {
    at: u64,
    fate: Fate,
    steps: Mutex<Vec<String>>,
}

fn us(rank: u32) -> Identity {
    Identity { job: JobId([5; 16]), rank, n_ranks: N_RANKS }
}

impl Middle {
    /// Carries messages of `from` to another rank until either end closes.
    fn carry(&self, from: u32, input: &Channel, output: &Channel) {
        let (mut assembler, ever) = (Assembler::default(), Deadline::after(SOON));
        while let Ok(frame) = input.receive(&mut assembler, us(from), Some(from), ever) {
            let is_it = from == ONE && frame.kind == Kind::Gather && frame.sequence == self.at;
            if frame.kind == Kind::Gather && from == ONE {
                let mut steps = self.steps.lock().expect("no panic");
                if steps.len() as u64 == frame.sequence {
                    steps.push(frame.step.clone());
                }
            }
            let fate = if is_it { self.fate } else { Fate::Arrives };
            if self.pass(&frame, from, output, fate).is_none() {
                break;
            }
        }
        input.shut();
        output.shut();
    }

    fn pass(&self, frame: &Frame, from: u32, output: &Channel, fate: Fate) -> Option<()> {
        let Frame { kind, sequence, step, payload, fds, .. } = frame;
        let bytes = encode(us(from), *kind, *sequence, step, payload, fds.len());
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let send = |bytes: &[u8]| output.send(bytes, &fds, Deadline::after(SOON)).ok();
        match fate {
            Fate::Arrives => send(&bytes),
            Fate::Lost => Some(()),
            Fate::Late => {
                std::thread::sleep(TIMEOUT + TIMEOUT / 2);
                send(&bytes)
            }
            Fate::Doubled => send(&bytes).and_then(|()| send(&bytes)),
            // What follows is taken for the rest of it.
            Fate::CutShort => send(&bytes[..bytes.len() - 20]),
        }
    }
}

fn channel(socket: UnixStream) -> Channel {
    socket.set_nonblocking(true).expect("a socket");
    Channel::new(OwnedFd::from(socket))
}

/// Seats of three ranks, and what joins rank 1 with the others: from, input, output.
fn seats(timeout: Duration) -> (Vec<ProcessSeat>, Vec<(u32, Channel, Channel)>) {
    let mut channels: Vec<Vec<_>> = (0..N_RANKS).map(|_| (0..N_RANKS).map(|_| None).collect()).collect();
    let mut ways = Vec::new();
    let mut join = |a: u32, b: u32, [to_a, to_b]: [UnixStream; 2]| {
        channels[a as usize][b as usize] = Some((channel(to_a), Assembler::default()));
        channels[b as usize][a as usize] = Some((channel(to_b), Assembler::default()));
    };
    let pair = || UnixStream::pair().expect("two sockets");
    let (zero, two) = pair();
    join(0, 2, [zero, two]);
    for other in [0, 2] {
        let ((one, near), (its, far)) = (pair(), pair());
        let again = |socket: &UnixStream| channel(socket.try_clone().expect("a descriptor"));
        ways.push((ONE, again(&near), again(&far)));
        ways.push((other, channel(far), channel(near)));
        join(ONE, other, [one, its]);
    }
    let seats = (0..).zip(channels).map(|(rank, channels)| ProcessSeat::new(us(rank), channels, timeout));
    (seats.collect::<Result<_>>().expect("seats"), ways)
}

/// What a rank's process does: makes the communicator, registers, deregisters, and asks once more.
fn rank(machine: &Machine, seat: ProcessSeat, timeout: Duration) -> Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(1 << 32);
    let rank = crate::comm::bootstrap::Bootstrap::rank(&seat);
    let device = machine.device(rank)?;
    let config = CommConfig { host_timeout_ms: timeout.as_millis() as u64, ..CommConfig::default() };
    let id = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = Arc::new(Process::new(id, vec![rank], N_RANKS));
    let (worker, started) = Worker::start(device.clone(), process.clone(), Arc::new(seat), config)?;
    let comm = Comm::finish(rank, &device, worker, &started, process)?;
    let window = comm.alloc::<f32>(100)?.wait()?;
    comm.deregister(window)?.wait()?;
    comm.alloc::<f32>(100)?.wait().map(drop)
}

/// One run; gives each rank's answer, and the steps of rank 1.
fn run(machines: &[(Machine, Arc<SimMachine>)], at: u64, fate: Fate) -> (Vec<Result<()>>, Vec<String>) {
    let middle = Middle { at, fate, steps: Mutex::default() };
    let timeout = if fate == Fate::Arrives { SOON } else { TIMEOUT };
    let (seats, ways) = seats(timeout);
    let answers = std::thread::scope(|scope| {
        for (from, input, output) in ways {
            let middle = &middle;
            scope.spawn(move || middle.carry(from, &input, &output));
        }
        let machines = machines.iter().map(|(machine, _)| machine);
        let start = |(machine, seat)| scope.spawn(move || rank(machine, seat, timeout));
        let threads: Vec<_> = machines.zip(seats).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    (answers, middle.steps.into_inner().expect("no panic"))
}

/// In the last step of a request rank 1 has all that it needs; then it is told when it next asks.
#[test]
fn whatever_happens_to_a_message_all_ranks_are_told() {
    let (answers, steps) = run(&machines(), u64::MAX, Fate::Arrives);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let last = steps.iter().rposition(|step| step == "request").expect("a last request");
    assert!(steps[0].starts_with("init") && last > 12, "{steps:?}");
    let n_files = || std::fs::read_dir("/proc/self/fd").expect("it is there").count();
    let before = n_files();
    std::thread::scope(|scope| {
        for fate in [Fate::Lost, Fate::Late, Fate::Doubled, Fate::CutShort] {
            let steps = &steps[..last];
            scope.spawn(move || at_each(steps, fate));
        }
    });
    // Other tests of this process open and close files meanwhile; one that leaked in every run would show.
    assert!(n_files() < before + last, "{before} before, {} after", n_files());
}

fn machines() -> Vec<(Machine, Arc<SimMachine>)> {
    let machine = |_| {
        let sim =
            SimMachine::new(SimConfig { n_devices: N_RANKS, ..SimConfig::default() }).expect("a machine");
        (Machine::from_backend(sim.clone()), sim)
    };
    (0..N_RANKS).map(machine).collect()
}

fn at_each(steps: &[String], fate: Fate) {
    let machines = machines();
    for (at, step) in (0..).zip(steps) {
        let start = Instant::now();
        let (answers, _) = run(&machines, at, fate);
        assert!(answers.iter().all(Result::is_err), "{step} {fate:?}: {answers:?}");
        assert!(start.elapsed() < SOON, "{step} {fate:?}: it took {:?}", start.elapsed());
        for (machine, sim) in &machines {
            machine.take_deferred().expect("no destructor failed");
            assert_eq!(sim.live(), LiveCounts::default(), "{step} {fate:?}");
        }
    }
}
