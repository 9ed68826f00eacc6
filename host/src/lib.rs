//! Symmetric memory and low-latency NVLink collectives.
//!
//! | module | what |
//! |---|---|
//! | [`backend`] | the seam between this crate and a machine |
//! | [`error`] | the one error |
//! | [`multicast_switch`] | whether multicast may be used, and what forbids it |
//! | [`ptx_version`] | which CUDA version reads which PTX |

pub mod backend;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod error;
pub mod multicast_switch;
pub mod ptx_version;
#[cfg(feature = "sim")]
pub mod sim;

pub use error::{Error, ErrorKind, Result};
