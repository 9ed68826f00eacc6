//! Stage one: a device crate becomes one PTX module per SM.

use crate::bounds::limit_threads;
use crate::command::{self, Lto, Request};
use crate::error::{BuildError, Result};
use crate::manifest::lib_name;
use crate::merge::merge;
use crate::output::{Lock, publish};
use crate::rust_src::{self, Compiler, RustSrc};
use crate::{environment, process};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

const LOCK_LIMIT: Duration = Duration::from_secs(900);
const COMPILE_LIMIT: Duration = Duration::from_secs(600);
const QUERY_LIMIT: Duration = Duration::from_secs(120);

/// PTX of one SM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Compute capability as major × 10 + minor.
    pub sm: u32,
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// What stage one made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifacts {
    /// One module per SM, in the order asked for.
    pub modules: Vec<Module>,
    /// Files and folders to watch: a change in one of them changes the modules.
    pub inputs: Vec<PathBuf>,
    /// Where the source of `core` came from.
    pub rust_src: RustSrc,
}

/// Compiles a device crate.
#[derive(Clone, Debug)]
pub struct Builder {
    crate_dir: PathBuf,
    target_dir: Option<PathBuf>,
    sms: Vec<u32>,
    ptx_version: u32,
    lto: Lto,
    cfgs: Vec<String>,
    threads_max: Option<u32>,
    incremental: bool,
}

impl Builder {
    /// A builder of the device crate in `crate_dir`.
    pub fn new(crate_dir: impl Into<PathBuf>) -> Self {
        Self {
            crate_dir: crate_dir.into(),
            target_dir: None,
            sms: Vec::new(),
            ptx_version: 84,
            lto: Lto::Fat,
            cfgs: Vec::new(),
            threads_max: None,
            incremental: false,
        }
    }

    /// Adds a compute capability (major × 10 + minor, for example 90). In the crate, `cfg(target_feature = "sm_90")`
    /// holds for 90 and above.
    #[must_use]
    pub fn sm(mut self, sm: u32) -> Self {
        self.sms.push(sm);
        self
    }

    /// PTX ISA version as major × 10 + minor. The default 84 is the first with `.b128` accesses and is read by drivers
    /// from CUDA 12.4 on.
    #[must_use]
    pub fn ptx_version(mut self, version: u32) -> Self {
        self.ptx_version = version;
        self
    }

    /// Link-time optimisation; the default is [`Lto::Fat`].
    #[must_use]
    pub fn lto(mut self, lto: Lto) -> Self {
        self.lto = lto;
        self
    }

    /// Adds a condition for the device crate, as `rustc --cfg` takes it.
    #[must_use]
    pub fn cfg(mut self, cfg: &str) -> Self {
        self.cfgs.push(cfg.into());
        self
    }

    /// Most threads of a block of any kernel (`.maxnreg`): the assembler gives a thread no more registers than a block of
    /// so many can have. By default it gives what it likes, and large blocks may not be launchable.
    #[must_use]
    pub fn threads_max(mut self, threads: u32) -> Self {
        self.threads_max = Some(threads);
        self
    }

    /// Keeps the compiler's state of each SM, some times the size of its PTX, so that after an edit only those Rust modules
    /// are compiled that it reaches. For crates without link-time optimisation.
    #[must_use]
    pub fn incremental(mut self) -> Self {
        self.incremental = true;
        self
    }

    /// The outer build's target directory; stage one works in its folder `stage1`. Default: found by
    /// [`outer_target_dir`] from `OUT_DIR` or from this program's own file.
    #[must_use]
    pub fn target_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(dir.into());
        self
    }

    /// Compiles, or finds that nothing changed.
    ///
    /// # Errors
    ///
    /// The crate or the toolchain is not there, rust-src cannot be had (the error names every place that was tried),
    /// the crate does not compile (the error has the compiler's words), or a step exceeds its time limit. Warnings of
    /// the compiler go to standard error.
    pub fn build(&self) -> Result<Artifacts> {
        let crate_dir = self.crate_dir.canonicalize();
        let crate_dir =
            crate_dir.map_err(|error| BuildError::io("find device crate", &self.crate_dir, error))?;
        if self.sms.is_empty() {
            return Err(BuildError::message("no SM was asked for; call `Builder::sm` at least once"));
        }
        let manifest = crate_dir.join("Cargo.toml");
        let text =
            std::fs::read_to_string(&manifest).map_err(|error| BuildError::io("read", &manifest, error))?;
        let name = lib_name(&text).ok_or_else(|| {
            BuildError::message(format!(
                "{} has no package name: this is no device crate",
                manifest.display()
            ))
        })?;
        let stage = self.stage_dir()?;
        let lock = Lock::take(&stage, LOCK_LIMIT)?;
        let compiler = Compiler::find(&crate_dir)?;
        let rust_src = rust_src::obtain(&compiler, &crate_dir, &stage)?;
        let root = workspace_root(&crate_dir)?;
        let compilation =
            Compilation { crate_dir, root, stage, lock, name, manifest: text, compiler, rust_src };
        let modules = self.sms.iter().map(|&sm| compilation.module(self, sm)).collect::<Result<_>>()?;
        Ok(Artifacts { modules, inputs: compilation.inputs(), rust_src: compilation.rust_src })
    }

    fn stage_dir(&self) -> Result<PathBuf> {
        let target = self.target_dir.clone().or_else(|| {
            let start =
                std::env::var_os("OUT_DIR").map(PathBuf::from).or_else(|| std::env::current_exe().ok())?;
            outer_target_dir(&start)
        });
        let target = target.ok_or_else(|| {
            BuildError::message(
                "no target directory found above OUT_DIR; name one with `Builder::target_dir`",
            )
        })?;
        let target =
            std::path::absolute(&target).map_err(|error| BuildError::io("find folder", &target, error))?;
        Ok(target.join("stage1"))
    }
}

/// The target directory that `path` (an `OUT_DIR`, or a program that cargo built) lies in; for a build with a named
/// target, that target's folder in it.
///
/// It is the folder above the one with cargo's `.fingerprint`. Newer layouts have none: there, the nearest folder with
/// cargo's `CACHEDIR.TAG`.
pub fn outer_target_dir(path: &Path) -> Option<PathBuf> {
    let profile = path.ancestors().find(|folder| folder.join(".fingerprint").is_dir());
    let marked = || path.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    profile.and_then(Path::parent).or_else(marked).map(Path::to_path_buf)
}

/// One crate under compilation, with the lock held.
struct Compilation {
    crate_dir: PathBuf,
    root: PathBuf,
    stage: PathBuf,
    lock: Lock,
    name: String,
    /// The text of its `Cargo.toml`.
    manifest: String,
    compiler: Compiler,
    rust_src: RustSrc,
}

impl Compilation {
    /// The compiler leaves a piece of PTX for each part of the crate that it made code for, or none if nothing changed.
    /// Cargo does not track them: where the module of an earlier run is missing, or was never finished, the compiler is
    /// made to run.
    fn module(&self, builder: &Builder, sm: u32) -> Result<Module> {
        let mut request = Request {
            sm,
            ptx_version: builder.ptx_version,
            lto: builder.lto,
            target_dir: self.stage.clone(),
            lock_file: self.lock_file(),
            cfgs: builder.cfgs.clone(),
            state_dir: None,
            force: None,
        };
        let identity = self.identity(builder, &request);
        let state = format!("{}_sm{sm}_{identity:016x}", self.name);
        request.state_dir = builder.incremental.then(|| self.stage.join("incremental").join(&state));
        let made = self.stage.join("asm").join(format!("{state}.s"));
        let unfinished = made.with_extension("unfinished");
        let is_valid = made.is_file() && !unfinished.exists();
        publish(&unfinished, "")?;
        self.pieces()?.iter().try_for_each(remove)?;
        self.compile(&request)?;
        if self.pieces()?.is_empty() && !is_valid {
            request.force = Some(UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()));
            // The state of a run that was forced is of no use to another.
            request.state_dir.iter().filter(|dir| dir.is_dir()).try_for_each(remove_folder)?;
            self.compile(&request)?;
        }
        let pieces = self.pieces()?;
        if !pieces.is_empty() {
            let texts = pieces.iter().map(read).collect::<Result<Vec<_>>>()?;
            publish(&made, merge(texts.iter().map(String::as_str)))?;
            pieces.iter().try_for_each(remove)?;
        }
        let text = read(&made)?;
        let text = match builder.threads_max {
            Some(threads) => limit_threads(&text, threads),
            None => text,
        };
        remove(&unfinished)?;
        // With conditions the crate is another one, which must not take the place of the plain one.
        let variant = if builder.cfgs.is_empty() { String::new() } else { format!("_{identity:016x}") };
        let path = self.stage.join("ptx").join(format!("{}{variant}_sm{sm}.ptx", self.name));
        publish(&path, &text)?;
        Ok(Module { sm, path, text })
    }

    /// The pieces of PTX that lie where the compiler leaves them.
    fn pieces(&self) -> Result<Vec<PathBuf>> {
        let folder = self.stage.join(command::DEVICE_TARGET).join(command::PROFILE).join("deps");
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let entries =
            std::fs::read_dir(&folder).map_err(|error| BuildError::io("read folder", &folder, error))?;
        let start = format!("{}-", self.name);
        let is_piece = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&start) && name.ends_with(".s"))
        };
        let mut pieces: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_piece).collect();
        pieces.sort();
        Ok(pieces)
    }

    fn lock_file(&self) -> Option<PathBuf> {
        let is_there = self.root.join("Cargo.lock").is_file();
        (!is_there).then(|| self.stage.join("lock").join(&self.name).join("Cargo.lock"))
    }

    /// What keeps two crates of one name, or one crate under two compilers, flags or manifests, from taking each other's
    /// output for theirs when they share a target directory: cargo remembers each by itself, and does not compile again
    /// what it has compiled before the other.
    fn identity(&self, builder: &Builder, request: &Request) -> u64 {
        let mut hasher = DefaultHasher::new();
        (command::arguments(request), command::rustflags(self.rust_src.library())).hash(&mut hasher);
        (
            builder.incremental,
            &self.crate_dir,
            &self.root,
            &self.manifest,
            &self.compiler.release,
            &self.compiler.sysroot,
        )
            .hash(&mut hasher);
        hasher.finish()
    }

    /// Cargo shares the lock, and reads nothing from it: if this process is killed, the next builder must not find in
    /// the folder what a compiler that lives on still puts there.
    fn compile(&self, request: &Request) -> Result<()> {
        let mut cargo = environment::tool("cargo", &self.crate_dir);
        cargo.args(command::arguments(request));
        configure(&mut cargo, &self.rust_src);
        let captured = process::capture_from(&mut cargo, self.lock.share()?, COMPILE_LIMIT)?;
        eprint!("{}", without_noise(&captured.stderr));
        Ok(())
    }

    fn inputs(&self) -> Vec<PathBuf> {
        let mut inputs = vec![self.crate_dir.join("src"), self.crate_dir.join("Cargo.toml")];
        inputs.extend(["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"].map(|file| self.root.join(file)));
        let folder = self.stage.join(command::DEVICE_TARGET).join(command::PROFILE);
        // Names the files of path dependencies too; where it is missing, the crate's own folder is still watched.
        let listed = std::fs::read_to_string(folder.join(format!("lib{}.d", self.name))).unwrap_or_default();
        inputs.extend(dep_info_files(&listed));
        inputs.retain(|path| path.exists());
        inputs.sort();
        inputs.dedup();
        inputs
    }
}

fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    std::fs::read_to_string(path).map_err(|error| BuildError::io("read the compiler's output", path, error))
}

fn remove(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    std::fs::remove_file(path).map_err(|error| BuildError::io("remove", path, error))
}

fn remove_folder(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    std::fs::remove_dir_all(path).map_err(|error| BuildError::io("remove folder", path, error))
}

/// Sets the variables of stage one: unstable flags on the stable compiler, flags of every crate, the source of `core`.
fn configure(cargo: &mut Command, rust_src: &RustSrc) {
    cargo.env("RUSTC_BOOTSTRAP", "1");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", command::rustflags(rust_src.library()));
    if let RustSrc::Unpacked(library) = rust_src {
        cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
    }
}

/// Drops the warning that the compiler gives for every PTX version that it is told: the choice is deliberate.
fn without_noise(warnings: &str) -> String {
    let is_noise = |block: &str| {
        block.trim_start().starts_with("warning: unstable feature specified for `-Ctarget-feature`: `ptx")
    };
    warnings.split_inclusive("\n\n").filter(|block| !is_noise(block)).collect()
}

fn workspace_root(crate_dir: &Path) -> Result<PathBuf> {
    let mut cargo = environment::tool("cargo", crate_dir);
    cargo.args(["locate-project", "--workspace", "--message-format=plain"]);
    let manifest = process::capture(&mut cargo, QUERY_LIMIT)?.stdout;
    let root = Path::new(manifest.trim()).parent().map(Path::to_path_buf);
    root.ok_or_else(|| BuildError::message(format!("cargo named no workspace for {}", crate_dir.display())))
}

/// The files after the colon of a dep-info line, in which `\ ` is a blank inside a name.
fn dep_info_files(text: &str) -> Vec<PathBuf> {
    let Some((_, files)) = text.lines().next().and_then(|line| line.split_once(": ")) else {
        return Vec::new();
    };
    let files = files.replace("\\ ", "\0");
    files.split_whitespace().map(|file| PathBuf::from(file.replace('\0', " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn target_directories_are_found_marked_or_not() {
        for (case, folders, mark, path, expected) in [
            ("host", "t/debug/.fingerprint", Some("t"), "t/debug/build/a/out", Some("t")),
            ("unmarked", "t/debug/.fingerprint", None, "t/debug/build/a/out", Some("t")),
            ("program", "t/release/.fingerprint", None, "t/release/program", Some("t")),
            (
                "cross",
                "t/triple/debug/.fingerprint",
                Some("t"),
                "t/triple/debug/build/a/out",
                Some("t/triple"),
            ),
            ("cache", "t/debug/.fingerprint", Some("."), "t/debug/build/a/out", Some("t")),
            ("newer", "t/build", Some("t"), "t/build/a/b/out", Some("t")),
            ("elsewhere", "bin", None, "bin/program", None),
        ] {
            let scratch = Scratch::new(&format!("target-{case}"));
            std::fs::create_dir_all(scratch.path().join(folders)).unwrap();
            if let Some(folder) = mark {
                std::fs::write(scratch.path().join(folder).join("CACHEDIR.TAG"), "").unwrap();
            }
            let expected =
                expected.map(|folder| scratch.path().join(folder).components().collect::<PathBuf>());
            assert_eq!(outer_target_dir(&scratch.path().join(path)), expected, "{case}");
        }
    }

    #[test]
    fn dep_info_names_every_source() {
        let files = dep_info_files("/t/liba.a: /w/src/a\\ b.rs /w/src/lib.rs\n\n/w/src/lib.rs:\n");
        assert_eq!(files, ["/w/src/a b.rs", "/w/src/lib.rs"].map(PathBuf::from));
        assert!(dep_info_files("").is_empty());
    }

    #[test]
    fn only_deliberate_warnings_are_dropped() {
        let noise =
            "warning: unstable feature specified for `-Ctarget-feature`: `ptx84`\n  |\n  = note: this\n\n";
        let real = "warning: unused variable: `x`\n --> src/lib.rs:1:1\n\n";
        assert_eq!(without_noise(&format!("{noise}{real}{noise}")), real);
        assert_eq!(without_noise(""), "");
    }

    #[test]
    fn bad_input_is_named() {
        let none = Builder::new("no/such/crate").sm(90).build().unwrap_err().to_string();
        assert!(none.contains("cannot find device crate no/such/crate"), "{none}");
        let no_sm = Builder::new(env!("CARGO_MANIFEST_DIR")).build().unwrap_err().to_string();
        assert!(no_sm.contains("no SM was asked for"), "{no_sm}");
    }
}
