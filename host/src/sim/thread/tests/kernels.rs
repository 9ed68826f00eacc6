//! Kernels as the compiler emits them.

use super::machine::{GLOBAL, Machine, run_to_end};
use crate::sim::interface::{Special, Stop};
use crate::sim::ptx::{Kernel, parse};

fn load(text: &str) -> Kernel {
    parse(text).unwrap().kernels.remove(0)
}

#[test]
fn accumulate_adds_the_rounds_to_the_first_words() {
    let kernel = load(include_str!("../../ptx/fixtures/accumulate.ptx"));
    let rounds = 3u64;
    let words: Vec<u64> = (0..1024u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut machine =
        Machine { global: words.iter().flat_map(|word| word.to_le_bytes()).collect(), ..Machine::default() };
    let (a, b, stride, n) = (GLOBAL, GLOBAL + 2048, 1024, GLOBAL + 1024);
    let arguments = [a, b, stride, rounds << 32, n];
    machine.parameters = arguments.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
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
fn locations_name_the_line_of_the_source() {
    let kernel = load(include_str!("../../ptx/fixtures/accumulate.ptx"));
    let first = kernel.location(3);
    assert_eq!(first.ptx_text, "mov.u32 \t%r1, %tid.x;");
    assert!(first.source.unwrap().0.ends_with("nvptx/mod.rs"));
    assert_eq!(first.source.unwrap().1, 125);
    let store =
        (0..kernel.code.len() as u32).map(|pc| kernel.location(pc)).find(|at| at.ptx_text.starts_with("st."));
    assert_eq!(store.unwrap().source, Some(("device/src/lib.rs", 14)));
}
