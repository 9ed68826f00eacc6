//! Right results: every pair of values of collective, algorithm, type, operation, ranks, count, offsets, in or out of
//! place, blocks and kind of values; bit for bit, on all ranks, with nothing else touched.
//!
//! A case is one communicator: a number of ranks, an algorithm and a number of blocks.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context, RunsOn};
use crate::pairwise;
use crate::random::{Random, Values};
use crate::rig::{Rig, kinds, unchecked};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};
use symmem_device::kernels::find;

const RANKS: [u32; 6] = [1, 2, 3, 4, 5, 8];
const COUNTS: [u64; 11] = [0, 1, 2, 3, 7, 8, 9, 127, 129, 1000, 4097];
/// Offsets of input and output: whole bytes, and elements on top.
const OFFSETS: [(u64, u64); 4] = [(0, 0), (0, 1), (4096, 0), (4096, 1)];
/// Blocks of a launch; `None` is the plan's choice.
const BLOCKS: [Option<u32>; 3] = [None, Some(1), Some(3)];
const VALUES: [Values; 2] = [Values::Plain, Values::Special];
/// More ranks than a node has; the layout of `DevBase` changes above 8.
const RANKS_MANY: u32 = 9;
/// A message of many blocks whose length divides by nothing.
const COUNT_LARGE: u64 = 1_000_003;

/// A message of several rounds of one block.
const COUNT_OF_ROUNDS: u64 = 150_001;

/// What the operations of one case share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Team {
    collective: Collective,
    algorithm: Algorithm,
    ranks: u32,
    blocks: Option<u32>,
}

pub(super) fn cases(full: bool, gpus: u32) -> Vec<Case> {
    let mut teams: BTreeMap<Team, Vec<Operation>> = BTreeMap::new();
    let reachable: Vec<u32> = RANKS.into_iter().filter(|&ranks| gpus == 0 || ranks <= gpus).collect();
    let n_covers = if full { 8 } else { 1 };
    for seed in 0..n_covers {
        for (collective, algorithm) in kinds() {
            add_cover(&mut teams, (collective, algorithm), &RANKS, seed);
            if reachable.len() < RANKS.len() {
                add_cover(&mut teams, (collective, algorithm), &reachable, seed + 1000);
            }
        }
    }
    let mut cases: Vec<Case> = teams.into_iter().map(|(team, operations)| case(team, operations)).collect();
    cases.extend(kinds().into_iter().map(|kind| case(team(kind, RANKS_MANY), few(kind))));
    let large = kinds().into_iter().map(|kind| {
        let operation = Operation { count: COUNT_LARGE, ..operation(kind.0, 4096, 1, Dtype::F32) };
        let run = move |context: &Context| run(context, team(kind, 2), std::slice::from_ref(&operation));
        Case::new(format!("matrix::{}_{}_large", kind.0, kind.1), 2, run)
    });
    cases.extend(large);
    // More than a block's slots or scratch hold at once, many times over.
    let rounds = kinds().into_iter().map(|kind| {
        let operation = Operation { count: COUNT_OF_ROUNDS, ..operation(kind.0, 4096, 1, Dtype::F32) };
        let team = Team { blocks: Some(1), ..team(kind, 2) };
        let run = move |context: &Context| run(context, team, &[operation.clone(), operation.clone()]);
        Case::new(format!("matrix::{}_{}_rounds", kind.0, kind.1), 2, run)
    });
    cases.extend(rounds);
    cases
}

/// The types that an algorithm has kernels for.
fn dtypes_of((collective, algorithm): (Collective, Algorithm)) -> Vec<Dtype> {
    let op = collective.reduces().then_some(Op::Sum);
    Dtype::ALL.iter().copied().filter(|dtype| find(collective, algorithm, *dtype, op).is_some()).collect()
}

fn team((collective, algorithm): (Collective, Algorithm), ranks: u32) -> Team {
    Team { collective, algorithm, ranks, blocks: None }
}

fn case(team: Team, operations: Vec<Operation>) -> Case {
    let blocks = team.blocks.map_or("auto".into(), |blocks| blocks.to_string());
    let name = format!("matrix::{}_{}_ranks_{}_blocks_{blocks}", team.collective, team.algorithm, team.ranks);
    let case = Case::new(name, team.ranks, move |context| run(context, team, &operations));
    if team.ranks > 8 { case.runs_on(RunsOn::Sim) } else { case }
}

/// Operations for each team such that every pair of values occurs.
fn add_cover(
    teams: &mut BTreeMap<Team, Vec<Operation>>,
    (collective, algorithm): (Collective, Algorithm),
    ranks: &[u32],
    seed: u64,
) {
    let n_ops = if collective.reduces() { Op::ALL.len() } else { 1 };
    let dtypes = dtypes_of((collective, algorithm));
    let sizes = [
        ranks.len(),
        BLOCKS.len(),
        dtypes.len(),
        n_ops,
        COUNTS.len(),
        OFFSETS.len(),
        OFFSETS.len(),
        2,
        2,
        VALUES.len(),
    ];
    for row in pairwise::cover(&sizes, seed) {
        let team = Team { collective, algorithm, ranks: ranks[row[0]], blocks: BLOCKS[row[1]] };
        let dtype = dtypes[row[2]];
        let at = |(bytes, elements): (u64, u64)| GUARD_BYTES + bytes + elements * dtype.bytes();
        teams.entry(team).or_default().push(Operation {
            collective,
            dtype,
            op: Op::ALL[row[3]],
            count: COUNTS[row[4]],
            input: Place { window: 0, offset: at(OFFSETS[row[5]]) },
            output: output_at(
                row[8],
                at(OFFSETS[row[6]]),
                COUNTS[row[4]] * dtype.bytes() * u64::from(team.ranks),
            ),
            in_place: row[7] == 1,
            values: VALUES[row[9]],
        });
    }
}

/// The output in the other window, or behind the input in the same one.
fn output_at(window: usize, offset: u64, input_bytes: u64) -> Place {
    match window {
        1 => Place { window, offset },
        _ => Place { window, offset: offset + (8192 + input_bytes).next_multiple_of(4096) },
    }
}

fn operation(collective: Collective, bytes: u64, elements: u64, dtype: Dtype) -> Operation {
    let offset = GUARD_BYTES + bytes + elements * dtype.bytes();
    Operation {
        collective,
        dtype,
        op: Op::Sum,
        count: 1,
        input: Place { window: 0, offset },
        output: Place { window: 1, offset: GUARD_BYTES },
        in_place: false,
        values: Values::Plain,
    }
}

/// A few operations for a large team.
fn few(kind: (Collective, Algorithm)) -> Vec<Operation> {
    let one = |(count, dtype)| Operation { count, ..operation(kind.0, 0, 1, dtype) };
    [(1, Dtype::F32), (129, Dtype::Bf16), (1000, Dtype::F16), (40, Dtype::F32)].map(one).into()
}

fn run(context: &Context, team: Team, operations: &[Operation]) -> Result<()> {
    let machine = context.machine()?;
    let config = CommConfig { algorithm: Some(team.algorithm), ctas: team.blocks, ..unchecked() };
    let mut rig = Rig::with(&machine, team.ranks, &config)?;
    let ends = operations.iter().map(|operation| {
        (operation.output_place().offset + operation.output_bytes(team.ranks))
            .max(operation.input.offset + operation.input_bytes(team.ranks))
    });
    let len_bytes = ends.max().unwrap_or(0) + GUARD_BYTES;
    let mut field = Field::new(&rig, len_bytes as usize, 1)?;
    let mut random = Random::new(2);
    for operation in operations {
        if team.collective.reduces() {
            rig.prepare(&[operation.dtype], &[operation.op]).into_iter().collect::<symmem::Result<()>>()?;
        }
        let plan =
            rig.comms[0].plan(team.collective, operation.count, operation.dtype, Some(operation.op))?;
        anyhow::ensure!(plan.kernel.algorithm == team.algorithm, "{} ran instead", plan.kernel.name);
        field.run(&mut rig, operation, &mut random).with_context(|| format!("{operation:?}"))?;
    }
    Ok(())
}
