//! Element types of the host.

use bytemuck::Pod;
use symmem_device::kernels::Dtype;

mod sealed {
    pub trait Sealed {}
}

/// A type that collectives work on.
pub trait Element: Pod + Send + Sync + sealed::Sealed {
    /// Its name for the kernels.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}

elements! {
    f32 = F32;
    half::f16 = F16;
    half::bf16 = Bf16;
}
