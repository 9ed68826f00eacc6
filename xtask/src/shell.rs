//! Where the workspace lies, and commands that run in it with their output passed through.

use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Root of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the workspace")
}

/// Folder of the device crate.
pub(crate) fn device_dir() -> PathBuf {
    root().join("device")
}

/// Cargo's target directory: where this program was built.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    symmem_builder::outer_target_dir(&program)
        .with_context(|| format!("{} lies in no target directory of cargo", program.display()))
}

/// Where `ptxas` is installed on request.
pub(crate) fn ptxas_cache() -> Result<PathBuf> {
    Ok(target_dir()?.join("ptxas"))
}

/// `cargo` in the workspace's root, building into the same target directory as xtask itself.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments).env("CARGO_TARGET_DIR", target_dir()?);
    Ok(command)
}

/// Says what is done.
pub(crate) fn step(text: impl fmt::Display) {
    eprintln!("==> {text}");
}

/// Says what runs, and runs it.
///
/// # Errors
///
/// It cannot be started or ends unsuccessfully; [`exit_code`] gives its status.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = symmem_builder::process::line(command);
    step(&line);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if status.success() { Ok(()) } else { Err(Failed { line, code: status.code() }.into()) }
}

/// A command that ended unsuccessfully.
#[derive(Debug)]
struct Failed {
    line: String,
    code: Option<i32>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "`{}` ended with exit status {code}", self.line),
            None => write!(f, "`{}` was ended by a signal", self.line),
        }
    }
}

impl std::error::Error for Failed {}

/// The exit status for an error: that of the command that failed, else 1.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let code = error.downcast_ref::<Failed>().and_then(|failed| u8::try_from(failed.code?).ok());
    code.filter(|&code| code != 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_failed_command_is_passed_on() {
        for (script, code) in [("exit 3", 3), ("exit 101", 101), ("kill -9 $$", 1)] {
            let error = run(Command::new("sh").args(["-c", script])).unwrap_err();
            assert_eq!(exit_code(&error), code, "{script}");
            assert!(error.to_string().contains(script), "{error}");
        }
        assert_eq!(exit_code(&anyhow::anyhow!("something else")), 1);
    }
}
