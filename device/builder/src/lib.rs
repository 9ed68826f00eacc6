//! Compiles a device crate to PTX with the stable compiler, and checks the result.
//!
//! A device crate is a plain `no_std` library with `extern "ptx-kernel"` functions and a panic handler. In a build
//! script or a task runner:
//!
//! ```no_run
//! # fn main() -> Result<(), symmem_builder::BuildError> {
//! let artifacts = symmem_builder::Builder::new("../device").sm(80).sm(90).build()?;
//! for module in &artifacts.modules {
//!     symmem_builder::check::check(&module.text, &symmem_builder::check::Rules::collective())?;
//!     println!("sm_{}: {}", module.sm, module.path.display());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`check`] | what PTX text must and must not contain |
//! | [`command`] | the compiler's command line |
//! | [`environment`] | which variables reach the compiler |
//! | [`error`] | the one error |
//! | [`merge`] | one module out of the pieces of parallel code generation |
//! | [`output`] | the lock around stage one, and files that appear whole |
//! | [`process`] | child processes with a time limit |
//! | [`ptxas`] | the assembler, where there is one |
//! | [`rust_src`] | where the source of `core` comes from |
//! | [`select`] | a module divided by its kernels, and for an older device |

pub mod bounds;
pub mod check;
pub mod command;
pub mod environment;
pub mod error;
pub mod merge;
pub mod output;
pub mod process;
pub mod ptxas;
pub mod rust_src;
pub mod select;

mod builder;
mod manifest;
#[cfg(test)]
mod testing;

pub use builder::{Artifacts, Builder, Module, outer_target_dir};
pub use command::Lto;
pub use error::{BuildError, Result};

/// The compiler release that the flags of [`command`] were tried with.
pub const PINNED_RUST: &str = "1.95.0";
