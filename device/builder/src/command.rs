//! The compiler's command line.
//!
//! - The profile travels on the command line: a packaged crate has no workspace that could define one, and
//!   `[profile.release]` would hit the host's build.
//! - Flags of one SM follow `--`, so that only the device crate is compiled anew for each and `core` serves all.
//! - A panic is `immediate-abort` in every crate: `trap`, with no call and nothing external.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The target of device code.
pub const DEVICE_TARGET: &str = "nvptx64-nvidia-cuda";
/// The profile of device code, which is also the name of its folder below the target.
pub const PROFILE: &str = "device";

/// TOML keys and values below `profile.device`. `line-directives-only` is the only level of debug information that
/// ptxas 13.0 accepts.
const PROFILE_VALUES: [(&str, &str); 7] = [
    ("inherits", "\"release\""),
    ("opt-level", "3"),
    ("panic", "\"abort\""),
    ("debug", "\"line-directives-only\""),
    ("incremental", "false"),
    ("debug-assertions", "false"),
    ("overflow-checks", "false"),
];

/// Arrays that a loop indexes stay in registers only if the loop is unrolled whole: at LLVM's own threshold, tiles of 16
/// elements land in `.local`. Loops whose length is known at run time only, such as those over ranks, stay loops: copies
/// of their bodies lengthen the path of the shortest kernels.
const LLVM_FLAGS: &str = "-Cllvm-args=-unroll-threshold=1000 -unroll-runtime=false -disable-lsr";

/// With a state to keep, the compiler by itself inlines no MIR, and no function from another Rust module that lacks
/// `#[inline]`: it would be `.extern` and a call. Told so, it makes kernels of the same size and registers with a state and
/// without.
const INLINE_FLAGS: [&str; 2] = ["-Zinline-mir=yes", "-Zcross-crate-inline-threshold=always"];

/// Whether the crates are optimised as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lto {
    /// As one: a function of another crate needs no `#[inline]` to be there. Takes half as long again.
    Fat,
    /// Each for itself: every function that a kernel uses from another crate must be generic, small or `#[inline]`. One
    /// that is not shows as `.extern` in the checks.
    Off,
}

impl Lto {
    fn value(self) -> &'static str {
        match self {
            Lto::Fat => "\"fat\"",
            Lto::Off => "\"off\"",
        }
    }

    /// Most parts that the compiler divides the crate into, to make code for several at once and to make it anew for few:
    /// a part is a Rust module, or some of them where there are more.
    fn codegen_units(self) -> &'static str {
        match self {
            Lto::Fat => "1",
            Lto::Off => "256",
        }
    }
}

/// What one run of the compiler makes.
#[derive(Clone, Debug)]
pub struct Request {
    /// Compute capability as major × 10 + minor.
    pub sm: u32,
    /// PTX ISA version as major × 10 + minor.
    pub ptx_version: u32,
    /// Link-time optimisation.
    pub lto: Lto,
    /// The target directory of stage one.
    pub target_dir: PathBuf,
    /// Where cargo keeps the lock file of a workspace that has none; `None` where the workspace has one, which then
    /// stays as it is.
    pub lock_file: Option<PathBuf>,
    /// Conditions of the device crate: `NAME` or `NAME="VALUE"`.
    pub cfgs: Vec<String>,
    /// Where the compiler keeps its state, so that it makes code anew only for those Rust modules that a change reaches.
    pub state_dir: Option<PathBuf>,
    /// Makes the compiler run although nothing changed.
    pub force: Option<u128>,
}

/// Flags for every crate, `core` included.
pub fn rustflags(library: &Path) -> String {
    let remap = format!("--remap-path-prefix={}=rust/library", library.display());
    ["-Zunstable-options", "-Cpanic=immediate-abort", &remap].join("\x1f")
}

/// Arguments of `cargo` for one SM.
pub fn arguments(request: &Request) -> Vec<OsString> {
    let mut line: Vec<OsString> = ["rustc", "--lib", "--quiet"].map(Into::into).into();
    line.push(format!("--profile={PROFILE}").into());
    let by_lto = [("lto", request.lto.value()), ("codegen-units", request.lto.codegen_units())];
    for (key, value) in PROFILE_VALUES.into_iter().chain(by_lto) {
        line.push("--config".into());
        line.push(format!("profile.{PROFILE}.{key}={value}").into());
    }
    match &request.lock_file {
        None => line.push("--locked".into()),
        Some(path) => {
            line.extend(["-Zlockfile-path", "--config"].map(Into::into));
            line.push(format!("resolver.lockfile-path={:?}", path.display().to_string()).into());
        }
    }
    line.push(format!("--target={DEVICE_TARGET}").into());
    line.extend(["-Zbuild-std=core", "--crate-type=staticlib", "--target-dir"].map(Into::into));
    line.push(request.target_dir.clone().into());
    line.push("--".into());
    line.extend(sm_flags(request));
    line
}

fn sm_flags(request: &Request) -> Vec<OsString> {
    let mut flags = vec![
        "--emit=asm".into(),
        // Paths relative to the workspace, where cargo runs the compiler. With `--remap-path-prefix` cargo would keep
        // one state for all SMs, and compile each anew every time.
        "-Zremap-cwd-prefix=".into(),
        format!("-Ctarget-cpu=sm_{}", request.sm).into(),
        format!("-Ctarget-feature=+ptx{}", request.ptx_version).into(),
        LLVM_FLAGS.into(),
    ];
    flags.extend(INLINE_FLAGS.map(Into::into));
    flags.extend(request.cfgs.iter().flat_map(|cfg| ["--cfg".into(), cfg.into()]));
    if let Some(dir) = &request.state_dir {
        let mut incremental = OsString::from("-Cincremental=");
        incremental.push(dir);
        flags.push(incremental);
    }
    if let Some(nonce) = request.force {
        flags.push(format!("-Cmetadata=force{nonce}").into());
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(lock_file: Option<&str>, state_dir: Option<&str>, force: Option<u128>) -> String {
        let request = Request {
            sm: 90,
            ptx_version: 84,
            lto: Lto::Fat,
            target_dir: "/t".into(),
            lock_file: lock_file.map(PathBuf::from),
            cfgs: Vec::new(),
            state_dir: state_dir.map(PathBuf::from),
            force,
        };
        let words: Vec<_> = arguments(&request).into_iter().map(|word| word.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn flags_of_one_sm_do_not_reach_core() {
        let line = line(None, None, None);
        let (all, last) = line.split_once(" -- ").unwrap();
        assert!(
            !all.contains("sm_90") && all.contains("--locked") && all.contains("profile.device.lto=\"fat\"")
        );
        assert_eq!(
            last,
            format!(
                "--emit=asm -Zremap-cwd-prefix= -Ctarget-cpu=sm_90 -Ctarget-feature=+ptx84 {LLVM_FLAGS} {}",
                INLINE_FLAGS.join(" ")
            )
        );
        assert!(!rustflags(Path::new("/rs")).contains("sm_"));
    }

    #[test]
    fn without_a_lock_file_one_is_kept_in_the_target_directory() {
        let line = line(Some("/t/k/Cargo.lock"), None, Some(7));
        assert!(!line.contains("--locked") && line.ends_with("-Cmetadata=force7"));
        assert!(
            line.contains("-Zlockfile-path --config resolver.lockfile-path=\"/t/k/Cargo.lock\""),
            "{line}"
        );
    }

    #[test]
    fn a_state_is_kept_where_it_is_asked_for() {
        assert!(line(None, Some("/t/s"), None).ends_with(" -Cincremental=/t/s"));
        assert!(!line(None, None, None).contains("-Cincremental"));
    }
}
