//! Many messages on one communicator, of all sizes, by all algorithms and in every order, with nothing between them.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context};
use crate::random::{Random, Values};
use crate::rig::{Rig, every_op, kinds};
use anyhow::{Context as _, Result};
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};

/// Sizes from one slot to several epochs of one block, in elements of 4 bytes.
const SIZES: [u64; 4] = [5000, 1, 3, 1025];
/// A message that is not small, on the simulated machine.
const LARGE_BYTES: u64 = 400 << 10;
/// A message that is not small on GPUs, where packets are the fastest for longer.
const LARGE_ON_GPUS_BYTES: u64 = 12 << 20;
/// Room for the largest message or gathered share, and a guard.
const PITCH_BYTES: u64 = 128 << 10;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("sequences::protocols_and_blocks_mixed", 2, protocols_and_blocks_mixed),
        Case::new("sequences::one_communicator_mixes_algorithms", 2, one_communicator_mixes_algorithms),
        Case::new("sequences::communicators_take_turns", 2, communicators_take_turns),
        Case::new("sequences::devices_in_another_order", 3, devices_in_another_order),
    ];
    cases.extend(kinds().into_iter().map(|kind| {
        let name = format!("sequences::{}_{}_every_order", kind.0, kind.1);
        Case::new(name, 2, move |context| every_order(context, kind))
    }));
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

/// Four messages at a time, launched without a look between them, each in one block or in more.
fn every_order(context: &Context, (collective, algorithm): (Collective, Algorithm)) -> Result<()> {
    let mut rig = Rig::with(&context.machine()?, 2, &CommConfig { check: Some(false), ..every_op() })?;
    let mut field = Field::new(&rig, (GUARD_BYTES + PITCH_BYTES * SIZES.len() as u64) as usize, 3)?;
    let mut random = Random::new(4);
    for sizes in (0..context.rounds(1, 8)).flat_map(|_| orders_of(&SIZES)) {
        let mut messages = Vec::new();
        for (slot, &size) in (0..).zip(&sizes) {
            // All bits 1 are what the slots of some protocols hold when nothing is in them.
            let values = *random.choose(&[Values::Plain, Values::Ones, Values::Poison]);
            messages.push(Operation { values, ..message(collective, size, slot, &mut random) });
        }
        messages.iter().try_for_each(|message| field.stage(message, &mut random))?;
        for message in &messages {
            let blocks = *random.choose(&[Some(1), Some(1), Some(2), None]);
            rig.comms.iter_mut().for_each(|comm| comm.prefer(Some(algorithm), blocks));
            field.launch(&mut rig, message)?;
        }
        rig.synchronize()?;
        field.verify().with_context(|| format!("sizes {sizes:?}"))?;
    }
    Ok(())
}

/// Any algorithm after any other on one communicator, with any number of blocks, on any size: what one protocol leaves in
/// its memory is no other's, and what one block leaves is not for another.
fn protocols_and_blocks_mixed(context: &Context) -> Result<()> {
    const SLOTS: u64 = 3;
    let machine = context.machine()?;
    let ranks = machine.ranks_max().min(3);
    let mut rig = Rig::with(&machine, ranks, &every_op())?;
    let mut field = Field::new(&rig, (GUARD_BYTES + PITCH_BYTES * SLOTS) as usize, 16)?;
    let (mut random, kinds) = (Random::new(17), kinds());
    for round in 0..context.rounds(120, 10_000 / SLOTS as usize) {
        let mut mixed = Vec::new();
        for slot in 0..SLOTS {
            let (collective, algorithm) = *random.choose(&kinds);
            let many = if random.below(8) == 0 { 100 } else { 7 };
            let blocks = *random.choose(&[None, Some(1), Some(2), Some(3), Some(many)]);
            let count = 1 + random.bits() % (1 << random.below(12));
            let values = *random.choose(&[Values::Plain, Values::Special, Values::Ones, Values::Poison]);
            let message = Operation { values, ..message(collective, count, slot, &mut random) };
            mixed.push((algorithm, blocks, message));
        }
        mixed.iter().try_for_each(|(_, _, message)| field.stage(message, &mut random))?;
        for (algorithm, blocks, message) in &mixed {
            rig.comms.iter_mut().for_each(|comm| comm.prefer(Some(*algorithm), *blocks));
            let plan =
                rig.comms[0].plan(message.collective, message.count, message.dtype, Some(message.op))?;
            anyhow::ensure!(plan.kernel.algorithm == *algorithm, "{} ran instead", plan.kernel.name);
            field.launch(&mut rig, message)?;
        }
        rig.synchronize()?;
        field.verify().with_context(|| format!("round {round}: {mixed:?}"))?;
    }
    Ok(())
}

/// The plan chooses by size: packets and barriers, few blocks and many, every collective.
fn one_communicator_mixes_algorithms(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let n_ranks = machine.ranks_max().min(4);
    let large_bytes = if context.is_sim() { LARGE_BYTES } else { LARGE_ON_GPUS_BYTES };
    let mut rig = Rig::with(&machine, n_ranks, &every_op())?;
    let mut field = Field::new(&rig, (large_bytes as usize + 4096) * n_ranks as usize, 5)?;
    let (mut random, mut seen) = (Random::new(6), Vec::new());
    let n_large = context.rounds(3, 60);
    for round in 0..context.rounds(100, 3000) {
        let large = round % 32 == 0 && round / 32 < n_large;
        let collective = if large {
            Collective::ALL[round / 32 % Collective::ALL.len()]
        } else {
            *random.choose(Collective::ALL)
        };
        let count = if large { large_bytes / 4 + 1 } else { 1 + random.bits() % (1 << random.below(12)) };
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
    anyhow::ensure!(seen.len() > 2, "only {seen:?} ran");
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
