//! `cargo xtask dist`: a folder to copy to a machine that has GPUs and no Rust.

use crate::bench::BENCH;
use crate::{elf, shell};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The package and the binary of the test cases.
const TESTS: &str = "symmem-tests";
const CASES: &str = "symmem-cases";
/// Newest glibc whose symbols the binaries may use.
const GLIBC_MAX: (u32, u32) = (2, 36);
const METADATA_LIMIT: Duration = Duration::from_secs(60);

/// Arguments of `dist`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder.
    #[arg(long, value_name = "DIR", default_value = "dist")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut build = shell::cargo(&["build", "--release", "--locked", "--package", BENCH, "--bin", BENCH])?;
    let mut binaries = vec![BENCH];
    if has_cases()? {
        build.args(["--package", TESTS, "--bin", CASES]);
        binaries.push(CASES);
    } else {
        shell::step(format_args!("no binary {CASES} in package {TESTS}: the folder gets the bench only"));
    }
    shell::run(&mut build)?;
    std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let release = shell::target_dir()?.join("release");
    binaries.iter().try_for_each(|name| ship(&release.join(name), &args.out.join(name)))
}

/// Whether cargo knows the binary of the test cases.
fn has_cases() -> Result<bool> {
    let mut metadata = shell::cargo(&["metadata", "--no-deps", "--locked", "--format-version=1"])?;
    let metadata = symmem_builder::process::capture(&mut metadata, METADATA_LIMIT)?.stdout;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).context("`cargo metadata` prints JSON")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists packages")?;
    let mut targets = packages.iter().filter_map(|package| package["targets"].as_array()).flatten();
    Ok(targets.any(|target| target["name"] == CASES && target["kind"][0] == "bin"))
}

/// Copies a binary once it is known to start on a machine without CUDA and with an older glibc.
fn ship(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let facts =
        elf::dynamic_facts(&bytes).with_context(|| format!("{} is no usable ELF file", from.display()))?;
    if let Some(library) = facts.needed.iter().find(|library| library.starts_with("libcuda")) {
        bail!("{} needs {library}: it would not start on a machine without a driver", from.display());
    }
    if let Some(newest) = facts.glibc_max().filter(|&newest| newest > GLIBC_MAX) {
        let (have, want) = (newest, GLIBC_MAX);
        bail!(
            "{} needs glibc {}.{}, and {}.{} is the newest allowed",
            from.display(),
            have.0,
            have.1,
            want.0,
            want.1
        );
    }
    std::fs::copy(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    let glibc = facts.glibc_max().map_or("none".into(), |(major, minor)| format!("{major}.{minor}"));
    println!("{}  {} kB, needs {}, glibc {glibc}", to.display(), bytes.len() / 1000, facts.needed.join(" "));
    Ok(())
}
