//! What instructions compute, as pure functions of bits.
//!
//! Operands and results are 64-bit words as in [`crate::sim::ptx::instruction`]: a function looks only at the low bits
//! of its type and gives a zero-extended result.

pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod exact;
pub(crate) mod float;
pub(crate) mod format;
pub(crate) mod integer;
pub(crate) mod quick;
pub(crate) mod sign;

/// Picks the instance of a generic function for a [`crate::sim::ptx::types::Type`].
macro_rules! by_type {
    ($ty:expr, $function:ident, [$($variant:ident => $rust:ty),* $(,)?]) => {
        match $ty {
            $(crate::sim::ptx::types::Type::$variant => Some($function::<$rust>),)*
            _ => None,
        }
    };
}
pub(crate) use by_type;
