//! Programs mean the same whether registers share slots or not.

use crate::sim::interface::{MemoryAccess, Order, Scope, Space};
use crate::sim::ptx::instruction::{Instruction, Slot};
use crate::sim::ptx::module::Constant;
use crate::sim::ptx::registers::assign;
use crate::sim::ptx::{Kernel, parse};
use crate::sim::thread::tests::machine::{GLOBAL, Machine, kernel};
use crate::sim::thread::{ThreadState, run};
use proptest::prelude::*;

/// Registers of a random program; behind them lie its constants: addresses and start values.
const N: Slot = 12;
const N_WORDS: Slot = 8;

fn slot() -> impl Strategy<Value = Slot> {
    0..N
}

/// An instruction of a random program of `len` instructions.
fn instruction(len: u32) -> impl Strategy<Value = Instruction> {
    let access = MemoryAccess {
        space: Space::Global,
        order: Order::Weak,
        scope: Scope::None,
        width_bytes: 8,
        lanes: 1,
    };
    let store = move |a: Slot, word: Slot| Instruction::Store {
        access,
        a: [a, 0, 0, 0],
        address: N + word,
        offset: 0,
    };
    prop_oneof![
        4 => (slot(), slot(), slot()).prop_map(|(d, a, b)| Instruction::Add64 { d, a, b }),
        2 => (slot(), slot()).prop_map(|(d, a)| Instruction::Move { d, a }),
        1 => (slot(), slot(), slot(), slot())
            .prop_map(|(x, y, a, _)| Instruction::Unpack { d: [x, y, 0, 0], a, n: 2, part_bits: 8 }),
        1 => (slot(), slot(), slot(), slot())
            .prop_map(|(d, a, b, predicate)| Instruction::Select { d, a, b, predicate }),
        3 => (slot(), 0..N_WORDS).prop_map(move |(a, word)| store(a, word)),
        2 => (slot(), any::<bool>(), 0..len)
            .prop_map(|(predicate, negate, target)| Instruction::BranchIf { predicate, negate, target }),
        1 => (slot(), any::<bool>()).prop_map(|(predicate, negate)| Instruction::Guard { predicate, negate }),
        1 => (0..len).prop_map(|target| Instruction::Branch { target }),
    ]
}

/// Runs a kernel for a while; what it stored and how far it came.
fn outcome(kernel: &Kernel) -> (Vec<u8>, u32, u32) {
    let mut machine = Machine { global: vec![0; 8 * usize::from(N_WORDS)], ..Machine::default() };
    let mut registers = vec![0; kernel.n_registers as usize];
    let mut thread = ThreadState::new(kernel, &mut registers);
    let (_, executed) = run(kernel, &mut thread, &mut registers, &mut machine, 300);
    (machine.global, executed, thread.pc)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn shared_slots_change_nothing(body in prop::collection::vec(instruction(30), 30)) {
        // Every register gets a start value first: reading one before is undefined.
        let start = |d: Slot| Instruction::Move { d, a: N + N_WORDS + d };
        let mut code: Vec<Instruction> = (0..N).map(start).collect();
        code.extend(body.into_iter().map(|mut instruction| {
            if let Instruction::Branch { target } | Instruction::BranchIf { target, .. } = &mut instruction {
                *target += u32::from(N);
            }
            instruction
        }));
        code.extend([Instruction::Exit, Instruction::Exit]);
        let address = |word: Slot| GLOBAL + 8 * u64::from(word);
        let constant = |(slot, value)| Constant { slot, value, variable: None };
        let addresses = (0..N_WORDS).map(|word| (N + word, address(word)));
        let values = (0..N).map(|d| (N + N_WORDS + d, u64::from(d) * 77 % 5));
        let mut plain = kernel("ret;");
        plain.constants = addresses.chain(values).map(constant).collect();
        plain.n_registers = u32::from(2 * N + N_WORDS);
        plain.code = code;
        let mut shared = plain.clone();
        shared.n_registers = assign(&mut shared.code, &[], &mut shared.constants, plain.n_registers);
        prop_assert!(shared.n_registers <= plain.n_registers);
        prop_assert_eq!(outcome(&shared), outcome(&plain));
    }
}

#[test]
fn compiled_kernels_need_few_slots() {
    let module = parse(include_str!("../fixtures/compiled.ptx")).unwrap();
    for kernel in &module.kernels {
        assert!(kernel.n_registers <= 80, "{}: {}", kernel.name, kernel.n_registers);
    }
}
