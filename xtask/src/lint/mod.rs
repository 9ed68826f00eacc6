//! `cargo xtask lint`: format, clippy for both targets, and tidy. All run; what failed is said together.

mod tidy;

use crate::shell;
use anyhow::{Result, bail};
use symmem_builder::command::DEVICE_TARGET;
use symmem_builder::rust_src::{self, Compiler, RustSrc};

/// Arguments of `lint`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the checks of source text, which compile nothing.
    #[arg(long)]
    text_only: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut failed: Vec<String> = Vec::new();
    let mut take = |result: Result<()>| failed.extend(result.err().map(|error| format!("{error:#}")));
    take(shell::cargo(&["fmt", "--all", "--check"]).and_then(|mut command| shell::run(&mut command)));
    take(tidy::run());
    if !args.text_only {
        take(clippy_host());
        take(clippy_device());
    }
    if failed.is_empty() { Ok(()) } else { bail!("lint:\n  {}", failed.join("\n  ")) }
}

fn clippy_host() -> Result<()> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-Dwarnings"];
    shell::run(&mut shell::cargo(&clippy)?)
}

/// Kernels exist only on the device's target, so clippy sees them only there.
fn clippy_device() -> Result<()> {
    let device = shell::device_dir();
    let stage = shell::target_dir()?.join("stage1");
    let source = rust_src::obtain(&Compiler::find(&device)?, &device, &stage)?;
    let mut clippy = symmem_builder::environment::tool("cargo", &device);
    clippy.args([
        "clippy",
        "--locked",
        "--lib",
        "-Zbuild-std=core",
        "--target",
        DEVICE_TARGET,
        "--target-dir",
    ]);
    clippy.arg(stage.join("clippy")).args(["--", "-Dwarnings"]).env("RUSTC_BOOTSTRAP", "1");
    if let RustSrc::Unpacked(library) = &source {
        clippy.env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
    }
    shell::run(&mut clippy)
}
