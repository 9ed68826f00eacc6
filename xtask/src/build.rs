//! `cargo xtask build`: both stages.

use crate::{kernels, shell};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Arguments of `build`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Put the kernels' PTX into this folder and stop; builds elsewhere take it by SYMMEM_PTX_DIR.
    #[arg(long, value_name = "DIR")]
    ptx: Option<PathBuf>,
    /// Compile the workspace in release.
    #[arg(long, conflicts_with = "ptx")]
    release: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let modules = stage_one()?;
    if let Some(dir) = &args.ptx {
        return write(&modules, dir);
    }
    shell::step("stage two: the workspace");
    let mut arguments = vec!["build", "--workspace", "--locked"];
    arguments.extend(args.release.then_some("--release"));
    shell::run(&mut shell::cargo(&arguments)?)
}

/// Compiles and checks the kernels, and says what came of it.
pub(crate) fn stage_one() -> Result<Vec<kernels::Module>> {
    let device = shell::device_dir();
    shell::step(format_args!("stage one: {} to PTX", device.display()));
    let (modules, _) = kernels::compile(&device).context("stage one")?;
    for module in &modules {
        let (major, minor) = (module.version / 10, module.version % 10);
        let kernels = module.text.matches(".entry").count();
        let kilobytes = module.text.len() / 1000;
        eprintln!(
            "    sm_{}: {kernels} kernels, PTX {major}.{minor}, {kilobytes} kB, all checks passed",
            module.sm
        );
    }
    Ok(modules)
}

fn write(modules: &[kernels::Module], dir: &Path) -> Result<()> {
    for module in modules {
        let path = dir.join(kernels::file_name(module.sm));
        symmem_builder::output::publish(&path, &module.text)?;
        println!("{}", path.display());
    }
    Ok(())
}
