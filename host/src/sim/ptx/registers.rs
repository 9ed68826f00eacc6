//! Gives registers that are never alive together the same slot.
//!
//! The compiler's PTX names a new register for nearly every value: a thousand in a kernel of which fifty live at a
//! time. A simulated machine holds the registers of tens of thousands of threads, so they must be few. This is linear
//! scan over one interval per register, from liveness of basic blocks.

use super::instruction::{Instruction, Slot};
use super::module::Constant;
use super::operands::Role;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Instructions that only the first leads to.
struct Block {
    start: usize,
    end: usize,
    successors: Vec<usize>,
    /// Read before they are written here.
    used: Bits,
    /// Written here on every path.
    defined: Bits,
    live_in: Bits,
    live_out: Bits,
}

/// A set of slots.
#[derive(Clone, Default, PartialEq, Eq)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(n: usize) -> Self {
        Self(vec![0; n.div_ceil(64)])
    }

    fn contains(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 == 1
    }

    fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

/// Rewrites the slots of `code` and `constants`, of which there are `n_slots`. Gives the number needed now.
pub(crate) fn assign(
    code: &mut [Instruction],
    tables: &[Vec<u32>],
    constants: &mut [Constant],
    n_slots: u32,
) -> u32 {
    let mut blocks = blocks(code, tables, n_slots as usize);
    propagate(&mut blocks);
    let intervals = intervals(code, &blocks, n_slots as usize);
    let mut slots: Vec<Option<Slot>> = vec![None; n_slots as usize];
    for (index, constant) in constants.iter_mut().enumerate() {
        slots[usize::from(constant.slot)] = Some(index as Slot);
        constant.slot = index as Slot;
    }
    let count = scan(&intervals, &mut slots, constants.len() as u32);
    for instruction in code {
        instruction.for_each_slot(&mut |_, slot| *slot = slots[usize::from(*slot)].unwrap_or(*slot));
    }
    count
}

/// Whether the instruction is executed only where its guard lets it.
fn is_guarded(code: &[Instruction], pc: usize) -> bool {
    pc > 0 && matches!(code[pc - 1], Instruction::Guard { .. })
}

/// Where the instruction may lead, and whether it ends a block.
fn successors(code: &[Instruction], tables: &[Vec<u32>], pc: usize) -> (Vec<usize>, bool) {
    let (mut next, ends): (Vec<usize>, bool) = match &code[pc] {
        Instruction::Branch { target } => (vec![*target as usize], true),
        Instruction::BranchIf { target, .. } => (vec![*target as usize, pc + 1], true),
        Instruction::BranchTable { table, .. } => {
            (tables[*table as usize].iter().map(|target| *target as usize).collect(), true)
        }
        Instruction::Exit | Instruction::Trap => (Vec::new(), true),
        _ => (vec![pc + 1], false),
    };
    if ends && is_guarded(code, pc) {
        next.push(pc + 1);
    }
    (next, ends)
}

fn blocks(code: &[Instruction], tables: &[Vec<u32>], n_slots: usize) -> Vec<Block> {
    let mut is_start = vec![false; code.len() + 1];
    is_start[0] = true;
    for pc in 0..code.len() {
        let (next, ends) = successors(code, tables, pc);
        if ends {
            is_start[pc + 1] = true;
            next.iter().for_each(|target| is_start[*target] = true);
        }
    }
    let starts: Vec<usize> = (0..code.len()).filter(|pc| is_start[*pc]).collect();
    let block_of = |pc: usize| starts.partition_point(|start| *start <= pc) - 1;
    let ends = starts.iter().skip(1).copied().chain([code.len()]);
    let pairs: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
    pairs
        .into_iter()
        .map(|(start, end)| {
            let targets = successors(code, tables, end - 1).0;
            let successors = targets.into_iter().filter(|pc| *pc < code.len()).map(block_of).collect();
            let (used, defined) = used_and_defined(code, start..end, n_slots);
            let live_out = Bits::new(n_slots);
            Block { start, end, successors, live_in: used.clone(), used, defined, live_out }
        })
        .collect()
}

fn used_and_defined(code: &[Instruction], range: std::ops::Range<usize>, n_slots: usize) -> (Bits, Bits) {
    let (mut used, mut defined) = (Bits::new(n_slots), Bits::new(n_slots));
    for pc in range {
        let guarded = is_guarded(code, pc);
        let mut instruction = code[pc];
        instruction.for_each_slot(&mut |role, slot| {
            let slot = usize::from(*slot);
            match role {
                Role::Read if !defined.contains(slot) => used.insert(slot),
                // A guarded write may not happen: what was there before stays alive.
                Role::Write if !guarded => defined.insert(slot),
                _ => {}
            }
        });
    }
    (used, defined)
}

/// Solves `live_out = ∪ live_in(successors)`, `live_in = used ∪ (live_out − defined)`.
fn propagate(blocks: &mut [Block]) {
    let mut changed = true;
    while changed {
        changed = false;
        for index in (0..blocks.len()).rev() {
            let mut live_out = std::mem::take(&mut blocks[index].live_out);
            for &successor in &blocks[index].successors {
                live_out.0.iter_mut().zip(&blocks[successor].live_in.0).for_each(|(out, word)| *out |= word);
            }
            let block = &mut blocks[index];
            for (at, out) in live_out.0.iter().enumerate() {
                let live_in = block.used.0[at] | (out & !block.defined.0[at]);
                changed |= live_in != block.live_in.0[at];
                block.live_in.0[at] = live_in;
            }
            block.live_out = live_out;
        }
    }
}

/// From first to last position at which each slot is alive. An instruction reads at an even position and writes at the
/// odd one behind it.
fn intervals(code: &[Instruction], blocks: &[Block], n_slots: usize) -> Vec<Option<(usize, usize)>> {
    let mut intervals: Vec<Option<(usize, usize)>> = vec![None; n_slots];
    let mut extend = |slot: usize, position: usize| {
        let (start, end) = intervals[slot].unwrap_or((position, position));
        intervals[slot] = Some((start.min(position), end.max(position)));
    };
    for block in blocks {
        block.live_in.iter().for_each(|slot| extend(slot, 2 * block.start));
        block.live_out.iter().for_each(|slot| extend(slot, 2 * block.end - 1));
        for (pc, instruction) in code.iter().enumerate().take(block.end).skip(block.start) {
            let mut instruction = *instruction;
            instruction.for_each_slot(&mut |role, slot| {
                extend(usize::from(*slot), 2 * pc + usize::from(role == Role::Write));
            });
        }
    }
    intervals
}

/// Gives each interval the lowest slot, from `first` on, that is free from its start to its end.
fn scan(intervals: &[Option<(usize, usize)>], slots: &mut [Option<Slot>], first: u32) -> u32 {
    let mut order: Vec<(usize, usize, usize)> = intervals
        .iter()
        .enumerate()
        .filter(|(slot, _)| slots[*slot].is_none())
        .filter_map(|(slot, interval)| interval.map(|(start, end)| (start, end, slot)))
        .collect();
    order.sort_unstable();
    let mut active: BinaryHeap<Reverse<(usize, Slot)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<Slot>> = BinaryHeap::new();
    let mut count = first;
    for (start, end, slot) in order {
        while let Some(&Reverse((_, released))) = active.peek().filter(|Reverse((end, _))| *end < start) {
            active.pop();
            free.push(Reverse(released));
        }
        let assigned = free.pop().map_or_else(
            || {
                count += 1;
                (count - 1) as Slot
            },
            |Reverse(slot)| slot,
        );
        slots[slot] = Some(assigned);
        active.push(Reverse((end, assigned)));
    }
    count
}
