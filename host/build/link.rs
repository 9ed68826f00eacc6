//! Lets programs link where no CUDA toolkit is.

use std::{env, fs, path::PathBuf};

/// `cust_raw` asks the linker for `-lcuda`, though this crate defines all that `cust` takes from it
/// (`src/cuda/driver`). Where no CUDA toolkit has the library, an empty text file, which linkers read as a script that
/// adds nothing, stands in. Where one has it, it stays in sight for other crates of the program; `--as-needed` drops it
/// here.
pub(crate) fn supply_libcuda() -> std::io::Result<()> {
    println!("cargo::rerun-if-env-changed=CUDA_LIBRARY_PATH");
    if find_cuda_helper::find_cuda_lib_dirs().iter().any(|dir| dir.join("libcuda.so").is_file()) {
        return Ok(());
    }
    let dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("link");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("libcuda.so"), "")?;
    println!("cargo::rustc-link-search=native={}", dir.display());
    Ok(())
}
