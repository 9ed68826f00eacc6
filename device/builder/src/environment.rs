//! Which variables of the outer build reach the compiler.
//!
//! A build script runs in the environment that cargo made for another build: another target, profile, wrapper and
//! toolchain. All of that is dropped by rule; how to reach the network and the machine stays.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const DROPPED: [&str; 9] = [
    "TARGET",
    "HOST",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
    "NUM_JOBS",
    "OUT_DIR",
    "CLIPPY_ARGS",
    "LD_LIBRARY_PATH",
];
const CARGO_KEPT: [&str; 2] = ["CARGO_HOME", "CARGO_MAKEFLAGS"];
const CARGO_KEPT_PREFIXES: [&str; 3] = ["CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR"];

/// Whether the variable `name` reaches the compiler.
pub fn is_kept(name: &str) -> bool {
    if name.starts_with("CARGO") {
        return CARGO_KEPT.contains(&name)
            || CARGO_KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    }
    if name.starts_with("RUST") {
        return name.starts_with("RUSTUP_") && name != "RUSTUP_TOOLCHAIN";
    }
    !DROPPED.contains(&name) && !name.starts_with("DEP_") && !name.starts_with("__CARGO")
}

/// A command of the toolchain (`cargo`, `rustc`, `rustup`) that runs in `dir`, where `rust-toolchain.toml` decides
/// which toolchain it is, with only the variables that [`is_kept`] keeps.
///
/// Rustup is kept from installing what the toolchain file names and the machine lacks: it would fail without a network
/// though nothing is missing but rust-src, which has other sources.
///
/// Where no `rust-toolchain.toml` is found above `dir`, as in a package from a registry, the pinned release is asked
/// for.
pub fn tool(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_none_or(is_kept)));
    command.env("PATH", search_path()).env("RUSTUP_AUTO_INSTALL", "0");
    if !has_toolchain_file(dir) {
        command.env("RUSTUP_TOOLCHAIN", crate::PINNED_RUST);
    }
    command
}

/// Whether rustup may install what is missing.
pub fn rustup_may_install() -> bool {
    std::env::var_os("RUSTUP_AUTO_INSTALL").is_none_or(|value| value != "0")
}

fn has_toolchain_file(dir: &Path) -> bool {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    dir.ancestors()
        .any(|folder| ["rust-toolchain.toml", "rust-toolchain"].iter().any(|f| folder.join(f).is_file()))
}

/// `PATH`, led by the folder of the running cargo where `PATH` has none: an editor may call cargo by its full path.
fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if find_in(&path, "cargo").is_some() {
        return path;
    }
    let Some(folder) =
        std::env::var_os("CARGO").and_then(|cargo| Some(PathBuf::from(cargo).parent()?.to_path_buf()))
    else {
        return path;
    };
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&path))).unwrap_or(path)
}

/// The first `program` in the folders of a `PATH`-like list.
pub fn find_in(path: &OsString, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The first `program` in the folders of `PATH`.
pub fn find_program(program: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, program)
}

#[cfg(test)]
mod tests {
    use super::is_kept;

    #[test]
    fn environment_is_cleared_by_rule() {
        let kept = [
            "PATH",
            "HOME",
            "USER",
            "LANG",
            "TMPDIR",
            "http_proxy",
            "HTTPS_PROXY",
            "SSL_CERT_FILE",
            "CC",
            "CARGO_HOME",
            "CARGO_MAKEFLAGS",
            "CARGO_NET_OFFLINE",
            "CARGO_HTTP_CAINFO",
            "CARGO_REGISTRY_DEFAULT",
            "CARGO_REGISTRIES_CRATES_IO_PROTOCOL",
            "RUSTUP_HOME",
            "RUSTUP_AUTO_INSTALL",
            "SYMMEM_PTX_DIR",
            "DEBUGGER",
            "TARGETS",
            "HOSTNAME",
        ];
        let dropped = [
            "CARGO",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_TARGET",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_MANIFEST_DIR",
            "CARGO_PKG_NAME",
            "CARGO_CFG_TARGET_ARCH",
            "CARGO_FEATURE_CUDA",
            "CARGO_PROFILE_DEV_LTO",
            "CARGO_INCREMENTAL",
            "CARGO_TERM_COLOR",
            "CARGO_PRIMARY_PACKAGE",
            "RUSTC",
            "RUSTDOC",
            "RUSTFLAGS",
            "RUSTDOCFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "RUSTC_LINKER",
            "RUSTC_BOOTSTRAP",
            "RUST_BACKTRACE",
            "RUST_RECURSION_COUNT",
            "RUSTUP_TOOLCHAIN",
            "TARGET",
            "HOST",
            "PROFILE",
            "OPT_LEVEL",
            "DEBUG",
            "NUM_JOBS",
            "OUT_DIR",
            "CLIPPY_ARGS",
            "LD_LIBRARY_PATH",
            "DEP_SYMMEM_DEVICE_DIR",
            "__CARGO_TESTS_ONLY_SRC_ROOT",
        ];
        let wrong: Vec<_> = kept
            .iter()
            .map(|name| (name, true))
            .chain(dropped.iter().map(|name| (name, false)))
            .filter(|(name, keep)| is_kept(name) != *keep)
            .collect();
        assert!(wrong.is_empty(), "(name, should be kept): {wrong:?}");
    }
}
