//! Kernels as the compiler emits them, against the same Rust on the host.

use super::machine::{GLOBAL, Machine, run_to_end};
use crate::sim::interface::{Special, Stop};
use crate::sim::ptx::{Kernel, parse};
use half::{bf16, f16};

const ACCUMULATE: &str = include_str!("../../ptx/fixtures/accumulate.ptx");
/// From `fixtures/compiled.rs`.
const COMPILED: &str = include_str!("../../ptx/fixtures/compiled.ptx");
/// Byte offset of the output in global memory; inputs lie before it, tables behind.
const OUTPUT: u64 = 2048;
const TABLES: u64 = 3072;

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Words without a pattern.
fn noise(n: u64) -> Vec<u64> {
    (1..=n).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32)).collect()
}

/// Runs a kernel of `compiled.rs` on `input`; its output words.
fn output(name: &str, input: &[u64], n: u64, m: u64, (x, y, z): (f32, f32, f64)) -> Vec<u64> {
    let mut machine = Machine { global: bytes(input), ..Machine::default() };
    machine.global.resize(4096, 0);
    let mut module = parse(COMPILED).unwrap();
    module.bind_variables(|variable| {
        let start = TABLES as usize;
        machine.global[start..start + variable.bytes.len()].copy_from_slice(&variable.bytes);
        GLOBAL + TABLES
    });
    let floats = u64::from(x.to_bits()) | u64::from(y.to_bits()) << 32;
    machine.parameters = bytes(&[GLOBAL, GLOBAL + OUTPUT, n, m, floats, z.to_bits()]);
    let (stops, _) = run_to_end(module.kernel(name).unwrap(), &mut machine, [0; 2]);
    assert_eq!(stops, [Stop::Exit], "{name}");
    machine.words()[OUTPUT as usize / 8..].to_vec()
}

#[test]
fn accumulate_adds_the_rounds_to_the_first_words() {
    let kernel = parse(ACCUMULATE).unwrap().kernels.remove(0);
    let rounds = 3u64;
    let words = noise(1024);
    let mut machine = Machine { global: bytes(&words), ..Machine::default() };
    machine.parameters = bytes(&[GLOBAL, GLOBAL + 2048, 1024, rounds << 32, GLOBAL + 1024]);
    machine.specials = vec![(Special::Tid(0), 5)];
    let (stops, _) = run_to_end(&kernel, &mut machine, [0; 2]);
    assert_eq!(stops, [Stop::Exit]);
    for i in 0..8 {
        let place = 5 + i * 16;
        let sum =
            (0..rounds as usize).fold(0u64, |sum, round| sum.wrapping_add(words[256 + place + round * 128]));
        assert_eq!(machine.words()[128 + place], words[place] ^ sum, "word {i}");
    }
}

#[test]
fn a_match_takes_every_arm() {
    let (m, z) = (1_000_003u64, -1.5f64);
    let mut input: Vec<u64> = (0..12).collect();
    input.extend(noise(50));
    let expected = input.iter().map(|&v| match v {
        0 => v.wrapping_mul(3) + 1,
        1 => v ^ 0xff,
        2 => v.rotate_left(13),
        3 => v / 7 + m,
        4 => m.wrapping_sub(v),
        5 => u64::from(v.count_ones()),
        6 => m % 5,
        7 => (m as f64 * z) as u64,
        _ => u64::from(v.leading_zeros()),
    });
    let found = output("dispatch", &input, input.len() as u64, m, (0.0, 0.0, z));
    assert_eq!(found[..input.len()], expected.collect::<Vec<_>>());
}

#[test]
fn a_table_is_read_where_it_was_placed() {
    let input: Vec<u64> = (0..16).collect();
    let table = [1, 10, 100, 1000, 10000, 5, 55, 555];
    let found = output("table", &input, 16, 0, (0.0, 0.0, 0.0));
    assert_eq!(found[..16], [table, table].concat());
}

#[test]
fn wide_integers_carry() {
    let cases = [noise(4), vec![0, u64::MAX, 0, 1], vec![1, 0, 0, 1], vec![u64::MAX; 4], vec![5, 6, 5, 6]];
    for (input, m) in cases.iter().flat_map(|input| [0, 1, 63, 64, 65, 127].map(|m| (input, m))) {
        let word = |i: usize| u128::from(input[i]);
        let (x, y) = (word(0) << 64 | word(1), word(2) << 64 | word(3));
        let shifted = (x >> m) ^ (y << m);
        let values = [x.wrapping_add(y), x.wrapping_sub(y), x.wrapping_mul(y), shifted];
        let mut expected: Vec<u64> = values.iter().flat_map(|v| [*v as u64, (v >> 64) as u64]).collect();
        expected.push(x.cmp(&y) as i8 as u64);
        assert_eq!(output("wide", input, 0, m, (0.0, 0.0, 0.0))[..9], expected, "{x:#x} {y:#x} {m}");
    }
}

#[test]
fn arrays_live_in_local_memory() {
    let input = noise(37);
    let mut expected = [0u32; 16];
    for v in &input {
        expected[(v & 15) as usize] = expected[(v & 15) as usize].wrapping_add(1);
        expected[(v >> 4 & 15) as usize] ^= (v >> 8) as u32;
    }
    assert_eq!(output("histogram", &input, 37, 0, (0.0, 0.0, 0.0))[..16], expected.map(u64::from));
}

#[test]
fn floats_match_the_host() {
    for (x, y, z) in
        [(1.1f32, -2.7f32, 3.3f64), (300.5, 1e-30, -1e10), (-0.0, 0.0, 1e300), (1e38, 1e38, 40000.7)]
    {
        let m = 0xffff_ffff_0000_0001u64;
        let singles = [
            x + y,
            x - y,
            x * y,
            x / y,
            x.min(y),
            x.max(y),
            -x,
            x.abs(),
            (x as i32) as f32,
            z as f32,
            if x < y { 1.0 } else { 2.0 },
            m as f32,
            (m as i64) as f32,
            (x as u8) as f32,
        ];
        let doubles = [z * z, f64::from(x), z / 3.0, f64::from(z as i16)];
        let found = output("floats", &[], 0, m, (x, y, z));
        for (i, expected) in singles.iter().enumerate() {
            let bits = (found[i / 2] >> (32 * (i % 2))) as u32;
            let value = f32::from_bits(bits);
            assert!(
                value == *expected || (value.is_nan() && expected.is_nan()),
                "{i}: {value} {expected} {x} {y} {z}"
            );
        }
        for (i, expected) in doubles.iter().enumerate() {
            assert_eq!(f64::from_bits(found[7 + i]), *expected, "double {i}");
        }
    }
}

#[test]
fn halves_round_once_each_way() {
    let (x, y) = (1.37f32, -0.011f32);
    let input: Vec<u16> = (0..200u16).map(|i| i.wrapping_mul(331)).collect();
    let words: Vec<u64> =
        input.chunks(4).map(|c| c.iter().rev().fold(0, |word, half| word << 16 | u64::from(*half))).collect();
    let found = output("halves", &words, 100, 0, (x, y, 0.0));
    for (bits, found) in input.iter().zip(&found).take(100) {
        let f = f16::from_bits(*bits).to_f32();
        let g = f * x + y;
        if g.is_nan() {
            continue;
        }
        let half = u64::from(f16::from_f32(g).to_bits());
        let expected =
            half | u64::from(bf16::from_f32(g).to_bits()) << 16 | u64::from(*bits) << 32 | half << 48;
        assert_eq!(*found, expected, "{bits:#x}");
    }
}

/// The kernel of `compiled.rs` that uses what the machine answers.
fn synchronising(m: u64) -> (Vec<Stop>, Machine) {
    let module = parse(COMPILED).unwrap();
    let kernel = module.kernel("sync").unwrap();
    let mut machine = Machine { global: bytes(&noise(32)), ..Machine::default() };
    machine.parameters = bytes(&[0, GLOBAL, 0, m, 0, 0]);
    machine.specials = vec![(Special::Globaltimer, 5000), (Special::Ctaid(0), 70)];
    let (stops, _) = run_to_end(kernel, &mut machine, [1, 0]);
    (stops, machine)
}

#[test]
fn inline_assembly_reaches_the_machine() {
    let (stops, machine) = synchronising(0);
    let kinds: Vec<String> =
        stops.iter().map(|stop| format!("{stop:?}").chars().take(12).collect()).collect();
    assert_eq!(kinds, ["BlockBarrier", "Sleep { dura", "BlockBarrier", "Warp(WarpReq", "Exit"]);
    let words = machine.words();
    assert_eq!(words[2..4], noise(2));
    assert_eq!(words[4..6], words[6..8]);
    assert_eq!(words[8], 5000 + 1 + 70);
    let orders: Vec<&str> = machine.log.iter().map(String::as_str).collect();
    let access = |width_bytes: u8, lanes: u8| {
        format!(
            "MemoryAccess {{ space: Global, order: Relaxed, scope: Sys, width_bytes: {width_bytes}, lanes: {lanes} }}"
        )
    };
    assert_eq!(orders[0], format!("load {}", access(16, 1)));
    assert_eq!(orders[1], format!("store {}", access(16, 1)));
    assert_eq!(orders[2], format!("load {}", access(8, 2)));
    assert_eq!(orders[3], format!("store {}", access(8, 2)));
    assert!(orders[4].starts_with("CompareSwap") && orders[4].contains("scope: Gpu"), "{}", orders[4]);
    assert_eq!(orders[5..7], ["Thread(AcqRel, Sys)", "ProxyAlias"]);
}

#[test]
fn a_trap_is_a_fault() {
    let (stops, _) = synchronising(3);
    assert_eq!(stops.last(), Some(&Stop::Fault(crate::sim::interface::Fault::Trap)));
}

fn location_of<'k>(kernel: &'k Kernel, start: &str) -> crate::sim::ptx::Location<'k> {
    let mut all = (0..kernel.code.len() as u32).map(|pc| kernel.location(pc));
    all.find(|location| location.ptx_text.starts_with(start)).unwrap()
}

#[test]
fn locations_name_the_line_of_the_source() {
    let module = parse(ACCUMULATE).unwrap();
    let kernel = &module.kernels[0];
    let special = location_of(kernel, "mov.u32");
    assert_eq!(special.ptx_text, "mov.u32 \t%r1, %tid.x;");
    let (file, line) = special.source.unwrap();
    assert!(file.ends_with("nvptx/mod.rs") && line == 125, "{file}:{line}");
    assert_eq!(location_of(kernel, "st.").source, Some(("device/src/lib.rs", 14)));
}

#[test]
fn inlined_lines_name_both_places() {
    let body = ".loc 1 7 3\nmov.b32 %r1, 1;\n.loc 2 9 1, function_name $L__info_string0, inlined_at 1 8 5\n\
        mov.b32 %r1, 2;\n.loc 1 0 5\nmov.b32 %r1, 3;";
    let head = ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<9>;\n";
    let files = ".file 1 \"kernel.rs\", 1700000000, 512\n.file 2 \"ptx.rs\"\n";
    let module = parse(&format!("{head}{body}\nret;\n}}\n{files}")).unwrap();
    let kernel = &module.kernels[0];
    let places: Vec<_> =
        (0..3).map(|pc| (kernel.location(pc).source, kernel.location(pc).inlined_at)).collect();
    assert_eq!(places[0], (Some(("kernel.rs", 7)), None));
    assert_eq!(places[1], (Some(("ptx.rs", 9)), Some(("kernel.rs", 8))));
    // Line 0 marks code that has no line of its own.
    assert_eq!(places[2], (None, None));
    let text = "PTX line 10: `mov.b32 %r1, 2;` (ptx.rs:9, inlined at kernel.rs:8)";
    assert_eq!(kernel.location(1).to_string(), text);
}

#[test]
fn errors_name_their_origin() {
    let error = parse(".version 8.4\n.target sm_90\nrubbish").unwrap_err().with_origin("kernels.ptx");
    assert_eq!(
        error.to_string(),
        "PTX from kernels.ptx cannot be loaded: line 3: unknown directive `rubbish`"
    );
}
