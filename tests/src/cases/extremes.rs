//! Messages of many rounds, teams larger than a node's, and memory far beyond 4 GiB.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context, RunsOn};
use crate::random::{Random, Values};
use crate::rig::{Rig, kinds};
use anyhow::{Context as _, Result, ensure};
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};
use symmem_device::kernels::find;

/// More than a block's slots or scratch hold at once, many times over.
const COUNT_OF_ROUNDS: u64 = 150_001;
/// More ranks than a node has, and as many as share a multi-node NVLink domain; the layout of `DevBase` differs.
const RANKS_MANY: [u32; 2] = [9, 72];
/// Where windows start that lie beyond what 32 bits count.
const FAR_BYTES: u64 = (4 << 30) + (6 << 20);

/// More bytes than 32 bits count.
const LONG_BYTES: usize = (4 << 30) + (1 << 20);
/// Bytes after which a long array repeats itself: a prime, so that what is misplaced by a round number shows.
const PERIOD: usize = 1_048_573;
const PERIODS_PER_PIECE: usize = 64;
/// What outputs hold before.
const POISON: u8 = 0xdb;

type Kind = (Collective, Algorithm);

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = for_each("rounds", 2, rounds).collect();
    for ranks in RANKS_MANY {
        let run = move |context: &Context, kind| many_ranks(context, kind, ranks);
        cases.extend(for_each(&format!("ranks_{ranks}"), ranks, run).map(|case| case.runs_on(RunsOn::Sim)));
    }
    cases.extend(for_each("beyond_4_gib", 2, beyond_4_gib));
    let longer = for_each("longer_than_4_gib", 2, longer_than_4_gib);
    cases.extend(longer.map(|case| case.runs_on(RunsOn::GpusInFull)));
    cases
}

/// A case for each algorithm.
fn for_each(
    what: &str,
    ranks: u32,
    run: impl Fn(&Context, Kind) -> Result<()> + Clone + Send + Sync + 'static,
) -> impl Iterator<Item = Case> {
    kinds().into_iter().map(move |kind| {
        let run = run.clone();
        let name = format!("extremes::{}_{}_{what}", kind.0, kind.1);
        Case::new(name, ranks, move |context| run(context, kind))
    })
}

fn config(kind: Kind) -> CommConfig {
    CommConfig { algorithm: Some(kind.1), ..CommConfig::default() }
}

fn operation(collective: Collective, dtype: Dtype, count: u64) -> Operation {
    let place = |window| Place { window, offset: GUARD_BYTES + dtype.bytes() };
    Operation {
        collective,
        dtype,
        op: Op::Sum,
        count,
        input: place(0),
        output: place(1),
        in_place: false,
        values: Values::Plain,
    }
}

/// Room for an operation's longer array, with a guard on either side.
fn room_for(operation: &Operation, ranks: u32) -> usize {
    let longer_bytes = operation.input_bytes(ranks).max(operation.output_bytes(ranks));
    (operation.input.offset + longer_bytes + GUARD_BYTES) as usize
}

fn rounds(context: &Context, kind: Kind) -> Result<()> {
    let config = CommConfig { ctas: Some(1), ..config(kind) };
    let mut rig = Rig::with(&context.machine()?, 2, &config)?;
    let operation = operation(kind.0, Dtype::F16, COUNT_OF_ROUNDS);
    let mut field = Field::new(&rig, room_for(&operation, 2), 61)?;
    let mut random = Random::new(62);
    (0..2).try_for_each(|_| field.run(&mut rig, &operation, &mut random))
}

fn many_ranks(context: &Context, kind: Kind, ranks: u32) -> Result<()> {
    // Fewer threads than ranks in a block, so that the waits of a simulated machine take less.
    let config = CommConfig { threads: Some(64), ..config(kind) };
    let mut rig = Rig::with(&context.machine()?, ranks, &config)?;
    let table = [(1, Dtype::F32), (129, Dtype::Bf16), (17, Dtype::F32)];
    let operations = table.map(|(count, dtype)| operation(kind.0, dtype, count));
    let room = operations.iter().map(|operation| room_for(operation, ranks)).max();
    let mut field = Field::new(&rig, room.unwrap_or(0), 63)?;
    let mut random = Random::new(64);
    for operation in &operations {
        field.run(&mut rig, operation, &mut random).with_context(|| format!("{operation:?}"))?;
    }
    Ok(())
}

/// In windows of which only the end is used.
fn beyond_4_gib(context: &Context, kind: Kind) -> Result<()> {
    let machine = context.machine_with(|sim| sim.device_memory_bytes = 4 * FAR_BYTES)?;
    let ranks = machine.ranks_max().min(3);
    let mut rig = Rig::with(&machine, ranks, &config(kind))?;
    let mut operations = [1, 1001].map(|count| operation(kind.0, Dtype::F32, count));
    operations[1].in_place = true;
    let mut field = Field::beyond(&rig, FAR_BYTES, room_for(&operations[1], ranks), 65)?;
    let mut random = Random::new(66);
    operations.iter().try_for_each(|operation| field.run(&mut rig, operation, &mut random))
}

/// By size: elements of one byte, so that their number is beyond 32 bits, too.
fn longer_than_4_gib(context: &Context, kind: Kind) -> Result<()> {
    let machine = context.machine()?;
    let ranks = machine.ranks_max().min(3);
    // What has no kernels for integers has some for floats.
    let has_kernel = |dtype: &Dtype| find(kind.0, kind.1, *dtype, Some(Op::Sum)).is_some();
    let dtype = [Dtype::U8, Dtype::E5m2].into_iter().find(has_kernel).context("a type of one byte")?;
    let config = CommConfig { dtypes: vec![dtype], ..config(kind) };
    let mut rig = Rig::with(&machine, ranks, &config)?;
    // One period of each part of each array; the long ones repeat them.
    let short = operation(kind.0, dtype, PERIOD as u64);
    let n_inputs = short.input_bytes(ranks) as usize / PERIOD;
    let mut random = Random::new(67);
    let inputs: Vec<Vec<u8>> =
        (0..ranks).map(|_| random.elements(dtype, Values::Plain, n_inputs * PERIOD)).collect();
    let outputs = short.expected(&inputs);
    let n_periods = LONG_BYTES.div_ceil(inputs[0].len().max(outputs[0].len()));
    // One more than a multiple of the ranks: the root of a broadcast goes by the count.
    let n_periods = n_periods.next_multiple_of(ranks as usize) + 1;
    let [mut from, mut to] =
        [rig.alloc::<u8>(n_periods * inputs[0].len())?, rig.alloc::<u8>(n_periods * outputs[0].len() + 1)?];
    for (window, periods) in from.iter_mut().zip(&inputs) {
        each_piece(periods, n_periods, |at, piece| Ok(window.write(at, piece)?))?;
    }
    to.iter_mut().try_for_each(|window| window.fill_bytes(POISON))?;
    let long = Operation { count: (n_periods * PERIOD) as u64, ..short };
    rig.each(|comm, stream| {
        let rank = comm.rank() as usize;
        long.enqueue(comm, (from[rank].address(), to[rank].address()), stream)
    })?;
    rig.synchronize()?;
    for (rank, (window, periods)) in to.iter().zip(&outputs).enumerate() {
        each_piece(periods, n_periods, |at, piece| {
            let mut found = vec![0; piece.len()];
            window.read(at, &mut found)?;
            ensure!(found == piece, "rank {rank}: wrong within {} bytes from {at:#x} on", piece.len());
            Ok(())
        })?;
        let mut behind = [0];
        window.read(window.len() - 1, &mut behind)?;
        ensure!(behind == [POISON], "rank {rank}: the byte behind the output was written");
    }
    Ok(())
}

/// An array whose parts repeat the periods given, each `n_periods` times, in pieces with where each starts.
fn each_piece(
    periods: &[u8],
    n_periods: usize,
    mut visit: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    for period in periods.chunks(PERIOD) {
        let piece = period.repeat(PERIODS_PER_PIECE);
        let end = at + n_periods * PERIOD;
        while at < end {
            let len = piece.len().min(end - at);
            visit(at, &piece[..len])?;
            at += len;
        }
    }
    Ok(())
}
