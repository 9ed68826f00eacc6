//! GPUs and driver, asked of `libcuda` directly: this program links no CUDA.

use super::Finding;
use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int, c_uint};

const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
const NAME_LEN_BYTES: usize = 256;

/// Driver, its PTX version against the kernels' (major × 10 + minor), and GPUs.
pub(super) fn findings(ptx_version: Option<u32>) -> Vec<Finding> {
    let mut findings = vec![kernel_driver()];
    let mut tried = Vec::new();
    for name in LIBRARIES {
        // SAFETY: the driver's library runs no code of ours when loaded, and its initialisers may run on any thread.
        match unsafe { Library::new(name) } {
            Ok(library) => {
                tried.push(format!("{name}: loaded"));
                let text = ask(&library, ptx_version).unwrap_or_else(|error| error);
                findings.push(Finding::new("GPUs", text).tried(tried));
                return findings;
            }
            // The loader's message names the library.
            Err(error) => tried.push(error.to_string()),
        }
    }
    let text = "none: no CUDA driver; everything runs on the simulated machine";
    findings.push(Finding::new("GPUs", text).tried(tried));
    findings
}

fn kernel_driver() -> Finding {
    let path = "/proc/driver/nvidia/version";
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text.lines().next().unwrap_or_default().to_owned(),
        Err(error) => format!("none: {path}: {error}"),
    };
    Finding::new("driver", text)
}

fn ask(library: &Library, ptx_version: Option<u32>) -> Result<String, String> {
    let mut cuda = 0;
    call(library, "cuDriverGetVersion", |f: Symbol<'_, unsafe extern "C" fn(*mut c_int) -> c_int>| {
        // SAFETY: the signature is that of the CUDA driver API, and `cuda` outlives the call.
        unsafe { f(&mut cuda) }
    })?;
    let mut text = verdict(cuda.unsigned_abs(), ptx_version);
    let mut count = 0;
    call(library, "cuInit", |f: Symbol<'_, unsafe extern "C" fn(c_uint) -> c_int>| {
        // SAFETY: the signature is that of the CUDA driver API; 0 is the only flag it takes.
        unsafe { f(0) }
    })
    .map_err(|error| format!("{text}\nnone: {error}"))?;
    call(library, "cuDeviceGetCount", |f: Symbol<'_, unsafe extern "C" fn(*mut c_int) -> c_int>| {
        // SAFETY: the signature is that of the CUDA driver API, and `count` outlives the call.
        unsafe { f(&mut count) }
    })?;
    for device in 0..count {
        text.push_str(&format!("\n{device}: {}", name(library, device)?));
    }
    Ok(text)
}

fn name(library: &Library, device: c_int) -> Result<String, String> {
    let mut name = [0u8; NAME_LEN_BYTES];
    type GetName = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
    call(library, "cuDeviceGetName", |f: Symbol<'_, GetName>| {
        // SAFETY: the signature is that of the CUDA driver API; it writes at most the length that it is told, with an
        // end mark. Without primary contexts a device is its ordinal.
        unsafe { f(name.as_mut_ptr().cast(), NAME_LEN_BYTES as c_int, device) }
    })?;
    let name = CStr::from_bytes_until_nul(&name).map_err(|error| error.to_string())?;
    Ok(name.to_string_lossy().into_owned())
}

fn call<F>(library: &Library, name: &str, run: impl FnOnce(Symbol<'_, F>) -> c_int) -> Result<(), String> {
    // SAFETY: every caller names the type that the CUDA driver API gives this function.
    let function = unsafe { library.get(name.as_bytes()) }.map_err(|error| error.to_string())?;
    match run(function) {
        0 => Ok(()),
        code => Err(format!("{name} failed with CUDA error {code}")),
    }
}

/// What the driver supports (major × 1000 + minor × 10), and whether it reads the kernels.
fn verdict(cuda: u32, ptx_version: Option<u32>) -> String {
    let (major, minor) = (cuda / 1000, cuda % 1000 / 10);
    let text = format!("the driver supports CUDA {major}.{minor}");
    let Some(ptx) = ptx_version else { return text };
    // PTX 7.0 came with CUDA 11.0, and both count on together.
    let (first_major, first_minor) = (ptx / 10 + 4, ptx % 10);
    let (verb, end) = match (major, minor) >= (first_major, first_minor) {
        true => ("reads", ""),
        false => ("does NOT read", ": update the driver"),
    };
    format!(
        "{text} and {verb} the kernels (PTX {}.{} needs CUDA {first_major}.{first_minor}){end}",
        ptx / 10,
        ptx % 10
    )
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn a_driver_reads_ptx_up_to_its_own_version() {
        for (cuda, ptx, expected) in [
            (13000, Some(84), "CUDA 13.0 and reads the kernels (PTX 8.4 needs CUDA 12.4)"),
            (12040, Some(84), "CUDA 12.4 and reads the kernels (PTX 8.4 needs CUDA 12.4)"),
            (
                12030,
                Some(84),
                "CUDA 12.3 and does NOT read the kernels (PTX 8.4 needs CUDA 12.4): update the driver",
            ),
            (12030, None, "CUDA 12.3"),
        ] {
            assert_eq!(verdict(cuda, ptx), format!("the driver supports {expected}"));
        }
    }
}
