//! Compiled arithmetic against the very source it was compiled from.

use super::machine::{GLOBAL, Machine, run_to_end};
use crate::sim::interface::Stop;
use crate::sim::ptx::{Module, parse};
use proptest::prelude::*;
use std::sync::LazyLock;

#[path = "../../ptx/fixtures/numeric.rs"]
mod source;

const OUTPUT: usize = 64;

/// The module and what its variables hold, placed behind the output.
static MODULE: LazyLock<(Module, Vec<u8>)> = LazyLock::new(|| {
    let mut module = parse(include_str!("../../ptx/fixtures/numeric.ptx")).unwrap();
    let mut memory = vec![0; 1024];
    module.bind_variables(|variable| {
        let start = memory.len().next_multiple_of(variable.align_bytes as usize);
        memory.resize(start, 0);
        memory.extend(&variable.bytes);
        GLOBAL + start as u64
    });
    (module, memory)
});

fn output(name: &str, arguments: &[u64; 4]) -> Vec<u64> {
    let (module, memory) = &*MODULE;
    let mut machine = Machine { global: memory.clone(), ..Machine::default() };
    for (index, word) in arguments.iter().enumerate() {
        machine.global[8 * index..8 * index + 8].copy_from_slice(&word.to_le_bytes());
    }
    let pointers = [GLOBAL, GLOBAL + OUTPUT as u64];
    machine.parameters = pointers.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (stops, _) = run_to_end(module.kernel(name).unwrap(), &mut machine, [0; 2]);
    assert_eq!(stops, [Stop::Exit], "{name} of {arguments:#x?}");
    machine.words()[OUTPUT / 8..].to_vec()
}

/// Any bits, small numbers, and those around powers of two.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0u64..20, (0u32..64, 0u64..3).prop_map(|(bit, d)| (1 << bit) + d - 1)]
}

/// Bits of f32 and f64: any, ordinary ones, special ones.
fn single() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<f32>(),
        -300f32..300.0,
        prop::sample::select(vec![0.0, -0.0, f32::NAN, f32::INFINITY, 1e-44])
    ]
    .prop_map(|value| value.to_bits().into())
}

fn double() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<f64>(),
        -70000f64..70000.0,
        prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY])
    ]
    .prop_map(|value| value.to_bits())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn integers(arguments in [word(), word(), word(), word()]) {
        let expected = source::integers(&arguments);
        prop_assert_eq!(&output("integers", &arguments)[..expected.len()], expected);
    }

    #[test]
    fn conversions((x, y, u, z) in (single(), single(), double(), word())) {
        let expected = source::conversions(&[x, y, u, z]);
        prop_assert_eq!(&output("conversions", &[x, y, u, z])[..expected.len()], expected);
    }

    #[test]
    fn floats((x, y, u, v) in (single(), single(), double(), double()), same: bool) {
        let arguments = if same { [x, x, u, u] } else { [x, y, u, v] };
        let expected = source::floats(&arguments);
        prop_assert_eq!(&output("floats", &arguments)[..expected.len()], expected);
    }
}
