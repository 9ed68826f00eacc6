//! Debian's package `rust-src`, fetched without touching the machine's own package state.

use crate::environment::find_program;
use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The suite whose `rust-src` has the pinned release, for every architecture.
const SUITE: &str = "trixie-backports";
const APT_LIMIT: Duration = Duration::from_secs(120);

/// Fetches `rust-src` of `release` and puts its folder `library` into `dir`.
///
/// The repository is the one that apt already uses; its lists and its cache stay below `dir`.
///
/// # Errors
///
/// In words: apt is not there, no repository offers the package, or a step fails or takes too long.
pub(super) fn unpack(release: &str, dir: &Path) -> Result<(), String> {
    for program in ["apt-get", "dpkg-deb"] {
        find_program(program).ok_or_else(|| format!("no `{program}` in PATH"))?;
    }
    let targets = run(Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let bases = repository_bases(&targets);
    if bases.is_empty() {
        return Err("apt uses no repository".into());
    }
    let mut reasons = Vec::new();
    for base in bases {
        match unpack_from(&base, release, dir) {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(format!("{base} {SUITE}: {reason}")),
        }
    }
    Err(reasons.join("; "))
}

/// Each repository once; security archives carry no backports.
fn repository_bases(targets: &str) -> Vec<String> {
    let mut bases: Vec<String> = Vec::new();
    for base in targets.lines().map(str::trim).filter(|base| !base.is_empty() && !base.contains("security")) {
        if !bases.iter().any(|known| known == base) {
            bases.push(base.to_owned());
        }
    }
    bases
}

fn unpack_from(base: &str, release: &str, dir: &Path) -> Result<(), String> {
    let work = dir.join("apt");
    if work.exists() {
        std::fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    }
    for folder in ["lists/partial", "cache/archives/partial"] {
        let folder = work.join(folder);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let list = work.join("sources.list");
    std::fs::write(&list, format!("deb {base} {SUITE} main\n")).map_err(|error| error.to_string())?;
    run(apt_get(&work).arg("update"))?;
    run(apt_get(&work).current_dir(&work).args(["download", &format!("rust-src={release}*")]))?;
    let package = only_package(&work)?;
    let tree = work.join("tree");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&tree))?;
    let library = tree.join(format!("usr/src/rustc-{release}/library"));
    std::fs::rename(&library, dir.join("library"))
        .map_err(|error| format!("{}: {error}", library.display()))?;
    std::fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))
}

/// `apt-get` on lists, cache and sources of our own.
fn apt_get(work: &Path) -> Command {
    let mut command = Command::new("apt-get");
    for (option, path) in [
        ("Dir::Etc::SourceList", "sources.list"),
        ("Dir::Etc::SourceParts", "none"),
        ("Dir::State::Lists", "lists"),
        ("Dir::Cache", "cache"),
    ] {
        command.arg("-o").arg(format!("{option}={}", work.join(path).display()));
    }
    command.args([
        "-q",
        "-o",
        "Acquire::Languages=none",
        "-o",
        "Acquire::Retries=2",
        "-o",
        "Acquire::http::Timeout=30",
    ]);
    command.args(["-o", "APT::Update::Error-Mode=any", "-o", "APT::Sandbox::User=root"]);
    command
}

fn only_package(work: &Path) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(work).map_err(|error| error.to_string())?;
    let mut files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let package = files.find(|file| file.extension().is_some_and(|extension| extension == "deb"));
    package.ok_or_else(|| format!("apt downloaded no package into {}", work.display()))
}

fn run(command: &mut Command) -> Result<String, String> {
    process::capture(command, APT_LIMIT).map(|captured| captured.stdout).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::repository_bases;

    #[test]
    fn repositories_are_named_once_and_security_is_left_out() {
        let targets =
            "http://m/debian-security/\nhttp://m/debian/\nhttp://m/debian/\n\nhttp://other/debian/\n";
        assert_eq!(repository_bases(targets), ["http://m/debian/", "http://other/debian/"]);
        assert!(repository_bases("").is_empty());
    }
}
