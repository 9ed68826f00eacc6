//! `cargo xtask check-ptx`: the assembler's word on every kernel.

use crate::{build, kernels, shell};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use symmem_builder::ptxas::{KernelResources, Ptxas, WHEEL};
use symmem_builder::{Builder, Lto};

/// Arguments of `check-ptx`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Take ready PTX from this folder, as `cargo xtask build --ptx DIR` made it.
    #[arg(long, value_name = "DIR")]
    ptx: Option<PathBuf>,
    /// Without ptxas, fail instead of skipping.
    #[arg(long)]
    required: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let modules = match &args.ptx {
        Some(dir) => kernels::ready(dir)?,
        None => build::stage_one()?,
    };
    let ptxas = match find_or_install() {
        Ok(ptxas) => ptxas,
        Err(error) if args.required => return Err(error),
        Err(error) => {
            println!("check-ptx SKIPPED, nothing was assembled: {error:#}");
            return Ok(());
        }
    };
    shell::step(format_args!("assembling with {}", ptxas.path().display()));
    let dir = shell::target_dir()?.join("check-ptx");
    let mut spilling = Vec::new();
    for module in &modules {
        let path = dir.join(kernels::file_name(module.sm));
        symmem_builder::output::publish(&path, &module.text)?;
        let mut kernels = ptxas.assemble(&path, module.sm).with_context(|| format!("sm_{}", module.sm))?;
        kernels.sort_by(|a, b| a.name.cmp(&b.name));
        print_table(module.sm, &kernels);
        if kernels.len() != module.text.matches(".entry").count() {
            bail!("sm_{}: ptxas reported {} kernels, the PTX has others", module.sm, kernels.len());
        }
        let spills = kernels.iter().filter(|kernel| kernel.spill_bytes > 0);
        spilling.extend(spills.map(|kernel| format!("{} (sm_{})", kernel.name, module.sm)));
    }
    if args.ptx.is_none() {
        assemble_primitives(&ptxas, &dir)?;
    }
    if spilling.is_empty() { Ok(()) } else { bail!("registers are spilled in {}", spilling.join(", ")) }
}

/// Every instruction of the device crate, also those that no kernel uses yet; some need sm_90.
fn assemble_primitives(ptxas: &Ptxas, dir: &Path) -> Result<()> {
    let golden = shell::device_dir().join("golden");
    let artifacts = Builder::new(golden).lto(Lto::Off).sm(90).build().context("the primitives")?;
    for module in &artifacts.modules {
        let path = dir.join(format!("primitives_sm{}.ptx", module.sm));
        symmem_builder::output::publish(&path, &module.text)?;
        let n =
            ptxas.assemble(&path, module.sm).with_context(|| format!("primitives, sm_{}", module.sm))?.len();
        println!("sm_{}: {n} primitives", module.sm);
    }
    Ok(())
}

fn find_or_install() -> Result<Ptxas> {
    let cache = shell::ptxas_cache()?;
    let absent = match Ptxas::find(&cache) {
        Ok(ptxas) => return Ok(ptxas),
        Err(error) => error,
    };
    shell::step(format_args!("{absent}; installing the Python package {WHEEL} into {}", cache.display()));
    Ptxas::install(&cache).with_context(|| format!("{absent}, and {WHEEL} could not be installed"))
}

fn print_table(sm: u32, kernels: &[KernelResources]) {
    let width = kernels.iter().map(|kernel| kernel.name.len()).max().unwrap_or(0);
    println!("{:width$}  registers  spills B  stack B  shared B", format!("sm_{sm}"));
    for KernelResources { name, registers, spill_bytes, stack_bytes, shared_bytes } in kernels {
        println!("{name:width$}  {registers:>9}  {spill_bytes:>8}  {stack_bytes:>7}  {shared_bytes:>8}");
    }
}
