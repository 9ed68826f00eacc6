//! Epochs near their end: the protocols' words are set forward, then a few operations cross the wrap.

use crate::field::{Field, Operation};
use crate::harness::{Case, Context};
use crate::random::Random;
use crate::rig::{Rig, every_op, kinds};
use crate::seam::seam;
use anyhow::{Context as _, Result, ensure};
use symmem::symmetric::FlatOffset;
use symmem::{Algorithm, Collective, CommConfig, Dtype, Machine, Op, Stream};
use symmem_device::abi::{BARRIER_BLOCKS_MAX, DevBaseLayout, LL_BLOCKS_MAX, SENTINEL_BLOCKS_MAX};

/// Where the epochs are set before the crossing.
const NEAR_THE_END: u32 = u32::MAX - 3;
/// Elements of a message that one rank is late for.
const LATE_COUNT: usize = 300;
/// The root of its broadcasts.
const ROOT: u32 = 1;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("epochs::ll_takes_no_old_slot_for_new", 2, takes_no_old_slot_for_new)];
    for kind in kinds() {
        let (collective, algorithm) = kind;
        let name = format!("epochs::{collective}_{algorithm}_wraps");
        cases.push(Case::new(name, 2, move |context| crosses_the_wrap(context, kind)));
        let name = format!("epochs::{collective}_{algorithm}_waits_for_a_late_rank");
        cases.push(Case::new(name, 2, move |context| late_rank(context, collective, algorithm)));
    }
    cases
}

/// Bytes of messages: of one epoch of one block, of several, and of one that leaves slots behind which no small one
/// touches.
const SIZES: [u64; 3] = [160, 12_000, 40_000];

/// In one block and in more.
fn crosses_the_wrap(context: &Context, (collective, algorithm): (Collective, Algorithm)) -> Result<()> {
    let machine = context.machine()?;
    let n_ranks = machine.ranks_max().min(3);
    let config = CommConfig { algorithm: Some(algorithm), check: Some(false), ..every_op() };
    let mut random = Random::new(13);
    for (blocks, n_operations) in [(Some(1), 10), (Some(2), 4), (None, 6)] {
        let mut rig = Rig::with(&machine, n_ranks, &config)?;
        rig.comms.iter_mut().for_each(|comm| comm.prefer(Some(algorithm), blocks));
        let mut field = Field::new(&rig, 256 << 10, 12)?;
        // Slots and inboxes hold what small epochs left: after the wrap the same numbers come again.
        let before = [1, 2, 0, 2, 1, 0].map(|size| SIZES[size]);
        let crossing = (0..n_operations).map(|_| SIZES[random.below(2)]).collect::<Vec<_>>();
        for bytes in before {
            field.run(&mut rig, &message(collective, bytes / 4, &mut random), &mut random)?;
        }
        set_epochs(&rig, NEAR_THE_END)?;
        for (number, bytes) in crossing.into_iter().enumerate() {
            let operation = message(collective, bytes / 4 - number as u64 % 3, &mut random);
            let ran = field.run(&mut rig, &operation, &mut random);
            ran.with_context(|| format!("{blocks:?} blocks, operation {number} of {bytes} bytes"))?;
        }
    }
    Ok(())
}

/// Epochs 2 and 3 leave slots that no later message touches. After the wrap they come again, and only the zeroing of the
/// banks tells the old slots from the new.
fn takes_no_old_slot_for_new(context: &Context) -> Result<()> {
    const LARGE: u64 = 1000;
    for (collective, algorithm) in kinds() {
        if !matches!(algorithm, Algorithm::Ll | Algorithm::Ll128 | Algorithm::LlTwoShot) {
            continue;
        }
        let config = CommConfig { algorithm: Some(algorithm), ctas: Some(1), ..every_op() };
        let mut rig = Rig::with(&context.machine()?, 2, &config)?;
        let mut field = Field::new(&rig, 64 << 10, 14)?;
        let mut random = Random::new(15);
        let mut run = |rig: &mut Rig, count: u64| {
            let operation = message(collective, count, &mut random);
            field.run(rig, &operation, &mut random).with_context(|| format!("{operation:?}"))
        };
        // Epochs 1 to 5.
        [1, LARGE, LARGE, 1, 1].into_iter().try_for_each(|count| run(&mut rig, count))?;
        set_epochs(&rig, NEAR_THE_END)?;
        // The last three epochs, then 2, 3 and on.
        [1, 1, 1, LARGE, LARGE, LARGE].into_iter().try_for_each(|count| run(&mut rig, count))?;
    }
    Ok(())
}

/// One rank comes late: its input is written when the others' kernels have been running for a while. They must neither
/// end, nor read its input, nor write its output before it has come. A barrier's wrap is
/// met on entry, where it matters whom a kernel waits for.
fn late_rank(context: &Context, collective: Collective, algorithm: Algorithm) -> Result<()> {
    // A stall is what this case makes: the simulated machine has to bear it.
    let machine = context.machine_with(|sim| sim.stall_grace_ms = 60_000)?;
    let n_ranks = machine.ranks_max().min(3);
    let config = CommConfig { algorithm: Some(algorithm), ..CommConfig::default() };
    let mut rig = Rig::with(&machine, n_ranks, &config)?;
    let streams = rig.streams.clone();
    let (n_inputs, n_outputs) = collective.parts(n_ranks);
    let (n_inputs, n_outputs) = (n_inputs as usize, n_outputs as usize);
    let (mut inputs, mut outputs) =
        (rig.alloc::<f32>(LATE_COUNT * n_inputs)?, rig.alloc::<f32>(LATE_COUNT * n_outputs)?);
    set_epochs(&rig, NEAR_THE_END - 1)?;
    for round in 0..context.rounds(8, 200) {
        let value = |rank: usize| (round * 10 + rank + 1) as f32;
        let late = round % n_ranks as usize;
        let others = (0..n_ranks as usize).filter(|&rank| rank != late);
        for rank in others.clone().chain([late]) {
            if rank == late {
                let_run(&machine, &streams, others.clone())?;
            }
            inputs[rank].write(0, &vec![value(rank); LATE_COUNT * n_inputs])?;
            outputs[rank].fill_bytes(0xdb)?;
            let (comm, stream) = (&mut rig.comms[rank], &streams[rank]);
            match collective {
                Collective::AllReduce => {
                    comm.all_reduce(&inputs[rank], &mut outputs[rank], Op::Sum, stream)?
                }
                Collective::AllGather => comm.all_gather(&inputs[rank], &mut outputs[rank], stream)?,
                Collective::ReduceScatter => {
                    comm.reduce_scatter(&inputs[rank], &mut outputs[rank], Op::Sum, stream)?
                }
                Collective::Broadcast => comm.broadcast(&inputs[rank], &mut outputs[rank], ROOT, stream)?,
                Collective::AllToAll => comm.all_to_all(&inputs[rank], &mut outputs[rank], stream)?,
            }
        }
        rig.synchronize()?;
        let expected: Vec<f32> = match collective {
            Collective::AllReduce | Collective::ReduceScatter => {
                vec![(0..n_ranks as usize).map(value).sum(); LATE_COUNT]
            }
            Collective::Broadcast => vec![value(ROOT as usize); LATE_COUNT],
            Collective::AllGather | Collective::AllToAll => {
                (0..n_ranks as usize).flat_map(|rank| [value(rank); LATE_COUNT]).collect()
            }
        };
        for (rank, output) in outputs.iter().enumerate() {
            ensure!(output.to_vec()? == expected, "round {round}, rank {rank} is wrong, {late} was late");
        }
    }
    Ok(())
}

/// Lets the kernels of some ranks run for a while; none may end.
fn let_run(machine: &Machine, streams: &[Stream], ranks: impl Iterator<Item = usize> + Clone) -> Result<()> {
    for _ in 0..8 {
        std::thread::sleep(std::time::Duration::from_millis(1));
        for rank in ranks.clone() {
            let is_done = seam(machine).stream_is_done(streams[rank].handle())?;
            ensure!(!is_done, "rank {rank} did not wait for the late one");
        }
    }
    Ok(())
}

fn message(collective: Collective, count: u64, random: &mut Random) -> Operation {
    let operation = Operation::new(collective, Dtype::F32, *random.choose(Op::ALL), count);
    Operation { in_place: random.below(2) == 0, ..operation }
}

/// Sets every epoch of every rank, and the barrier's inboxes, which hold the epochs of the peers. Nothing is in flight.
fn set_epochs(rig: &Rig, epoch: u32) -> Result<()> {
    let layout = DevBaseLayout::new(rig.n_ranks());
    let n_inboxes = BARRIER_BLOCKS_MAX * rig.n_ranks();
    let words = |value: u32, n: u32| vec![value; n as usize];
    let parts = [
        (layout.ll_epoch_offset(0), words(epoch, LL_BLOCKS_MAX)),
        (layout.ll_128_epoch_offset(0), words(epoch, LL_BLOCKS_MAX)),
        (layout.sentinel_epoch_offset(0), words(epoch, SENTINEL_BLOCKS_MAX)),
        (layout.barrier_epoch_offset(0), words(epoch, BARRIER_BLOCKS_MAX)),
        (layout.barrier_inbox_offset(0, 0), words(epoch, n_inboxes)),
        (layout.mc_barrier_epoch_offset(0), words(epoch, BARRIER_BLOCKS_MAX)),
        (layout.mc_barrier_inbox_offset(0), words(epoch, BARRIER_BLOCKS_MAX)),
        (layout.ll_mc_epoch_offset(0), words(epoch, LL_BLOCKS_MAX)),
    ];
    for comm in &rig.comms {
        let device = comm.device();
        for (offset, words) in &parts {
            let address = comm.space().address(comm.rank(), FlatOffset::new(*offset));
            seam(device.machine()).write(device.index(), address, bytemuck::cast_slice(words))?;
        }
    }
    Ok(())
}
