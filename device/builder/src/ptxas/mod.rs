//! The assembler of the CUDA toolkit, where there is one: it proves that PTX assembles, and tells registers and spills.

mod report;

pub use report::{KernelResources, parse};

use crate::environment::{find_in, find_program};
use crate::error::{BuildError, Result};
use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The Python wheel that carries `ptxas`, with its version.
pub const WHEEL: &str = "nvidia-cuda-nvcc==13.0.88";
const IN_WHEEL: &str = "nvidia/cu13/bin/ptxas";
const INSTALL_LIMIT: Duration = Duration::from_secs(180);
const ASSEMBLE_LIMIT: Duration = Duration::from_secs(300);

/// A `ptxas` that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    path: PathBuf,
}

impl Ptxas {
    /// Looks in `PATH`, below `CUDA_HOME` and `CUDA_PATH`, in `/usr/local/cuda`, and in `cache_dir`, where
    /// [`Ptxas::install`] puts it.
    ///
    /// # Errors
    ///
    /// None of them has it; the error names each.
    pub fn find(cache_dir: &Path) -> Result<Self> {
        if let Some(path) = find_program("ptxas") {
            return Ok(Self { path });
        }
        let mut tried = vec!["PATH".to_owned()];
        let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let homes = homes.chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin/ptxas"));
        for path in homes.chain([cache_dir.join(IN_WHEEL)]) {
            if path.is_file() {
                return Ok(Self { path });
            }
            tried.push(path.display().to_string());
        }
        Err(BuildError::message(format!("no ptxas: looked in {}", tried.join(", "))))
    }

    /// Installs the wheel [`WHEEL`] into `cache_dir` with the machine's Python. Touches nothing else.
    ///
    /// # Errors
    ///
    /// There is no Python with pip, or the wheel cannot be had within three minutes.
    pub fn install(cache_dir: &Path) -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let python = ["python3", "python"].into_iter().find_map(|name| find_in(&path, name));
        let python =
            python.ok_or_else(|| BuildError::message("no `python3` in PATH to install ptxas with"))?;
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"])
            .arg(cache_dir)
            .arg(WHEEL);
        process::capture(&mut pip, INSTALL_LIMIT)?;
        let path = cache_dir.join(IN_WHEEL);
        make_executable(&path).map_err(|error| BuildError::io("make executable", &path, error))?;
        Ok(Self { path })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Assembles the file `ptx` for `sm` (major × 10 + minor) and tells what each kernel uses.
    ///
    /// # Errors
    ///
    /// It does not assemble (the error has ptxas's words), or the report is not understood.
    pub fn assemble(&self, ptx: &Path, sm: u32) -> Result<Vec<KernelResources>> {
        let mut command = Command::new(&self.path);
        command.arg(format!("-arch=sm_{sm}")).arg("-v").arg(ptx).args(["-o", "/dev/null"]);
        let captured = process::capture(&mut command, ASSEMBLE_LIMIT)?;
        parse(&format!("{}{}", captured.stdout, captured.stderr)).map_err(BuildError::message)
    }
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(path: &Path) -> std::io::Result<()> {
    std::fs::metadata(path).map(|_| ())
}
