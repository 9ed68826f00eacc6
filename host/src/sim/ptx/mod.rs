//! PTX: text to decoded instructions, and what each instruction computes.
//!
//! | module | what |
//! |---|---|
//! | `token`, `cursor` | text to tokens |
//! | `parse` | tokens to directives, names and statements |
//! | `decode` | a statement to an [`Instruction`]; unknown ones are errors |
//! | [`instruction`] | what the interpreter matches on |
//! | `registers` | many registers to few slots |
//! | `alu` | arithmetic as pure functions |
//! | [`module`] | [`Module`], [`Kernel`] and where instructions come from |

pub(crate) mod alu;
mod cursor;
mod decode;
pub mod error;
pub mod instruction;
mod mnemonic;
pub mod module;
pub(crate) mod operands;
mod parse;
mod registers;
#[cfg(test)]
mod tests;
mod token;
pub(crate) mod types;

pub use error::PtxError;
pub use instruction::Instruction;
pub use module::{Kernel, Location, Module, Variable};
pub use parse::parse;
