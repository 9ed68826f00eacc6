//! What ranks in processes of their own give, and that they leave nothing behind.

use super::{case, up_to};
use crate::harness::{Case, Context, RunsOn};
use crate::processes::{Place, Program, Ranks};
use crate::user_memory::UserMemory;
use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use symmem::{Algorithm, Comm, CommConfig, Device, Op, Stream, UniqueId, Window};

pub(super) const PROGRAMS: &[(&str, Program)] = &[
    ("collectives", collectives),
    ("few_rounds", few_rounds),
    ("few_descriptors", few_descriptors),
    ("descriptors", descriptors),
    ("two_communicators", two_communicators),
    ("from_env", from_env),
    ("drop_orders", drop_orders),
    ("segments", segments),
    ("two_ranks_each", two_ranks_each),
];

const COUNTS: [usize; 4] = [1, 67, 513, 4096];
/// Open files that a process may have where they are few.
const FEW_FILES: u64 = 64;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("collectives_of_2", "collectives", 2),
        case("collectives_of_4", "collectives", 4).runs_on(RunsOn::Sim),
        case("64_descriptors_for_8_ranks", "few_descriptors", 8).runs_on(RunsOn::Sim),
        case("descriptors_are_given_back", "descriptors", 3),
        case("two_communicators_at_once", "two_communicators", 2),
        case("windows_dropped_in_any_order", "drop_orders", 3),
        case("windows_over_several_allocations", "segments", 3),
        case("two_threads_of_a_process", "two_ranks_each", 1),
        case("two_processes_of_two_ranks", "two_ranks_each", 2).runs_on(RunsOn::Sim),
        Case::new("processes::meeting_over_tcp", 2, over_tcp),
        Case::new("processes::started_by_torchrun", 2, started_by_torchrun),
    ]
}

/// What rank `rank` puts into element `index` in round `round`: small whole numbers, so that sums are exact.
fn value(rank: u32, index: usize, round: u32) -> f32 {
    ((index as u32 * 7 + rank * 31 + round * 5) % 101) as f32
}

struct Buffers {
    data: Window<f32>,
    gathered: Window<f32>,
}

impl Buffers {
    fn new(comm: &Comm, count: usize) -> Result<Self> {
        let (data, gathered) = (comm.alloc(count)?, comm.alloc(count * comm.n_ranks() as usize)?);
        Ok(Self { data: data.wait()?, gathered: gathered.wait()? })
    }

    /// One round of each collective, compared with what must come out.
    fn round(&mut self, comm: &mut Comm, stream: &Stream, round: u32) -> Result<()> {
        let (count, n_ranks, rank) = (self.data.len(), comm.n_ranks(), comm.rank());
        let input = |rank: u32| (0..count).map(move |index| value(rank, index, round));
        self.data.write(0, &input(rank).collect::<Vec<_>>())?;
        comm.all_gather(&self.data, &mut self.gathered, stream)?;
        comm.all_reduce_in_place(&mut self.data, Op::Sum, stream)?;
        comm.synchronize(stream)?;
        let expected: Vec<f32> = (0..n_ranks).flat_map(input).collect();
        ensure!(self.gathered.to_vec()? == expected, "all-gather of {count} in round {round}");
        let sums: Vec<f32> =
            (0..count).map(|index| (0..n_ranks).map(|rank| value(rank, index, round)).sum()).collect();
        ensure!(self.data.to_vec()? == sums, "all-reduce of {count} in round {round}");
        Ok(())
    }
}

fn rounds(comm: &mut Comm, device: &Device, count: usize, n_rounds: u32) -> Result<()> {
    let stream = Stream::new(device)?;
    let mut buffers = Buffers::new(comm, count)?;
    (0..n_rounds).try_for_each(|round| buffers.round(comm, &stream, round))
}

fn collectives(place: &Place) -> Result<()> {
    let device = place.device()?;
    for algorithm in [None, Some(Algorithm::TwoShotLdSt)] {
        let id = if algorithm.is_none() { place.id.clone() } else { place.second_id()? };
        let config = CommConfig { algorithm, ..CommConfig::default() };
        let mut comm = Comm::init_rank_with(&device, place.n_ranks, place.rank, &id, &config)?;
        ensure!((comm.rank(), comm.n_ranks()) == (place.rank, place.n_ranks), "{comm:?}");
        COUNTS.into_iter().try_for_each(|count| rounds(&mut comm, &device, count, 3))?;
    }
    Ok(device.machine().take_deferred()?)
}

fn few_descriptors(place: &Place) -> Result<()> {
    setrlimit(Resource::Nofile, Rlimit { current: Some(FEW_FILES), maximum: Some(FEW_FILES) })?;
    let device = place.device()?;
    let mut comm = place.comm(&device, &CommConfig::default())?;
    (0..8).try_for_each(|_| rounds(&mut comm, &device, 67, 1))
}

fn open_descriptors() -> Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// The first communicator may open what the driver keeps; the later ones leave nothing.
fn descriptors(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut id = place.id.clone();
    let mut counts = Vec::new();
    for _ in 0..4 {
        let mut comm = Comm::init_rank_with(&device, place.n_ranks, place.rank, &id, &CommConfig::default())?;
        (0..4).try_for_each(|_| rounds(&mut comm, &device, 513, 1))?;
        drop(comm);
        counts.push(open_descriptors()?);
        id = format!("{id}-next").parse()?;
    }
    ensure!(counts[1..].iter().all(|count| *count == counts[1]), "open descriptors after each: {counts:?}");
    Ok(device.machine().take_deferred()?)
}

fn two_communicators(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut first = place.comm(&device, &CommConfig::default())?;
    let mut second = Comm::init_rank_with(
        &device,
        place.n_ranks,
        place.rank,
        &place.second_id()?,
        &CommConfig::default(),
    )?;
    let stream = Stream::new(&device)?;
    let mut buffers = [Buffers::new(&first, 67)?, Buffers::new(&second, 513)?];
    for round in 0..4 {
        buffers[0].round(&mut first, &stream, round)?;
        buffers[1].round(&mut second, &stream, round)?;
    }
    // Ranks drop them in different orders: each waits for the others a bounded time.
    if place.rank == 0 {
        drop(first);
    } else {
        drop(second);
    }
    Ok(())
}

/// Two ranks in each process, a thread each; they leave in an order that differs between processes.
fn two_ranks_each(place: &Place) -> Result<()> {
    let n_ranks = 2 * place.n_ranks;
    let machine = place.machine_of(n_ranks)?;
    let (leaves, left) = channel();
    std::thread::scope(|scope| {
        let run = |rank: u32| -> Result<()> {
            let device = machine.device(rank)?;
            let memory = UserMemory::new(&device, 1 << 16)?;
            let mut comm = Comm::init_rank(&device, n_ranks, rank, &place.id)?;
            ensure!((comm.rank(), comm.n_ranks()) == (rank, n_ranks), "{comm:?}");
            (0..4).try_for_each(|_| rounds(&mut comm, &device, 513, 2))?;
            let window = comm.register::<f32>(memory.address() + 64, 100)?.wait()?;
            ensure!(comm.deregister(window)?.wait()?, "unmapped on all ranks");
            let mismatch = comm.alloc::<f32>(100 + rank as usize / 3)?.wait();
            ensure!(mismatch.is_err() == (n_ranks > 3), "{mismatch:?}");
            Ok(leaves.send((rank, comm))?)
        };
        let threads: Vec<_> =
            (2 * place.rank..2 * place.rank + 2).map(|rank| scope.spawn(move || run(rank))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    drop(leaves);
    let mut comms: Vec<_> = left.iter().collect();
    comms.sort_by_key(|(rank, _)| *rank);
    if place.rank == 1 {
        comms.reverse();
    }
    comms.into_iter().for_each(drop);
    Ok(machine.take_deferred()?)
}

/// Each rank drops its windows in an order of its own, one of them after the communicator.
fn drop_orders(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut comm = place.comm(&device, &CommConfig::default())?;
    let stream = Stream::new(&device)?;
    for round in 0..6 {
        let mut windows: Vec<_> = (0..3).map(|_| Buffers::new(&comm, 67)).collect::<Result<_>>()?;
        windows.iter_mut().try_for_each(|buffers| buffers.round(&mut comm, &stream, round))?;
        windows.rotate_left(place.rank as usize % 3);
    }
    let last = Buffers::new(&comm, 67)?;
    drop(comm);
    drop(last);
    Ok(device.machine().take_deferred()?)
}

/// A window over three physical allocations of the caller's, the last of which is longer on some ranks than on others.
fn segments(place: &Place) -> Result<()> {
    let device = place.device()?;
    let granularity = device.granularity_bytes()?;
    let memory = UserMemory::in_segments(
        &device,
        &[granularity, 2 * granularity, (1 + u64::from(place.rank)) * granularity],
    )?;
    let skipped_bytes = 4096;
    let element_of = |at_bytes: u64| ((at_bytes - skipped_bytes) / 4) as usize;
    let count = element_of(3 * granularity + granularity / 2);
    // Each around a border.
    let parts = [granularity, 3 * granularity].map(|at| element_of(at) - 500..element_of(at) + 500);
    for algorithm in [None, Some(Algorithm::TwoShotLdSt)] {
        let id = if algorithm.is_none() { place.id.clone() } else { place.second_id()? };
        let config = CommConfig { algorithm, ..CommConfig::default() };
        let mut comm = Comm::init_rank_with(&device, place.n_ranks, place.rank, &id, &config)?;
        let stream = Stream::new(&device)?;
        let mut data = comm.register::<f32>(memory.address() + skipped_bytes, count)?.wait()?;
        for round in 0..2 {
            let input: Vec<f32> = (0..count).map(|index| value(place.rank, index, round)).collect();
            data.write(0, &input)?;
            for part in &parts {
                comm.all_reduce_in_place(data.slice_mut(part.clone())?, Op::Sum, &stream)?;
            }
            comm.synchronize(&stream)?;
            let sum = |index| (0..place.n_ranks).map(|rank| value(rank, index, round)).sum::<f32>();
            let is_summed = |index| parts.iter().any(|part| part.contains(&index));
            let expected = |index| if is_summed(index) { sum(index) } else { input[index] };
            // By the caller's own mapping.
            let found = memory.read(skipped_bytes, 4 * count)?;
            let found: Vec<f32> = bytemuck::pod_collect_to_vec(&found);
            let wrong = (0..count).find(|&index| found[index] != expected(index));
            ensure!(wrong.is_none(), "element {wrong:?} of {count} in round {round}");
        }
        ensure!(comm.deregister(data)?.wait()?, "unmapped on all ranks");
    }
    Ok(device.machine().take_deferred()?)
}

fn from_env(place: &Place) -> Result<()> {
    let mut comm = Comm::from_env()?;
    ensure!((comm.rank(), comm.n_ranks()) == (place.rank, place.n_ranks), "{comm:?}");
    let device = comm.device().clone();
    rounds(&mut comm, &device, 67, 2)?;
    drop(comm);
    let mut again = Comm::from_env()?;
    let device = again.device().clone();
    rounds(&mut again, &device, 67, 2)
}

fn started_by_torchrun(context: &Context) -> Result<()> {
    let n_ranks = up_to(context, 3);
    let id = UniqueId::new()?;
    let device = if context.is_sim() { "sim" } else { "cuda" };
    let port = free_port()?;
    let variables = |rank: u32| {
        let place =
            [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", n_ranks), ("LOCAL_WORLD_SIZE", n_ranks)];
        let mut all: Vec<_> = place.map(|(name, value)| (name, value.to_string())).into();
        all.extend([("MASTER_ADDR", "127.0.0.1".into()), ("MASTER_PORT", port.to_string())]);
        all.extend([("SYMMEM_DEVICE", device.into())]);
        all
    };
    Ranks::start_some(context, "from_env", n_ranks, &id, 0..n_ranks, variables)?.finish()
}

fn over_tcp(context: &Context) -> Result<()> {
    let id = UniqueId::tcp("127.0.0.1", free_port()?)?;
    Ranks::start(context, "few_rounds", up_to(context, 3), &id)?.finish()
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn few_rounds(place: &Place) -> Result<()> {
    let device = place.device()?;
    rounds(&mut place.comm(&device, &CommConfig::default())?, &device, 67, 2)
}
