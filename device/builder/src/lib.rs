//! Compiles a device crate to PTX.
