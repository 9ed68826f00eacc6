//! Short forms against the general ones.

use crate::sim::ptx::alu::convert::{Conversion, convert};
use crate::sim::ptx::alu::float::{Clamp, Fast, FloatOp, Operation, evaluate, fast};
use crate::sim::ptx::alu::format::Rounding;
use crate::sim::ptx::alu::quick;
use crate::sim::ptx::types::Type;
use proptest::prelude::*;

const TYPES: [Type; 12] = [
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S8,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F16,
    Type::Bf16,
    Type::F32,
    Type::F64,
];

/// Bits of any kind, and those around the edges of f32.
fn bits() -> impl Strategy<Value = u64> {
    let edges =
        [0u64, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x3880_0000, 0x4780_0000, 0x3300_0000, 0x477f_e000];
    prop_oneof![
        any::<u64>(),
        (0..edges.len(), 0u64..4096).prop_map(move |(i, d)| edges[i] + d),
        (0..edges.len(), 0u64..4096).prop_map(move |(i, d)| edges[i].wrapping_sub(d))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn conversions(a in bits(), to in 0usize..12, from in 0usize..12, down: bool) {
        let (to, from) = (TYPES[to], TYPES[from]);
        let rounding = if down { Rounding::Down } else { Rounding::Nearest };
        let conversion = Conversion {
            to, from, rounding, to_integral: false, flush: false, clamp: Clamp::None, finite: false,
            register_bits: to.bits() as u8,
        };
        if let Some(short) = quick::conversion(conversion) {
            prop_assert_eq!(short(a), convert(conversion, a, a), "{:?} of {:#x}", conversion, a);
        }
    }

    #[test]
    fn extrema(a in bits(), b in bits(), propagate_nan: bool, same: bool) {
        let (a, b) = (a & 0xffff_ffff, if same { a } else { b } & 0xffff_ffff);
        for operation in [Operation::Min, Operation::Max] {
            let op = FloatOp {
                operation, ty: Type::F32, rounding: Rounding::Nearest, flush: false, clamp: Clamp::None,
                propagate_nan, xorsign: false,
            };
            let Some(Fast::Binary(short)) = fast(op) else { panic!("{op:?} has no short form") };
            prop_assert_eq!(short(a, b), evaluate(op, a, b, 0), "{:?} {:#x} {:#x}", op, a, b);
        }
    }
}
