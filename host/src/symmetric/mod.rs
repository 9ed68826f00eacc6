//! Symmetric memory: the space, the windows in it, and how memory becomes a window.

mod allocator;
mod backing;
mod buffer;
mod exchange;
mod index;
pub(crate) mod ledger;
mod memory;
mod multicast;
mod offset;
mod pending;
mod registration;
mod space;
mod turn;
mod window;

pub(crate) use allocator::OffsetAllocator;
pub(crate) use backing::Backing;
pub use buffer::DeviceBuffer;
pub(crate) use exchange::with_peers;
pub(crate) use index::{Found, IntervalIndex};
pub(crate) use memory::Memory;
pub(crate) use multicast::{
    Handover, Multicast, MulticastSpace, Seat as MulticastSeat, Wish, capability, warn_unicast,
};
pub use offset::{AllocOffset, FlatOffset, WindowOffset};
pub(crate) use pending::{Awaited, Promise};
pub use pending::{Deregistration, Preparation, Registration};
pub(crate) use registration::{Registrar, Request};
pub use space::SymmetricSpace;
pub(crate) use turn::{Kind, Turn};
pub(crate) use window::WindowInner;
pub use window::{Window, WindowSlice, WindowSliceMut};
