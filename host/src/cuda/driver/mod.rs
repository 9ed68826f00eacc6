//! The functions of the CUDA driver, each bound separately when it is first called.
//!
//! `cust` names 105 functions of `libcuda.so`. This crate defines them (`exported`) and forwards to the driver's own,
//! so that a program links without CUDA, starts without a driver, and meets an old driver's lack of a function only
//! where that function is called.
//!
//! | file | what |
//! |---|---|
//! | `library` | opens `libcuda.so.1`, looks functions up, keeps a record of the names |
//! | `symbol` | one function that is bound at its first call |
//! | `exported` | the functions that `cust` names, defined for the linker |
//! | `own` | the functions that this crate needs beside them |
//! | `codes` | names of the driver's answers, with and without a driver |

pub(super) mod codes;
mod exported;
mod library;
pub(in crate::cuda) mod own;
mod symbol;

/// Every function of the driver that this crate can call, by its exported name.
pub(super) mod functions {
    pub(in crate::cuda) use super::exported::functions::*;
    pub(in crate::cuda) use super::own::*;
}

pub(super) use exported::keep_linked;
pub use library::{LIBRARY_VARIABLE, looked_up};

use crate::Result;

/// Finds a function of the driver without calling it, e.g. to report what a driver offers.
///
/// # Errors
/// [`NoDriver`](crate::ErrorKind::NoDriver) without a driver, [`MissingSymbol`](crate::ErrorKind::MissingSymbol) where
/// the driver lacks it, [`Unsupported`](crate::ErrorKind::Unsupported) for a `cuMulticast*` function while multicast is
/// switched off: such a name does not reach the library.
pub fn look_up(name: &'static str) -> Result<()> {
    library::address(name)?;
    Ok(())
}
