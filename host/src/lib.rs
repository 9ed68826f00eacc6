//! Symmetric memory and low-latency NVLink collectives.
//!
//! A [`Machine`] has devices; a [`Comm`] joins some of them; [`Comm::alloc`] gives every rank memory that all ranks see
//! at the same offset, a [`Window`]; [`Comm::all_reduce`] and its kin work on windows, one kernel a call (by
//! copy engines two, with copies between).
//!
//! | module | what |
//! |---|---|
//! | [`backend`] | the seam: what a machine can do |
//! | [`machine`], [`stream`] | machines, devices, streams, events, graphs |
//! | [`vmm`] | physical memory, reservations, mappings |
//! | [`symmetric`] | the symmetric space, windows, registration |
//! | [`comm`] | communicators |
//! | [`collectives`] | the plan of a collective, and its launch |
//! | [`kernels_ptx`] | the PTX that this build carries |
//! | [`multicast_switch`] | whether multicast may be used, and what forbids it |
//! | [`ptx_version`] | which CUDA version reads which PTX |
//! | [`svg`] | pictures |
//! | [`tap`] | a machine whose calls are watched |
//! | [`error`] | the one error |

pub mod backend;
pub mod collectives;
pub mod comm;
#[cfg(feature = "cuda")]
pub mod cuda;
mod digest;
pub mod element;
mod environment;
pub mod error;
mod kernels;
pub mod kernels_ptx;
pub mod machine;
pub mod multicast_switch;
pub mod ptx_version;
#[cfg(feature = "sim")]
pub mod sim;
pub mod stream;
pub mod svg;
pub mod symmetric;
pub mod tap;
pub mod vmm;

pub use collectives::TuningTable;
pub use comm::{Comm, CommConfig, Group, UniqueId, group};
pub use element::{E4m3, E5m2, Element};
pub use error::{Error, ErrorKind, Result};
pub use machine::{Device, Machine};
pub use stream::{Event, Graph, GraphExec, Stream};
pub use symmem_device::kernels::{Algorithm, Collective, Dtype, Multicast, Op};
pub use symmetric::{
    Deregistration, DeviceBuffer, Preparation, Registration, Window, WindowSlice, WindowSliceMut,
};
