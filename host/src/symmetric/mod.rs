//! Symmetric memory: the space, the windows in it, and how memory becomes a window.

mod allocator;
mod backing;
mod exchange;
mod offset;
mod registration;
mod space;
mod window;

pub(crate) use allocator::OffsetAllocator;
pub(crate) use backing::Backing;
pub(crate) use exchange::with_peers;
pub use offset::{AllocOffset, FlatOffset, WindowOffset};
pub use registration::Registration;
pub(crate) use registration::{Registrar, Request};
pub use space::SymmetricSpace;
pub(crate) use window::WindowInner;
pub use window::{Window, WindowSlice, WindowSliceMut};
