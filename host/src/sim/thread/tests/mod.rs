//! Threads that run whole kernels.

mod kernels;
mod speed;
pub(crate) mod machine;
