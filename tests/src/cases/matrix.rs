//! Right results: every pair of values of algorithm, type, operation, ranks, count, offsets, in or out of place, blocks
//! and kind of values; bit for bit, on all ranks, with nothing else touched.
//!
//! A case is an algorithm, and makes a communicator for each number of ranks.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context, Extent};
use crate::pairwise::{self, Partial};
use crate::random::{Random, Values};
use crate::rig::{Rig, kinds, unchecked};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;
use symmem::{Algorithm, Collective, CommConfig, Dtype, Op};
use symmem_device::kernels::find;

const RANKS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const COUNTS: [u64; 10] = [0, 1, 2, 3, 7, 8, 9, 127, 129, 4097];
/// A message of many blocks whose length divides by nothing.
const COUNT_LARGE: u64 = 1_000_003;
/// What a large operation may cost the simulated machine, in bytes moved by all ranks together.
const COST_MAX: u64 = 10 << 20;
/// Offsets of input and output: whole bytes, and elements on top.
const OFFSETS: [(u64, u64); 4] = [(0, 0), (0, 1), (4096, 0), (4096, 1)];
/// Blocks of a launch; `None` is the plan's choice.
const BLOCKS: [Option<u32>; 3] = [None, Some(1), Some(3)];
const VALUES: [Values; 3] = [Values::Plain, Values::Special, Values::Poison];
/// Seeds of `--full`, each of which gives other rows that hold every pair.
const N_SEEDS_FULL: u64 = 12;

/// Operations, each with its number of blocks, by the ranks of their communicator; the large ones by themselves, so that
/// not every one is looked for in large windows.
type Operations = BTreeMap<(u32, bool), Vec<(Option<u32>, Operation)>>;
type Kind = (Collective, Algorithm);

pub(super) fn cases(extent: Extent, gpus: u32) -> Vec<Case> {
    let n_seeds = if extent.full { N_SEEDS_FULL } else { 1 };
    let on_sim = Matrix::new(&RANKS);
    let reachable: Vec<u32> =
        RANKS.into_iter().filter(|&ranks| ranks <= gpus * extent.ranks_per_gpu).collect();
    let on_gpus = (!reachable.is_empty()).then(|| Matrix::new(&reachable));
    let rows = |matrix: &Matrix| (0..n_seeds).flat_map(|seed| matrix.rows(seed)).collect::<Vec<_>>();
    let (of_sim, of_gpus) = (rows(&on_sim), on_gpus.as_ref().map(rows).unwrap_or_default());
    let case = |(at, kind): (usize, &Kind)| {
        let of_sim = on_sim.operations(&of_sim, at);
        let of_gpus = on_gpus.as_ref().map(|matrix| matrix.operations(&of_gpus, at)).unwrap_or_default();
        let kind = *kind;
        let run =
            move |context: &Context| run(context, kind, if context.is_sim() { &of_sim } else { &of_gpus });
        Case::new(format!("matrix::{}_{}", kind.0, kind.1), 1, run)
    };
    on_sim.kinds.iter().enumerate().map(case).collect()
}

/// The values of each parameter, where those of the others say nothing about them.
struct Matrix {
    kinds: Vec<Kind>,
    ranks: Vec<u32>,
    /// `None` for what does not reduce.
    ops: Vec<Option<Op>>,
    /// Whether there is a kernel: by kind, type and operation.
    does: Vec<bool>,
}

/// Places of the parameters in a row.
const KIND: usize = 0;
const RANK: usize = 1;
const DTYPE: usize = 2;
const OP: usize = 3;
const COUNT: usize = 4;
const INPUT: usize = 5;
const OUTPUT: usize = 6;
const IN_PLACE: usize = 7;
const WINDOW: usize = 8;
const BLOCK: usize = 9;
const VALUE: usize = 10;

impl Matrix {
    fn new(ranks: &[u32]) -> Self {
        let kinds = kinds();
        let ops: Vec<_> = [None].into_iter().chain(Op::ALL.iter().copied().map(Some)).collect();
        let mut does = Vec::new();
        for (collective, algorithm) in &kinds {
            for dtype in Dtype::ALL {
                // An operation says nothing to what does not reduce.
                let has = |op: &Option<Op>| find(*collective, *algorithm, *dtype, *op).is_some();
                does.extend(ops.iter().map(|op| op.is_some() == collective.reduces() && has(op)));
            }
        }
        Self { kinds, ranks: ranks.into(), ops, does }
    }

    fn sizes(&self, counts: usize) -> [usize; 11] {
        let mut sizes = [2; 11];
        sizes[KIND] = self.kinds.len();
        sizes[RANK] = self.ranks.len();
        sizes[DTYPE] = Dtype::ALL.len();
        sizes[OP] = self.ops.len();
        sizes[COUNT] = counts;
        (sizes[INPUT], sizes[OUTPUT]) = (OFFSETS.len(), OFFSETS.len());
        sizes[BLOCK] = BLOCKS.len();
        sizes[VALUE] = VALUES.len();
        sizes
    }

    /// Rows that hold every pair of values, and then some with a large count, which hold every value.
    fn rows(&self, seed: u64) -> Vec<(u64, Vec<usize>)> {
        let small = pairwise::cover(&self.sizes(COUNTS.len()), seed, |row| self.has_kernel(row, u64::MAX));
        let large = pairwise::each_value(&self.sizes(1), seed, |row| self.has_kernel(row, COST_MAX));
        let small = small.into_iter().map(|row| (COUNTS[row[COUNT]], row));
        small.chain(large.into_iter().map(|row| (COUNT_LARGE, row))).collect()
    }

    /// Whether there is a kernel for what is chosen so far, whatever the rest becomes, that does a large message at this
    /// cost at most.
    fn has_kernel(&self, row: &Partial, cost_max: u64) -> bool {
        let all = |place: usize, size: usize| row[place].map_or(0..size, |value| value..value + 1);
        let ranks = row[RANK].map_or(self.ranks[0], |rank| self.ranks[rank]);
        all(KIND, self.kinds.len()).any(|kind| {
            all(DTYPE, Dtype::ALL.len()).any(|dtype| {
                let at = (kind * Dtype::ALL.len() + dtype) * self.ops.len();
                all(OP, self.ops.len()).any(|op| self.does[at + op])
                    && cost(self.kinds[kind], ranks, Dtype::ALL[dtype]) <= cost_max
            })
        })
    }

    /// The operations of one kind, by their communicators.
    fn operations(&self, rows: &[(u64, Vec<usize>)], kind: usize) -> Operations {
        let mut operations = Operations::new();
        for (count, row) in rows.iter().filter(|(_, row)| row[KIND] == kind) {
            let of_ranks = operations.entry((self.ranks[row[RANK]], *count == COUNT_LARGE)).or_default();
            of_ranks.push((BLOCKS[row[BLOCK]], self.operation(*count, row)));
        }
        operations
    }

    fn operation(&self, count: u64, row: &[usize]) -> Operation {
        let dtype = Dtype::ALL[row[DTYPE]];
        let at = |(bytes, elements): (u64, u64)| GUARD_BYTES + bytes + elements * dtype.bytes();
        let input_bytes = count * dtype.bytes() * u64::from(self.ranks[row[RANK]]);
        let output = at(OFFSETS[row[OUTPUT]]);
        // In the other window, or behind the input in the same one.
        let offset = output + if row[WINDOW] == 0 { (8192 + input_bytes).next_multiple_of(4096) } else { 0 };
        Operation {
            collective: self.kinds[row[KIND]].0,
            dtype,
            op: self.ops[row[OP]].unwrap_or(Op::Sum),
            count,
            input: Place { window: 0, offset: at(OFFSETS[row[INPUT]]) },
            output: Place { window: row[WINDOW], offset },
            in_place: row[IN_PLACE] == 1,
            values: VALUES[row[VALUE]],
        }
    }
}

/// About what all ranks move together in a large operation: every algorithm but those that divide the message of an
/// all-reduce sends everything to everyone. Arithmetic on floats of 8 bits takes many instructions.
fn cost((collective, algorithm): Kind, ranks: u32, dtype: Dtype) -> u64 {
    use Algorithm::{LlTwoShot, SentinelTwoShot, TwoShotLdSt, TwoShotPush};
    let arithmetic = if matches!(dtype, Dtype::E4m3 | Dtype::E5m2) { 4 } else { 1 };
    let divides = matches!(algorithm, LlTwoShot | SentinelTwoShot | TwoShotLdSt | TwoShotPush);
    let parts = if collective == Collective::AllReduce && divides { 1 } else { ranks };
    COUNT_LARGE * dtype.bytes() * arithmetic * u64::from(ranks) * u64::from(parts)
}

fn run(context: &Context, kind: Kind, operations: &Operations) -> Result<()> {
    for ((ranks, _), operations) in operations {
        run_on(context, kind, *ranks, operations).with_context(|| format!("{ranks} ranks"))?;
    }
    Ok(())
}

fn run_on(context: &Context, kind: Kind, ranks: u32, operations: &[(Option<u32>, Operation)]) -> Result<()> {
    let machine = context.machine()?;
    let config = CommConfig { dtypes: Vec::new(), ops: Vec::new(), ..unchecked() };
    let mut rig = Rig::with(&machine, ranks, &config)?;
    let ends = operations.iter().map(|(_, operation)| {
        (operation.output_place().offset + operation.output_bytes(ranks))
            .max(operation.input.offset + operation.input_bytes(ranks))
    });
    let len_bytes = ends.max().unwrap_or(0) + GUARD_BYTES;
    let mut field = Field::new(&rig, len_bytes as usize, 1)?;
    let mut random = Random::new(2);
    for (blocks, operation) in operations {
        if kind.0.reduces() {
            rig.prepare(&[operation.dtype], &[operation.op]).into_iter().collect::<symmem::Result<()>>()?;
        }
        rig.comms.iter_mut().for_each(|comm| comm.prefer(Some(kind.1), *blocks));
        let plan = rig.comms[0].plan(kind.0, operation.count, operation.dtype, Some(operation.op))?;
        ensure!(plan.kernel.algorithm == kind.1, "{} ran instead", plan.kernel.name);
        field.run(&mut rig, operation, &mut random).with_context(|| format!("{blocks:?}, {operation:?}"))?;
    }
    drop((field, rig, machine));
    context.forget_machines()
}
