//! Where the source of `core` comes from: the sysroot, rustup, or the distribution's package.
//!
//! The sysroot is only ever written by rustup. A package is unpacked into the user's cache folder, and cargo is pointed
//! there: below a workspace, cargo would name the same files differently for crates of different workspaces, and compile
//! `core` anew at each change between them.

mod debian;

use crate::error::{BuildError, Result};
use crate::output::Lock;
use crate::{environment, process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const QUERY_LIMIT: Duration = Duration::from_secs(120);
const UNPACK_LIMIT: Duration = Duration::from_secs(600);
const RUSTUP_LIMIT: Duration = Duration::from_secs(300);

/// The source of `core`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RustSrc {
    /// In the sysroot, where cargo looks by itself.
    Sysroot(PathBuf),
    /// In a folder of ours, which cargo must be told of.
    Unpacked(PathBuf),
}

impl RustSrc {
    /// The folder `library`.
    pub fn library(&self) -> &Path {
        match self {
            RustSrc::Sysroot(library) | RustSrc::Unpacked(library) => library,
        }
    }
}

/// The compiler that a folder's `rust-toolchain.toml` leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// Release, for example `1.95.0`.
    pub release: String,
    /// Its sysroot.
    pub sysroot: PathBuf,
}

impl Compiler {
    /// Asks `rustc` in `dir`.
    ///
    /// # Errors
    ///
    /// `rustc` is not there, fails, or says something else.
    pub fn find(dir: &Path) -> Result<Self> {
        let version = process::capture(environment::tool("rustc", dir).arg("-vV"), QUERY_LIMIT);
        let version = version.or_else(|error| match environment::rustup_may_install() {
            // The whole toolchain may be missing.
            true => process::capture(installing("rustc", dir).arg("-vV"), RUSTUP_LIMIT),
            false => Err(error),
        });
        let version = version?.stdout;
        let release = version.lines().find_map(|line| line.strip_prefix("release: "));
        let release =
            release.ok_or_else(|| BuildError::message(format!("`rustc -vV` names no release: {version}")))?;
        let sysroot =
            process::capture(environment::tool("rustc", dir).args(["--print", "sysroot"]), QUERY_LIMIT)?;
        Ok(Self { release: release.to_owned(), sysroot: PathBuf::from(sysroot.stdout.trim()) })
    }

    fn library(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust/library")
    }
}

/// The places to look in, in order. A trait, so that the order is tested without a network.
trait Places {
    /// `library` in the sysroot.
    fn sysroot(&self) -> PathBuf;
    /// `library` as an earlier build unpacked it.
    fn unpacked(&self) -> PathBuf;
    /// Asks rustup for it.
    fn add_by_rustup(&self) -> Result<(), String>;
    /// Fetches the distribution's package and unpacks it.
    fn unpack_package(&self) -> Result<(), String>;
}

/// Finds the source of `core`, or gets it.
///
/// # Errors
///
/// No place has it; the error says what was tried and what to do.
pub fn obtain(compiler: &Compiler, crate_dir: &Path, stage_dir: &Path) -> Result<RustSrc> {
    search(&Machine { compiler, crate_dir, stage_dir })
}

/// Where the source of `core` is now, if it is; gets nothing. Beside it, the places that were looked in.
pub fn look(compiler: &Compiler, crate_dir: &Path, stage_dir: &Path) -> (Option<RustSrc>, [PathBuf; 2]) {
    let places = Machine { compiler, crate_dir, stage_dir };
    (present(&places), [places.sysroot(), places.unpacked()])
}

/// A tool of rustup's that may install.
fn installing(program: &str, dir: &Path) -> Command {
    let mut command = environment::tool(program, dir);
    command.env_remove("RUSTUP_AUTO_INSTALL");
    command
}

fn is_library(folder: &Path) -> bool {
    folder.join("core/src/lib.rs").is_file()
}

fn present(places: &dyn Places) -> Option<RustSrc> {
    let (sysroot, unpacked) = (places.sysroot(), places.unpacked());
    if is_library(&sysroot) {
        return Some(RustSrc::Sysroot(sysroot));
    }
    is_library(&unpacked).then_some(RustSrc::Unpacked(unpacked))
}

fn search(places: &dyn Places) -> Result<RustSrc> {
    let absent = || "nothing there afterwards".to_owned();
    if let Some(found) = present(places) {
        return Ok(found);
    }
    let mut attempts = vec![("the sysroot", format!("no {}", places.sysroot().display()))];
    let outcome = |got: Result<(), String>| got.and_then(|()| present(places).ok_or_else(absent));
    match outcome(places.add_by_rustup()) {
        Ok(found) => return Ok(found),
        Err(why) => attempts.push(("rustup", why)),
    }
    match outcome(places.unpack_package()) {
        Ok(found) => return Ok(found),
        Err(why) => attempts.push(("the distribution's package", why)),
    }
    Err(BuildError::rust_src(attempts))
}

/// `symmem` in the folder that `XDG_CACHE_HOME` names, by default `~/.cache`.
fn user_cache() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let cache = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    cache.is_absolute().then(|| cache.join("symmem"))
}

fn is_writable(dir: &Path) -> bool {
    let made = std::fs::create_dir_all(dir).and_then(|()| std::fs::metadata(dir));
    made.is_ok_and(|facts| !facts.permissions().readonly())
}

struct Machine<'a> {
    compiler: &'a Compiler,
    crate_dir: &'a Path,
    stage_dir: &'a Path,
}

impl Machine<'_> {
    fn unpack_dir(&self) -> PathBuf {
        let cache = user_cache().filter(|cache| is_writable(cache));
        cache.unwrap_or_else(|| self.stage_dir.into()).join(format!("rust-src-{}", self.compiler.release))
    }
}

impl Places for Machine<'_> {
    fn sysroot(&self) -> PathBuf {
        self.compiler.library()
    }

    fn unpacked(&self) -> PathBuf {
        self.unpack_dir().join("library")
    }

    fn add_by_rustup(&self) -> Result<(), String> {
        if environment::find_program("rustup").is_none() {
            return Err("no `rustup` in PATH".into());
        }
        if !environment::rustup_may_install() {
            return Err("RUSTUP_AUTO_INSTALL=0 keeps it from installing".into());
        }
        let mut rustup = installing("rustup", self.crate_dir);
        process::capture(rustup.args(["component", "add", "rust-src"]), RUSTUP_LIMIT)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn unpack_package(&self) -> Result<(), String> {
        let _lock = Lock::take(&self.unpack_dir(), UNPACK_LIMIT).map_err(|error| error.to_string())?;
        if is_library(&self.unpacked()) {
            return Ok(());
        }
        debian::unpack(&self.compiler.release, &self.unpack_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;
    use std::cell::RefCell;

    /// A machine on which each place has the source or has not; it notes who was asked.
    struct Fake {
        dir: PathBuf,
        rustup_works: bool,
        package_works: bool,
        asked: RefCell<Vec<&'static str>>,
    }

    fn put(library: &Path) -> Result<(), String> {
        std::fs::create_dir_all(library.join("core/src")).unwrap();
        std::fs::write(library.join("core/src/lib.rs"), "").map_err(|error| error.to_string())
    }

    impl Places for Fake {
        fn sysroot(&self) -> PathBuf {
            self.dir.join("sysroot")
        }
        fn unpacked(&self) -> PathBuf {
            self.dir.join("unpacked")
        }
        fn add_by_rustup(&self) -> Result<(), String> {
            self.asked.borrow_mut().push("rustup");
            if self.rustup_works { put(&self.sysroot()) } else { Err("no network for rustup".into()) }
        }
        fn unpack_package(&self) -> Result<(), String> {
            self.asked.borrow_mut().push("package");
            if self.package_works { put(&self.unpacked()) } else { Err("no such package".into()) }
        }
    }

    /// `has` lists what is there and what works; the outcome is the place that answered, or the error.
    fn check(case: &str, has: &[&str], expected: &str, asked: &[&str]) {
        let scratch = Scratch::new(&format!("rust-src-{case}"));
        let fake = Fake {
            dir: scratch.path().to_path_buf(),
            rustup_works: has.contains(&"rustup"),
            package_works: has.contains(&"package"),
            asked: RefCell::default(),
        };
        for place in ["sysroot", "unpacked"].iter().filter(|place| has.contains(place)) {
            put(&scratch.path().join(place)).unwrap();
        }
        let found = match search(&fake) {
            Ok(found) => found.library().file_name().unwrap().to_str().unwrap().to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{case}: {found}");
        assert_eq!(*fake.asked.borrow(), asked, "{case}");
    }

    #[test]
    fn places_are_tried_in_order() {
        check("sysroot", &["sysroot", "unpacked", "rustup", "package"], "sysroot", &[]);
        check("unpacked", &["unpacked", "rustup", "package"], "unpacked", &[]);
        check("rustup", &["rustup", "package"], "sysroot", &["rustup"]);
        check("package", &["package"], "unpacked", &["rustup", "package"]);
        for part in
            ["the sysroot: no ", "rustup: no network", "package: no such package", "rustup component add"]
        {
            check("nothing", &[], part, &["rustup", "package"]);
        }
    }
}
