//! Symmetric memory and low-latency NVLink collectives.
//!
//! | module | what |
//! |---|---|
//! | [`backend`] | the seam between this crate and a machine |
//! | [`error`] | the one error |
//! | [`kernels_ptx`] | the kernels' PTX, which the crate carries |

pub mod backend;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod error;
pub mod kernels_ptx;
#[cfg(feature = "sim")]
pub mod sim;

pub use error::{Error, ErrorKind, Result};
