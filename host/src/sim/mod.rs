//! The simulated machine.

pub mod interface;
