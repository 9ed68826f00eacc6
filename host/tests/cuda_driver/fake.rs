//! Makes the fake `libcuda.so.1` and asks it what it saw.

use std::process::Command;

/// Compiles `fake_driver.rs`; gives the library's path, or why there is none.
pub(crate) fn build() -> Result<String, String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda_driver/fake_driver.rs");
    let library = concat!(env!("CARGO_TARGET_TMPDIR"), "/fake-libcuda.so.1");
    let fresh = format!("{library}.{}", std::process::id());
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=fake_driver", "-o", &fresh, source]);
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    // A run beside this one may have the library loaded.
    std::fs::rename(&fresh, library).map_err(|error| format!("renaming {fresh}: {error}"))?;
    Ok(library.to_owned())
}

/// A function of the library that this process uses as its driver.
pub(crate) fn function<F: Copy + 'static>(name: &str) -> F {
    let path = std::env::var("SYMMEM_LIBCUDA").expect("the parent sets it");
    // SAFETY: the library is the fake driver, which is already loaded.
    let library = unsafe { libloading::os::unix::Library::new(path) }.expect("the fake driver");
    // SAFETY: `fake_driver.rs` and the caller agree about the signature.
    let found = *unsafe { library.get::<F>(name.as_bytes()) }.expect("a function of the fake driver");
    std::mem::forget(library);
    found
}

/// How often the primary context of `device` is retained.
pub(crate) fn retained(device: i32) -> i32 {
    function::<extern "C" fn(i32) -> i32>("fake_retained")(device)
}

/// How many streams there are.
pub(crate) fn streams() -> i32 {
    function::<extern "C" fn() -> i32>("fake_streams")()
}

/// Calls on multicast objects so far.
pub(crate) fn multicast() -> Vec<String> {
    let mut bytes = vec![0; 4096];
    let function = function::<unsafe extern "C" fn(*mut u8, usize) -> usize>("fake_multicast");
    // SAFETY: the buffer has the room stated.
    let len = unsafe { function(bytes.as_mut_ptr(), bytes.len()) };
    String::from_utf8_lossy(&bytes[..len]).lines().map(str::to_owned).collect()
}

/// What the last launch was given as argument.
pub(crate) fn argument() -> Vec<u8> {
    let mut bytes = vec![0; 256];
    let function = function::<unsafe extern "C" fn(*mut u8, usize) -> usize>("fake_argument");
    // SAFETY: the buffer has the room stated.
    let len = unsafe { function(bytes.as_mut_ptr(), bytes.len()) };
    bytes.truncate(len);
    bytes
}
