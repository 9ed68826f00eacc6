//! Instructions one by one, and texts that are not PTX.

mod access;
mod bits;
mod compare;
mod convert;
mod float;
mod half;
mod integer;
mod quick;
mod refuse;
mod registers;
pub(crate) mod snippet;
