//! How fast the loop is. Run by hand, optimised:
//! `cargo test --release -p symmem --lib -- --ignored --nocapture instructions_per_second`.

use super::machine::{GLOBAL, module_text};
use crate::sim::interface::{
    AtomicOp, Environment, Fault, Fence, Lanes, MemoryAccess, MultimemOp, Special, Stop,
};
use crate::sim::ptx::parse;
use crate::sim::thread::{ThreadState, run};
use std::time::Instant;

/// Memory of 8-byte words without checks of rights.
struct Flat {
    words: Vec<u64>,
    parameters: Vec<u8>,
}

impl Flat {
    fn index(&self, address: u64) -> Result<usize, Fault> {
        let index = (address.wrapping_sub(GLOBAL) / 8) as usize;
        if index < self.words.len() { Ok(index) } else { Err(Fault::Unmapped { address }) }
    }
}

impl Environment for Flat {
    fn load(&mut self, _: u32, _: MemoryAccess, address: u64) -> Result<Lanes, Fault> {
        Ok([self.words[self.index(address)?], 0, 0, 0])
    }

    fn store(&mut self, _: u32, _: MemoryAccess, address: u64, values: &Lanes) -> Result<(), Fault> {
        let index = self.index(address)?;
        self.words[index] = values[0];
        Ok(())
    }

    fn atomic(
        &mut self,
        _: u32,
        _: MemoryAccess,
        _: AtomicOp,
        address: u64,
        _: u64,
        _: u64,
    ) -> Result<u64, Fault> {
        Err(Fault::Unmapped { address })
    }

    fn multimem(
        &mut self,
        _: u32,
        _: MemoryAccess,
        _: MultimemOp,
        address: u64,
        _: &Lanes,
    ) -> Result<Lanes, Fault> {
        Err(Fault::Unmapped { address })
    }

    fn fence(&mut self, _: u32, _: Fence) {}

    fn parameters(&self) -> &[u8] {
        &self.parameters
    }

    fn special(&mut self, _: Special) -> u64 {
        0
    }
}

fn measure(name: &str, text: &str, arguments: &[u64], budget: u32) {
    let kernel = parse(text).unwrap().kernels.remove(0);
    let parameters = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut flat = Flat { words: vec![1; 4096], parameters };
    let mut registers = vec![0; kernel.n_registers as usize];
    let mut done = 0u64;
    let start = Instant::now();
    while done < 200_000_000 {
        let mut thread = ThreadState::new(&kernel, &mut registers);
        loop {
            let (stop, executed) = run(&kernel, &mut thread, &mut registers, &mut flat, budget);
            done += u64::from(executed);
            match stop {
                Stop::Budget => {}
                Stop::Exit => break,
                other => panic!("{other:?}"),
            }
        }
    }
    let rate = done as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{name}, budget {budget}: {rate:.0} million instructions a second");
}

/// Halves widened, added and narrowed again: conversions go through the exact path.
const HALVES: &str = ".reg .pred %p<2>; .reg .b16 %h<9>; .reg .b32 %r<9>;\n\
    mov.b16 %h1, 0x3c01; mov.b32 %r1, 0; mov.b32 %r4, 0f3A83126F;\n\
    again: cvt.f32.f16 %r2, %h1; add.rn.f32 %r3, %r2, %r4; cvt.rn.f16.f32 %h1, %r3;\n\
    add.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, 1000000; @%p1 bra again; ret;";

#[test]
#[ignore = "a measurement, not a check"]
fn instructions_per_second() {
    let accumulate = include_str!("../../ptx/fixtures/accumulate.ptx");
    for budget in [u32::MAX, 64] {
        measure("accumulate", accumulate, &[GLOBAL, GLOBAL + 2048, 0, 1 << 52, GLOBAL + 1024], budget);
    }
    measure("halves", &module_text(HALVES), &[0; 8], 64);
}
