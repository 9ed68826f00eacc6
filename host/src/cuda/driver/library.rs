//! The driver's library: opened once, when the first function is needed.

use super::codes;
use crate::multicast_switch::MulticastSwitch;
use crate::{Error, ErrorKind};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Names the library to use instead of `libcuda.so.1`.
pub const LIBRARY_VARIABLE: &str = "SYMMEM_LIBCUDA";

/// Never unloaded: functions of the driver run in threads and exit handlers of their own.
static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
static LOOKED_UP: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// A function that cannot be bound.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct Missing {
    name: &'static str,
    cause: Cause,
}

#[derive(Clone, Debug)]
enum Cause {
    NoLibrary { reason: &'static str },
    NoSymbol,
    SwitchedOff { by: String },
}

impl Missing {
    /// What a C caller of the function is answered.
    pub(super) fn code(&self) -> u32 {
        match self.cause {
            Cause::NoLibrary { .. } => codes::NO_DEVICE,
            Cause::NoSymbol => codes::NOT_FOUND,
            Cause::SwitchedOff { .. } => codes::NOT_SUPPORTED,
        }
    }
}

impl From<Missing> for Error {
    #[cold]
    fn from(missing: Missing) -> Self {
        let symbol = missing.name.to_owned();
        match missing.cause {
            Cause::NoLibrary { reason } => ErrorKind::NoDriver { reason: reason.to_owned() }.into(),
            Cause::NoSymbol => ErrorKind::MissingSymbol { symbol }.into(),
            Cause::SwitchedOff { by } => {
                let hint = format!("multicast is switched off by {by}");
                ErrorKind::Unsupported { what: symbol, hint }.into()
            }
        }
    }
}

/// Address of the driver's function `name`. The one place that looks a function up.
pub(super) fn address(name: &'static str) -> Result<*mut c_void, Missing> {
    if name.starts_with("cuMulticast")
        && let MulticastSwitch::Off { by } = MulticastSwitch::from_env()
    {
        return Err(Missing { name, cause: Cause::SwitchedOff { by } });
    }
    let library = library().map_err(|reason| Missing { name, cause: Cause::NoLibrary { reason } })?;
    record(name);
    // SAFETY: the address is only kept here; who calls it states the signature (`Symbol`).
    let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
    found.map(|symbol| symbol.as_raw_ptr()).map_err(|_| Missing { name, cause: Cause::NoSymbol })
}

/// Names of all functions looked up in the driver's library so far by this process, in order of first use.
pub fn looked_up() -> Vec<&'static str> {
    LOOKED_UP.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn record(name: &'static str) {
    let mut names = LOOKED_UP.lock().unwrap_or_else(PoisonError::into_inner);
    if !names.contains(&name) {
        names.push(name);
    }
}

fn library() -> Result<&'static Library, &'static str> {
    LIBRARY.get_or_init(open).as_ref().map_err(String::as_str)
}

fn open() -> Result<Library, String> {
    let name = std::env::var_os(LIBRARY_VARIABLE).unwrap_or_else(|| "libcuda.so.1".into());
    // SAFETY: loading the CUDA driver runs its initialisers, which ask nothing of the program; a library named by the
    // variable is the choice of who sets it.
    unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| error.to_string())
}
