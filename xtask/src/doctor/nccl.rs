//! NCCL, which the bench is compared with. Looked for where the loader, `ldconfig` and Python packages have it.

use super::Finding;
use libloading::{Library, Symbol};
use std::ffi::c_int;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use symmem_builder::process;

const LIBRARY: &str = "libnccl.so.2";
const ASK_LIMIT: Duration = Duration::from_secs(20);
/// Prints the folders of Python packages, one a line.
const PYTHON_FOLDERS: &str =
    "import site, sys; print('\\n'.join(dict.fromkeys(site.getsitepackages() + sys.path)))";

/// The first NCCL that loads, and every place tried before.
pub(super) fn finding() -> Finding {
    let mut tried = Vec::new();
    for (origin, path) in candidates(&mut tried) {
        match version(&path) {
            Ok(version) => {
                let text = format!("{}.{}.{} in {}", version.0, version.1, version.2, path.display());
                tried.push(format!("{origin}: {}", path.display()));
                return Finding::new("NCCL", text).tried(tried);
            }
            Err(error) => tried.push(format!("{origin}: {error}")),
        }
    }
    Finding::new("NCCL", "not found; only comparisons need it").tried(tried)
}

fn candidates(tried: &mut Vec<String>) -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders: Vec<_> =
        std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()).collect();
    match folders.iter().map(|folder| folder.join(LIBRARY)).find(|file| file.is_file()) {
        Some(file) => found.push(("LD_LIBRARY_PATH", file)),
        None => tried.push(format!("LD_LIBRARY_PATH: {LIBRARY} in none of {} folders", folders.len())),
    }
    match process::capture(Command::new("ldconfig").arg("-p"), ASK_LIMIT) {
        Ok(cache) => match in_loader_cache(&cache.stdout) {
            Some(file) => found.push(("ldconfig cache", file)),
            None => tried.push(format!("ldconfig cache: no {LIBRARY}")),
        },
        Err(error) => tried.push(format!("ldconfig cache: {error}")),
    }
    match process::capture(Command::new("python3").args(["-c", PYTHON_FOLDERS]), ASK_LIMIT) {
        Ok(folders) => {
            let files = folders
                .stdout
                .lines()
                .filter(|folder| !folder.is_empty())
                .map(|folder| PathBuf::from(folder).join("nvidia/nccl/lib").join(LIBRARY));
            let files: Vec<_> = files.collect();
            match files.iter().find(|file| file.is_file()) {
                Some(file) => found.push(("Python packages", file.clone())),
                None => {
                    tried.extend(files.iter().map(|file| format!("Python packages: no {}", file.display())))
                }
            }
        }
        Err(error) => tried.push(format!("Python packages: {error}")),
    }
    found
}

/// The path behind the arrow of a line `libnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2`.
fn in_loader_cache(cache: &str) -> Option<PathBuf> {
    let line = cache.lines().map(str::trim).find(|line| line.starts_with(LIBRARY))?;
    line.split_once("=> ").map(|(_, path)| PathBuf::from(path))
}

fn version(path: &std::path::Path) -> Result<(c_int, c_int, c_int), String> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: NCCL's initialisers only read the environment.
    let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: the type is that of `ncclGetVersion` in nccl.h.
    let function: Symbol<'_, GetVersion> =
        unsafe { library.get(b"ncclGetVersion") }.map_err(|error| error.to_string())?;
    let mut code = 0;
    // SAFETY: `code` outlives the call.
    match unsafe { function(&mut code) } {
        0 => Ok(parts(code)),
        error => Err(format!("{}: ncclGetVersion failed with {error}", path.display())),
    }
}

/// Major, minor and patch of NCCL's code: major × 10000 + minor × 100 + patch from 2.9 on, × 1000 before.
fn parts(code: c_int) -> (c_int, c_int, c_int) {
    let major_unit = if code < 10_000 { 1_000 } else { 10_000 };
    (code / major_unit, code % major_unit / 100, code % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_taken_apart() {
        for (code, expected) in [(22809, (2, 28, 9)), (2804, (2, 8, 4)), (22103, (2, 21, 3))] {
            assert_eq!(parts(code), expected);
        }
    }

    #[test]
    fn the_loader_cache_is_read() {
        let cache = "12 libs found\n\tlibm.so.6 (libc6) => /lib/libm.so.6\n\tlibnccl.so.2 (libc6,x86-64) => /usr/l/libnccl.so.2\n";
        assert_eq!(in_loader_cache(cache), Some(PathBuf::from("/usr/l/libnccl.so.2")));
        assert_eq!(in_loader_cache("libncclx.so => /x"), None);
    }
}
