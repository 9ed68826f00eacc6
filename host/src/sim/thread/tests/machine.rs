//! A small machine for tests: one thread, flat memory.

use crate::sim::interface::{
    AtomicOp, Environment, Fault, Fence, Lanes, MemoryAccess, MultimemOp, Space, Special, Stop,
};
use crate::sim::ptx::{Kernel, parse};
use crate::sim::thread::{ThreadState, resume_with, run};

/// Address of the first byte of [`Machine::global`].
pub(crate) const GLOBAL: u64 = 0x10_0000;

/// Flat memory, parameters and special registers of one thread.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) global: Vec<u8>,
    pub(crate) shared: Vec<u8>,
    pub(crate) parameters: Vec<u8>,
    /// Values of special registers; absent ones are 0.
    pub(crate) specials: Vec<(Special, u64)>,
    /// Accesses and fences in order, for tests of qualifiers.
    pub(crate) log: Vec<String>,
}

impl Machine {
    fn bytes(&mut self, access: MemoryAccess, address: u64) -> Result<&mut [u8], Fault> {
        let (memory, base) = match access.space {
            Space::Global => (&mut self.global, GLOBAL),
            Space::Shared => (&mut self.shared, 0),
            Space::Local => panic!("local memory is the interpreter's"),
        };
        let len = usize::from(access.width_bytes) * usize::from(access.lanes);
        let start = address.checked_sub(base).ok_or(Fault::Unmapped { address })? as usize;
        memory.get_mut(start..start.saturating_add(len)).ok_or(Fault::Unmapped { address })
    }

    /// The 64-bit words of global memory.
    pub(crate) fn words(&self) -> Vec<u64> {
        self.global.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap())).collect()
    }
}

impl Environment for Machine {
    fn load(&mut self, _: u32, access: MemoryAccess, address: u64) -> Result<Lanes, Fault> {
        self.log.push(format!("load {access:?}"));
        let mut lanes = [0; 4];
        let bytes = self.bytes(access, address)?;
        for (lane, chunk) in lanes.iter_mut().zip(bytes.chunks(usize::from(access.width_bytes.min(8)))) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            *lane = u64::from_le_bytes(word);
        }
        Ok(lanes)
    }

    fn store(&mut self, _: u32, access: MemoryAccess, address: u64, values: &Lanes) -> Result<(), Fault> {
        self.log.push(format!("store {access:?}"));
        let bytes = self.bytes(access, address)?;
        for (lane, chunk) in values.iter().zip(bytes.chunks_mut(usize::from(access.width_bytes.min(8)))) {
            let len = chunk.len();
            chunk.copy_from_slice(&lane.to_le_bytes()[..len]);
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        _: u32,
        access: MemoryAccess,
        op: AtomicOp,
        address: u64,
        operand: u64,
        second: u64,
    ) -> Result<u64, Fault> {
        self.log.push(format!("{op:?} {access:?} {operand:#x} {second:#x}"));
        let bytes = self.bytes(access, address)?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word))
    }

    fn multimem(
        &mut self,
        _: u32,
        access: MemoryAccess,
        op: MultimemOp,
        address: u64,
        values: &Lanes,
    ) -> Result<Lanes, Fault> {
        self.log.push(format!("{op:?} {access:?} {address:#x} {values:x?}"));
        Ok([0x11, 0x22, 0x33, 0x44])
    }

    fn fence(&mut self, _: u32, fence: Fence) {
        self.log.push(format!("{fence:?}"));
    }

    fn parameters(&self) -> &[u8] {
        &self.parameters
    }

    fn special(&mut self, register: Special) -> u64 {
        self.specials.iter().find(|(name, _)| *name == register).map_or(0, |(_, value)| *value)
    }
}

/// A kernel of that body, with one 64-byte parameter `args`.
pub(crate) fn kernel(body: &str) -> Kernel {
    let text = module_text(body);
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (*module.kernels[0]).clone()
}

/// The text of a module with one kernel of that body.
pub(crate) fn module_text(body: &str) -> String {
    format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .align 8 .b8 args[64])\n{{\n{body}\n}}\n"
    )
}

/// Runs a kernel to its end. Barriers, exchanges and sleeps are answered with `results`.
pub(crate) fn run_to_end(kernel: &Kernel, machine: &mut Machine, results: [u64; 2]) -> (Vec<Stop>, u32) {
    let mut registers = vec![0; kernel.n_registers as usize];
    let mut thread = ThreadState::new(kernel, &mut registers);
    let mut stops = Vec::new();
    let mut executed = 0;
    loop {
        let (stop, steps) = run(kernel, &mut thread, &mut registers, machine, 1_000_000);
        executed += steps;
        stops.push(stop.clone());
        match stop {
            Stop::Exit | Stop::Fault(_) | Stop::Budget => return (stops, executed),
            _ => resume_with(kernel, &mut thread, &mut registers, results),
        }
    }
}
