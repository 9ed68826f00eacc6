//! Programs mean the same whether registers share slots or not.

use crate::sim::interface::{MemoryAccess, Order, Scope, Space, Stop};
use crate::sim::ptx::instruction::{Instruction, Slot};
use crate::sim::ptx::module::Constant;
use crate::sim::ptx::registers::assign;
use crate::sim::ptx::{Kernel, parse};
use crate::sim::thread::tests::machine::{GLOBAL, Machine, kernel};
use crate::sim::thread::{ThreadState, run};
use proptest::prelude::*;

/// Registers of a random program; behind them lie its constants: addresses and small numbers.
const N: Slot = 24;
const N_WORDS: Slot = 8;
const N_NUMBERS: Slot = 4;
/// Instructions of a random program.
const LEN: usize = 48;

/// A register that programs use around `pc` only, so that lifetimes are short.
fn near(pc: usize, offset: Slot) -> Slot {
    ((pc / 3) as Slot + offset) % N
}

/// The instruction at `pc` of a random program.
fn instruction(pc: usize, kind: u8, [x, y, z]: [Slot; 3], flag: bool) -> Instruction {
    let access = MemoryAccess {
        space: Space::Global,
        order: Order::Weak,
        scope: Scope::None,
        width_bytes: 8,
        lanes: 1,
    };
    let (d, a, b) = (near(pc, x), near(pc, y), near(pc, z));
    // Mostly forward, now and then a loop.
    let target = (pc + 1 + usize::from(y)).saturating_sub(if flag { 0 } else { 6 }).min(LEN) as u32;
    match kind {
        0..3 => Instruction::Move { d, a: N + N_WORDS + y % N_NUMBERS },
        3..5 => Instruction::Add64 { d, a, b },
        5 => Instruction::Move { d, a },
        6 => Instruction::Select { d, a, b, predicate: near(pc, x + 1) },
        7 => Instruction::Unpack { d: [d, a, 0, 0], a: b, n: 2, part_bits: 1 },
        8..10 => Instruction::Store { access, a: [a, 0, 0, 0], address: N + x % N_WORDS, offset: 0 },
        10 => Instruction::BranchIf { predicate: a, negate: flag, target },
        _ => Instruction::Guard { predicate: a, negate: flag },
    }
}

/// Instructions that are executed of a program, at most.
const STEPS: u32 = 300;

/// Runs a kernel for a while, with `rubbish` in the registers at first; what it stored and how far it came.
fn outcome(kernel: &Kernel, rubbish: u64) -> (Vec<u8>, u32, u32) {
    let mut machine = memory();
    let mut registers = vec![0; kernel.n_registers as usize];
    let mut thread = ThreadState::new(kernel, &mut registers);
    for (slot, register) in registers.iter_mut().enumerate() {
        let is_constant = kernel.constants.iter().any(|constant| usize::from(constant.slot) == slot);
        let mixed = (rubbish ^ (slot as u64) << 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        *register = if is_constant { *register } else { mixed.wrapping_mul(mixed | 1) >> 7 };
    }
    let (_, executed) = run(kernel, &mut thread, &mut registers, &mut machine, STEPS);
    (machine.global, executed, thread.pc)
}

fn memory() -> Machine {
    Machine { global: vec![0; 8 * usize::from(N_WORDS)], ..Machine::default() }
}

/// Whether what a program stores, or where it goes, depends on what a register held before it was written: then it means
/// nothing. Follows such values step by step.
fn depends_on_rubbish(kernel: &Kernel) -> bool {
    let mut machine = memory();
    let mut registers = vec![0; kernel.n_registers as usize];
    let mut thread = ThreadState::new(kernel, &mut registers);
    let mut is_rubbish: Vec<bool> = (0..kernel.n_registers).map(|slot| slot < u32::from(N)).collect();
    for _ in 0..STEPS {
        let of = |slot: Slot| is_rubbish[usize::from(slot)];
        let (targets, value) = match kernel.code[thread.pc as usize] {
            Instruction::Store { a, .. } if of(a[0]) => return true,
            Instruction::BranchIf { predicate, .. } | Instruction::Guard { predicate, .. }
                if of(predicate) =>
            {
                return true;
            }
            Instruction::Move { d, a } => (vec![d], of(a)),
            Instruction::Add64 { d, a, b } => (vec![d], of(a) || of(b)),
            Instruction::Select { d, a, b, predicate } => {
                let chosen = if registers[usize::from(predicate)] != 0 { a } else { b };
                (vec![d], of(predicate) || of(chosen))
            }
            Instruction::Unpack { d, a, .. } => (d[..2].to_vec(), of(a)),
            _ => (Vec::new(), false),
        };
        targets.into_iter().for_each(|slot| is_rubbish[usize::from(slot)] = value);
        if !matches!(run(kernel, &mut thread, &mut registers, &mut machine, 1), (Stop::Budget, 1)) {
            break;
        }
    }
    false
}

/// A kernel of that code, with the constants that [`instruction`] relies on.
fn program(code: Vec<Instruction>) -> Kernel {
    let addresses = (0..N_WORDS).map(|word| (N + word, GLOBAL + 8 * u64::from(word)));
    let numbers = (0..N_NUMBERS).map(|number| (N + N_WORDS + number, u64::from(number)));
    let constants = addresses.chain(numbers);
    let mut kernel = kernel("ret;");
    kernel.constants = constants.map(|(slot, value)| Constant { slot, value, variable: None }).collect();
    kernel.n_registers = u32::from(N + N_WORDS + N_NUMBERS);
    kernel.code = code;
    kernel
}

type Seed = (u8, [Slot; 3], bool);

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn shared_slots_change_nothing(
        seeds in prop::collection::vec((0u8..12, [0..4 as Slot, 0..4, 0..4], any::<bool>()), LEN),
    ) {
        let body = seeds.iter().enumerate().map(|(pc, (kind, slots, flag)): (_, &Seed)| {
            instruction(pc, *kind, *slots, *flag)
        });
        let plain = program(body.chain([Instruction::Exit, Instruction::Exit]).collect());
        prop_assume!(!depends_on_rubbish(&plain));
        let expected = outcome(&plain, 0);
        let mut shared = plain.clone();
        shared.n_registers = assign(&mut shared.code, &[], &mut shared.constants, plain.n_registers);
        prop_assert!(shared.n_registers <= plain.n_registers);
        prop_assert_eq!(outcome(&shared, 5), expected);
    }
}

#[test]
fn compiled_kernels_need_few_slots() {
    let module = parse(include_str!("../fixtures/compiled.ptx")).unwrap();
    for kernel in &module.kernels {
        assert!(kernel.n_registers <= 80, "{}: {}", kernel.name, kernel.n_registers);
    }
}
