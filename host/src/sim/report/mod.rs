//! Words for what went wrong in a run: who, where in the PTX and in the source, and what memory is there.

mod deadlock;
mod fault;
mod memory;

pub(crate) use deadlock::deadlock;
pub(crate) use fault::fault;
