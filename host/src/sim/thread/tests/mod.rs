//! Threads that run whole kernels.

mod kernels;
pub(crate) mod machine;
mod numeric;
mod speed;
mod stops;
