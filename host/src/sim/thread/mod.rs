//! Runs one thread of a kernel until it must stop.
//!
//! Who moves the program counter: [`run`] leaves it at the instruction at which the thread stopped. After the
//! [`Stop`](crate::sim::interface::Stop)s `BlockBarrier` (one that only arrives too), `Warp` and `Sleep` the machine
//! calls [`resume_with`] once, which writes the instruction's results, if it has any, and steps over it. After `Budget`
//! the next [`run`] goes on by itself. After `Exit` and `Fault` the thread is at its end.

mod memory;
mod run;
mod stop;

#[cfg(test)]
pub(crate) mod tests;

pub use run::run;
pub use stop::resume_with;

use super::ptx::Kernel;

/// First generic address of the block's shared memory. Global addresses lie below both windows.
pub const SHARED_WINDOW: u64 = 0xffff_ff00_0000_0000;
/// First generic address of the thread's local memory.
pub const LOCAL_WINDOW: u64 = 0xffff_fe00_0000_0000;

/// A thread between two calls of [`run`]; its registers lie apart.
#[derive(Clone, Debug)]
pub struct ThreadState {
    /// Index of the next instruction in [`Kernel::code`].
    pub pc: u32,
    local: Box<[u8]>,
}

impl ThreadState {
    /// A thread at the start of `kernel`. Fills its `registers`, of which there must be [`Kernel::n_registers`].
    pub fn new(kernel: &Kernel, registers: &mut [u64]) -> Self {
        registers.fill(0);
        for constant in &kernel.constants {
            registers[usize::from(constant.slot)] = constant.value;
        }
        Self { pc: 0, local: vec![0; kernel.local_bytes as usize].into_boxed_slice() }
    }
}
