//! Where NCCL's library is looked for, and its version. The bench and `cargo xtask doctor` share this file.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{OsString, c_int};
use std::fmt;
use std::path::{Path, PathBuf};

/// File name of the library.
pub(crate) const LIBRARY: &str = "libnccl.so.2";
/// Names the file to load; then nothing else is looked at.
pub(crate) const VARIABLE: &str = "SYMMEM_NCCL_LIB";
/// Where the library lies among the packages of Python.
const IN_PACKAGES: &str = "nvidia/nccl/lib";

/// A place where NCCL may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Why it was looked at.
    pub(crate) origin: &'static str,
    /// What the loader is asked for.
    pub(crate) path: PathBuf,
}

/// A version as NCCL tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) c_int);

impl fmt::Display for Version {
    /// Major, minor and patch: the code is major × 10000 + minor × 100 + patch from 2.9 on, × 1000 before.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.0;
        let major_unit = if code < 10_000 { 1_000 } else { 10_000 };
        write!(f, "{}.{}.{}", code / major_unit, code % major_unit / 100, code % 100)
    }
}

/// All places, in the order in which they are tried: the variable alone; or the loader's own search, then the folders of
/// Python packages.
pub(crate) fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Candidate> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(path) = set(VARIABLE) {
        return vec![Candidate { origin: VARIABLE, path: path.into() }];
    }
    let mut found =
        vec![Candidate { origin: "the loader (LD_LIBRARY_PATH, ldconfig)", path: LIBRARY.into() }];
    let named = set("PYTHONPATH").map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>());
    let packages = named
        .unwrap_or_default()
        .into_iter()
        .chain(environments(set).into_iter().flat_map(|root| packages(&root)));
    for path in packages.map(|folder| folder.join(IN_PACKAGES).join(LIBRARY)) {
        if path.is_file() && !found.iter().any(|candidate| candidate.path == path) {
            found.push(Candidate { origin: "Python packages", path });
        }
    }
    found
}

/// Roots of Python environments: the active ones, those of each `python3` that can be called, the user's and the
/// system's, and those under `/opt`, where images of containers keep them.
fn environments(set: impl Fn(&'static str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(&set).map(Into::into).collect();
    for folder in std::env::split_paths(&set("PATH").unwrap_or_default()) {
        let program = folder.join("python3");
        let programs = [program.canonicalize().ok(), program.is_file().then_some(program)];
        roots.extend(
            programs.into_iter().flatten().filter_map(|one| Some(one.parent()?.parent()?.to_owned())),
        );
    }
    roots.extend(set("HOME").map(|home| Path::new(&home).join(".local")));
    roots.extend(["/usr/local", "/usr"].map(PathBuf::from));
    roots.extend(sorted_children(Path::new("/opt")));
    roots
}

/// Folders of packages in one environment.
fn packages(root: &Path) -> Vec<PathBuf> {
    let is_python = |folder: &PathBuf| {
        folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
    };
    let versions = sorted_children(&root.join("lib")).into_iter().filter(is_python);
    versions.flat_map(|version| ["site-packages", "dist-packages"].map(|name| version.join(name))).collect()
}

fn sorted_children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut children: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    children.sort();
    children
}

/// Loads the first candidate that can be loaded, and asks for its version. Every place tried before is told, with what
/// the loader said, in `tried`.
///
/// The caller never unloads the library: its threads may outlive what was made with it.
pub(crate) fn load(
    candidates: &[Candidate],
    tried: &mut Vec<String>,
) -> Option<(Library, Version, Candidate)> {
    for candidate in candidates {
        // SAFETY: NCCL's initialisers only read the environment; a library named by the variable is the choice of who
        // sets it.
        let loaded = unsafe { Library::open(Some(&candidate.path), RTLD_NOW | RTLD_LOCAL) };
        let versioned = loaded.map_err(|error| error.to_string()).and_then(|library| {
            let version = version(&library)?;
            Ok((library, version, candidate.clone()))
        });
        match versioned {
            Ok(found) => return Some(found),
            Err(reason) => tried.push(format!("{}: {reason}", candidate.origin)),
        }
    }
    None
}

fn version(library: &Library) -> Result<Version, String> {
    type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
    // SAFETY: the type is that of `ncclGetVersion` in nccl.h.
    let function =
        unsafe { library.get::<GetVersion>(b"ncclGetVersion") }.map_err(|error| error.to_string())?;
    let mut code = 0;
    // SAFETY: `code` outlives the call.
    match unsafe { function(&mut code) } {
        0 => Ok(Version(code)),
        error => Err(format!("ncclGetVersion failed with {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_taken_apart() {
        for (code, text) in [(22_809, "2.28.9"), (22_803, "2.28.3"), (2_804, "2.8.4"), (22_103, "2.21.3")] {
            assert_eq!(Version(code).to_string(), text);
        }
    }

    #[test]
    fn the_variable_is_looked_at_alone() {
        let set = |name: &str| (name == VARIABLE).then(|| OsString::from("/a/b.so"));
        assert_eq!(candidates(set), [Candidate { origin: VARIABLE, path: "/a/b.so".into() }]);
        let empty = |name: &str| (name == VARIABLE).then(OsString::new);
        assert_eq!(candidates(empty)[0].path, Path::new(LIBRARY));
    }

    #[test]
    fn the_loader_comes_before_python_and_the_active_environment_before_others() {
        let base = std::env::temp_dir().join(format!("symmem-find-{}", std::process::id()));
        let file = |root: &str, version: &str| {
            base.join(root).join("lib").join(version).join("site-packages").join(IN_PACKAGES).join(LIBRARY)
        };
        let files = [file("venv", "python3.12"), file("conda", "python3.9"), file("bin-of", "python3.11")];
        for file in &files {
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a temporary folder");
            std::fs::write(file, "no library").expect("a temporary file");
        }
        std::fs::create_dir_all(base.join("bin-of/bin")).expect("a temporary folder");
        std::fs::write(base.join("bin-of/bin/python3"), "").expect("a temporary file");
        let set = |name: &str| {
            let path = match name {
                "VIRTUAL_ENV" => base.join("venv"),
                "CONDA_PREFIX" => base.join("conda"),
                "PATH" => base.join("bin-of/bin"),
                _ => return None,
            };
            Some(path.into_os_string())
        };
        let found = candidates(set);
        let paths: Vec<_> = found.iter().map(|candidate| candidate.path.as_path()).collect();
        assert_eq!(paths[0], Path::new(LIBRARY));
        assert_eq!(paths[1..4], files);
        let mut tried = Vec::new();
        assert!(load(&found[1..4], &mut tried).is_none());
        assert!(
            tried.len() == 3 && tried.iter().all(|text| text.starts_with("Python packages: ")),
            "{tried:?}"
        );
        std::fs::remove_dir_all(&base).expect("it was there");
    }
}
