//! One function of the driver, bound when it is first called.

use super::library::{self, Missing};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The driver's function `name` with signature `F`, an `unsafe extern "C" fn`.
pub(in crate::cuda) struct Symbol<F> {
    name: &'static str,
    /// Null until bound.
    address: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// An unbound function.
    ///
    /// # Safety
    /// `F` is a function pointer with the signature that the driver gives `name`.
    pub(super) const unsafe fn new(name: &'static str) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()), signature: PhantomData }
    }

    /// The function; once bound this costs one load.
    #[inline]
    pub(in crate::cuda) fn get(&self) -> Result<F, Missing> {
        let mut address = self.address.load(Ordering::Acquire);
        if address.is_null() {
            address = self.bind()?;
        }
        // SAFETY: the address is not null and is that of `name`, whose signature is `F` (`new`); `F` has a pointer's
        // size.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    #[cold]
    fn bind(&self) -> Result<*mut c_void, Missing> {
        let address = library::address(self.name)?;
        self.address.store(address, Ordering::Release);
        Ok(address)
    }
}

/// Declares functions of the driver as statics, each under its exported name.
///
/// `as cust_raw` has the compiler compare each signature with the declaration in `cust_raw`; functions that are not
/// there, or that may answer values that its enums lack, are declared `by hand`.
macro_rules! driver_functions {
    (as cust_raw { $(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)* }) => {
        $(const _: unsafe extern "C" fn($($type),*) -> cust_raw::CUresult = cust_raw::$name;)*
        $crate::cuda::driver::symbol::driver_functions! { by hand { $(fn $name($($argument: $type),*);)* } }
    };
    (by hand { $(fn $name:ident($($argument:ident: $type:ty),* $(,)?);)* }) => {$(
        #[doc = concat!("`", stringify!($name), "`, answers a `CUresult`.")]
        pub(in crate::cuda) static $name: $crate::cuda::driver::symbol::Symbol<
            unsafe extern "C" fn($($type),*) -> u32,
        // SAFETY: the signature is the one in `cuda.h`; a `CUresult` is a 32-bit word, kept as a plain number because a
        // newer driver answers codes that no enum of ours knows.
        > = unsafe { $crate::cuda::driver::symbol::Symbol::new(stringify!($name)) };
    )*};
}

pub(super) use driver_functions;
