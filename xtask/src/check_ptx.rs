//! `cargo xtask check-ptx`: the assembler's word on every kernel, and the compiler's on those for older devices.

use crate::{build, kernels, shell};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use symmem_builder::check::{Entry, PtxText};
use symmem_builder::ptxas::{KernelResources, Ptxas, WHEEL};
use symmem_builder::{Builder, Lto};
use symmem_device::kernels::LOOPS;

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
    if args.ptx.is_none() {
        compare_older(&modules)?;
    }
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
        spilling.extend(spills(module.sm, &kernels).map(|name| format!("{name} (sm_{})", module.sm)));
    }
    if args.ptx.is_none() {
        assemble_primitives(&ptxas, &dir)?;
    }
    if spilling.is_empty() { Ok(()) } else { bail!("registers are spilled in {}", spilling.join(", ")) }
}

/// Bytes of spills that a kernel may have on sm_89. No device of it has links to others, so nothing there is worth kernels
/// of their own where the assembler needs some registers more than for sm_80 and sm_90.
const SPILL_BYTES_MAX_ON_SM_89: u32 = 64;

/// The names of the kernels that may not spill registers, or not so many, and do. Loops may, since they only measure: what
/// they keep beside the collective's registers is touched once a turn.
fn spills(sm: u32, kernels: &[KernelResources]) -> impl Iterator<Item = &str> {
    let bytes_max = if sm == 89 { SPILL_BYTES_MAX_ON_SM_89 } else { 0 };
    let is_loop = |kernel: &&KernelResources| LOOPS.iter().any(|spec| spec.name == kernel.name);
    let spilling = kernels.iter().filter(move |kernel| kernel.spill_bytes > bytes_max);
    spilling.filter(move |kernel| !is_loop(kernel)).map(|kernel| kernel.name.as_str())
}

/// Compiles the kernels for each older device alone and compares them with those taken from the newest.
pub(crate) fn compare_older(modules: &[kernels::Module]) -> Result<()> {
    modules.iter().filter(|module| module.sm < 90).try_for_each(compare)
}

/// The module of an older device, which was made from that of a newer one, must be what the compiler makes for it: it is
/// not if the source of a kernel asks for the device and the table does not say so.
fn compare(module: &kernels::Module) -> Result<()> {
    shell::step(format_args!("compiling for sm_{} alone", module.sm));
    let compiled = kernels::compiled_for(module.sm, &shell::device_dir())?;
    let [made, compiled] = [&module.text, &compiled.text].map(|text| instructions(text));
    let others: Vec<&str> =
        compiled.keys().filter(|name| made.get(*name) != compiled.get(*name)).copied().collect();
    match made.len() == compiled.len() && others.is_empty() {
        true => Ok(()),
        false => bail!(
            "compiled for sm_{} alone, these are other kernels: {}; where the source asks for the device, the table of \
             kernels must say so (`by_sm`)",
            module.sm,
            others.join(", ")
        ),
    }
}

/// The kernels of a module, each as its instructions in order, without the numbers of registers and labels.
fn instructions(ptx: &str) -> BTreeMap<&str, Vec<String>> {
    let text = PtxText::parse(ptx);
    let lines = |entry: &Entry<'_>| entry.lines.iter().map(|line| without_numbers(line.text)).collect();
    text.entries.iter().map(|entry| (entry.name, lines(entry))).collect()
}

fn without_numbers(line: &str) -> String {
    let mut is_name = false;
    let mut kept = line.to_owned();
    kept.retain(|c| {
        is_name = matches!(c, '%' | '$') || (is_name && (c.is_ascii_alphanumeric() || c == '_'));
        !(is_name && c.is_ascii_digit())
    });
    kept
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, spill_bytes: u32) -> KernelResources {
        KernelResources { name: name.into(), registers: 255, spill_bytes, stack_bytes: 0, shared_bytes: 0 }
    }

    #[test]
    fn loops_of_the_table_alone_may_spill() {
        let [collective, no_loop] = ["symmem_all_gather_ll_any_any", "symmem_loop_of_no_table"];
        let kernels = [(LOOPS[0].name, 8), (no_loop, 8), (collective, 8), ("symmem_meet", 0)];
        let kernels = kernels.map(|(name, spill_bytes)| kernel(name, spill_bytes));
        assert_eq!(spills(90, &kernels).collect::<Vec<_>>(), [no_loop, collective]);
    }

    #[test]
    fn on_sm_89_a_few_registers_may_be_spilled() {
        let spill_bytes = |spill_bytes| KernelResources { spill_bytes, ..kernel("symmem_meet", 0) };
        let kernels = [spill_bytes(SPILL_BYTES_MAX_ON_SM_89), spill_bytes(SPILL_BYTES_MAX_ON_SM_89 + 4)];
        assert_eq!([80, 89, 90].map(|sm| spills(sm, &kernels).count()), [2, 1, 2]);
    }
}
