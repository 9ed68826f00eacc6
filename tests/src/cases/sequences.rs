//! Many messages on one communicator, of all sizes and in every order, with nothing between them.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context};
use crate::random::{Random, Values};
use crate::rig::{Rig, every_op, kinds};
use anyhow::{Context as _, Result};
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};

/// Sizes from one slot to several epochs of one block, in elements of 4 bytes.
const SIZES: [u64; 4] = [5000, 1, 3, 1025];
/// A message that is not small.
const LARGE_BYTES: u64 = 1 << 20;
/// Room for the largest message or gathered share, and a guard.
const PITCH_BYTES: u64 = 128 << 10;

pub(super) fn cases() -> Vec<Case> {
    let orders = [
        (Collective::AllReduce, Algorithm::Ll, Some(1)),
        (Collective::AllReduce, Algorithm::Ll, None),
        (Collective::AllReduce, Algorithm::TwoShotLdSt, Some(2)),
        (Collective::AllGather, Algorithm::Ll, Some(1)),
        (Collective::AllReduce, Algorithm::Ll128, Some(1)),
        (Collective::AllReduce, Algorithm::LlTwoShot, Some(1)),
        (Collective::AllReduce, Algorithm::Sentinel, Some(1)),
        (Collective::AllReduce, Algorithm::SentinelTwoShot, Some(2)),
        (Collective::AllReduce, Algorithm::TwoShotPush, Some(2)),
        (Collective::AllGather, Algorithm::Ll128, None),
        (Collective::AllGather, Algorithm::St, None),
        (Collective::ReduceScatter, Algorithm::Sentinel, Some(1)),
        (Collective::ReduceScatter, Algorithm::Ll128, Some(1)),
        (Collective::ReduceScatter, Algorithm::Push, Some(1)),
        (Collective::ReduceScatter, Algorithm::Ld, Some(3)),
    ];
    let orders = orders.map(|(collective, algorithm, ctas)| {
        let blocks = ctas.map_or("auto".into(), |ctas| ctas.to_string());
        let name = format!("sequences::{collective}_{algorithm}_every_order_blocks_{blocks}");
        Case::new(name, 2, move |context| every_order(context, collective, algorithm, ctas))
    });
    let mut cases = vec![
        Case::new("sequences::one_communicator_mixes_algorithms", 2, one_communicator_mixes_algorithms),
        Case::new("sequences::communicators_take_turns", 2, communicators_take_turns),
        Case::new("sequences::devices_in_another_order", 3, devices_in_another_order),
        Case::new("sequences::algorithms_give_the_same_bits", 2, same_bits),
    ];
    cases.extend(orders);
    cases
}

/// The `slot`-th message of several that are in flight at once: each has memory of its own.
fn message(collective: Collective, count: u64, slot: u64, random: &mut Random) -> Operation {
    let offset = GUARD_BYTES + slot * PITCH_BYTES;
    Operation {
        collective,
        dtype: Dtype::F32,
        op: *random.choose(Op::ALL),
        count,
        input: Place { window: 0, offset },
        output: Place { window: 1, offset },
        in_place: random.below(2) == 0,
        values: Values::Plain,
    }
}

fn orders_of(items: &[u64]) -> Vec<Vec<u64>> {
    if items.is_empty() {
        return vec![vec![]];
    }
    let without = |at: usize| [&items[..at], &items[at + 1..]].concat();
    let orders = (0..items.len()).flat_map(|at| {
        orders_of(&without(at)).into_iter().map(move |rest| [&items[at..at + 1], &rest].concat())
    });
    orders.collect()
}

/// Four messages at a time, launched without a look between them.
fn every_order(
    context: &Context,
    collective: Collective,
    algorithm: Algorithm,
    ctas: Option<u32>,
) -> Result<()> {
    let config = CommConfig { algorithm: Some(algorithm), ctas, ..every_op() };
    let mut rig = Rig::with(&context.machine()?, 2, &config)?;
    let mut field = Field::new(&rig, (GUARD_BYTES + PITCH_BYTES * SIZES.len() as u64) as usize, 3)?;
    let mut random = Random::new(4);
    for sizes in orders_of(&SIZES) {
        let messages: Vec<Operation> =
            (0..).zip(&sizes).map(|(slot, &size)| message(collective, size, slot, &mut random)).collect();
        messages.iter().try_for_each(|message| field.stage(message, &mut random))?;
        messages.iter().try_for_each(|message| field.launch(&mut rig, message))?;
        rig.synchronize()?;
        field.verify().with_context(|| format!("sizes {sizes:?}"))?;
    }
    Ok(())
}

/// The plan chooses by size: packets and barriers, few blocks and many, every collective.
fn one_communicator_mixes_algorithms(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let n_ranks = machine.ranks_max().min(5);
    let mut rig = Rig::with(&machine, n_ranks, &every_op())?;
    let mut field = Field::new(&rig, (LARGE_BYTES as usize + 4096) * n_ranks as usize, 5)?;
    let (mut random, mut seen) = (Random::new(6), Vec::new());
    let n_large = context.rounds(6, 60);
    for round in 0..context.rounds(200, 3000) {
        let large = round % 32 == 0 && round / 32 < n_large;
        let collective = if large {
            Collective::ALL[round / 32 % Collective::ALL.len()]
        } else {
            *random.choose(Collective::ALL)
        };
        let count = if large { LARGE_BYTES / 4 + 1 } else { 1 + random.bits() % (1 << random.below(12)) };
        let operation = message(collective, count, 0, &mut random);
        seen.push(rig.comms[0].plan(collective, count, Dtype::F32, Some(operation.op))?.kernel.algorithm);
        field.stage(&operation, &mut random)?;
        field.launch(&mut rig, &operation)?;
        if random.below(4) == 0 {
            rig.synchronize()?;
            field.verify().with_context(|| format!("round {round}: {operation:?}"))?;
        } else {
            rig.synchronize()?;
        }
    }
    field.verify()?;
    seen.sort();
    seen.dedup();
    anyhow::ensure!(seen.len() > 3, "only {seen:?} ran");
    Ok(())
}

/// Communicators over the same devices do not touch each other's state.
fn communicators_take_turns(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let settings = [
        (Some(Algorithm::Ll), Some(1)),
        (Some(Algorithm::Ll), Some(7)),
        (Some(Algorithm::TwoShotLdSt), Some(2)),
        (None, None),
    ];
    let mut random = Random::new(7);
    let mut made = settings.map(|(algorithm, ctas)| -> Result<(Rig, Field)> {
        let rig = Rig::with(&machine, 2, &CommConfig { algorithm, ctas, ..every_op() })?;
        let field = Field::new(&rig, PITCH_BYTES as usize, 8)?;
        Ok((rig, field))
    });
    for round in 0..context.rounds(300, 3000) {
        let turn = random.below(made.len());
        let (rig, field) = made[turn].as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let collective = *random.choose(Collective::ALL);
        let count = 1 + random.bits() % (1 << random.below(13));
        let operation = message(collective, count, 0, &mut random);
        field.run(rig, &operation, &mut random).with_context(|| format!("round {round}, turn {turn}"))?;
    }
    Ok(())
}

/// A rank is a place in the communicator, not a number of a device.
fn devices_in_another_order(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let mut devices = machine.places(3)?;
    devices.rotate_right(1);
    let mut rig = Rig::on(&devices, &machine.sharing(&every_op()))?;
    let mut field = Field::new(&rig, PITCH_BYTES as usize, 9)?;
    let mut random = Random::new(10);
    for collective in Collective::ALL {
        field.run(&mut rig, &message(*collective, 777, 0, &mut random), &mut random)?;
    }
    Ok(())
}

/// All algorithms of a collective give each other's bits, whatever the values. Those that have no kernel for a type
/// leave the choice to the plan.
fn same_bits(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let n_ranks = machine.ranks_max().min(3);
    let algorithms: Vec<_> =
        kinds().into_iter().filter(|kind| kind.0 == Collective::AllReduce).map(|kind| kind.1).collect();
    for dtype in Dtype::ALL {
        let results = algorithms.iter().map(|algorithm| -> Result<Vec<u8>> {
            let dtypes = vec![*dtype];
            let config = CommConfig { algorithm: Some(*algorithm), dtypes, ..every_op() };
            let mut rig = Rig::with(&machine, n_ranks, &config)?;
            let mut random = Random::new(11);
            let mut data = rig.alloc::<u8>(dtype.bytes() as usize * 1501)?;
            for window in &mut data {
                window.write(0, &random.elements(*dtype, Values::Special, 1501))?;
            }
            for op in Op::ALL {
                let addresses: Vec<u64> = data.iter().map(symmem::Window::address).collect();
                rig.each(|comm, stream| {
                    let at = addresses[comm.rank() as usize];
                    comm.all_reduce_at(at, at, 1501, *dtype, *op, stream)
                })?;
            }
            rig.synchronize()?;
            let mut bytes = vec![0; data[0].len()];
            data[n_ranks as usize - 1].read(0, &mut bytes)?;
            Ok(bytes)
        });
        let results = results.collect::<Result<Vec<_>>>()?;
        for (algorithm, result) in algorithms.iter().zip(&results) {
            anyhow::ensure!(*result == results[0], "{dtype}: {algorithm} and {} differ", algorithms[0]);
        }
    }
    Ok(())
}
