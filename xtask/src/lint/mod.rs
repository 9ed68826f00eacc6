//! `cargo xtask lint`: format, tidy, and clippy and rustdoc for both targets. All run; what failed is said together.

mod tidy;

use crate::shell;
use anyhow::{Result, bail};
use std::process::Command;
use symmem_builder::command::DEVICE_TARGET;
use symmem_builder::rust_src::{self, Compiler, RustSrc};

const DENY: &str = "-Dwarnings";

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
        take(doc_host());
        take(on_device("clippy").and_then(|mut clippy| shell::run(clippy.args(["--", DENY]))));
        take(on_device("doc").and_then(|mut doc| shell::run(doc.arg("--no-deps").env("RUSTDOCFLAGS", DENY))));
    }
    if failed.is_empty() { Ok(()) } else { bail!("lint:\n  {}", failed.join("\n  ")) }
}

fn clippy_host() -> Result<()> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", DENY];
    shell::run(&mut shell::cargo(&clippy)?)
}

fn doc_host() -> Result<()> {
    let mut doc = shell::cargo(&["doc", "--workspace", "--no-deps", "--locked"])?;
    shell::run(doc.env("RUSTDOCFLAGS", DENY))
}

/// `cargo` with `subcommand` on the device crate for its own target: only there it has kernels.
fn on_device(subcommand: &str) -> Result<Command> {
    let device = shell::device_dir();
    let stage = shell::target_dir()?.join("stage1");
    let source = rust_src::obtain(&Compiler::find(&device)?, &device, &stage)?;
    let mut cargo = symmem_builder::environment::tool("cargo", &device);
    cargo.args([subcommand, "--locked", "--lib", "-Zbuild-std=core", "--target", DEVICE_TARGET]);
    cargo.arg("--target-dir").arg(stage.join("lint")).env("RUSTC_BOOTSTRAP", "1");
    if let RustSrc::Unpacked(library) = &source {
        cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
    }
    Ok(cargo)
}
