//! The simulated machine.

pub mod interface;
pub mod ptx;
pub mod thread;
