//! Stage one: makes the kernels' PTX, or takes it ready from `SYMMEM_PTX_DIR`, and hands it to `src/kernels_ptx.rs`.

#[path = "build/kernels.rs"]
mod kernels;
#[cfg(feature = "cuda")]
#[path = "build/link.rs"]
mod link;
#[path = "build/sets.rs"]
mod sets;

use kernels::{Module, SMS, file_name};
use miniz_oxide::deflate::compress_to_vec;
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use symmem_builder::BuildError;
use symmem_builder::output::publish;
use symmem_builder::select::divide;
use symmem_device::kernels::{KERNELS, KernelSet, LOOPS, check_kernels};

const READY_DIR: &str = "SYMMEM_PTX_DIR";
/// Build scripts are compiled without optimisation: more would cost seconds and save little.
const COMPRESSION_LEVEL: u8 = 6;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    #[cfg(feature = "cuda")]
    link::supply_libcuda().expect("OUT_DIR can be written");
    if let Err(error) = stage_one() {
        println!("cargo::error=symmem: no kernels");
        for line in error.to_string().lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

fn stage_one() -> Result<(), BuildError> {
    println!("cargo::rerun-if-env-changed={READY_DIR}");
    let modules = match std::env::var_os(READY_DIR).filter(|dir| !dir.is_empty()) {
        Some(dir) => ready(Path::new(&dir))?,
        None => compile()?,
    };
    embed(&modules, &PathBuf::from(variable("OUT_DIR")?))
}

fn compile() -> Result<Vec<Module>, BuildError> {
    let device = variable("DEP_SYMMEM_DEVICE_DIR")?;
    println!("cargo::rerun-if-changed={device}/src");
    let (modules, inputs) = kernels::compile(Path::new(&device))?;
    for input in &inputs {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    Ok(modules)
}

fn ready(dir: &Path) -> Result<Vec<Module>, BuildError> {
    for sm in SMS {
        println!("cargo::rerun-if-changed={}", dir.join(file_name(sm)).display());
    }
    kernels::ready(dir).map_err(|error| BuildError::message(format!("{READY_DIR}: {error}")))
}

/// Writes the modules, set by set, and the table that includes them into `OUT_DIR`.
fn embed(modules: &[Module], out_dir: &Path) -> Result<(), BuildError> {
    let mut table = String::from("&[\n");
    for Module { sm, version, text } in modules {
        let sets: Vec<KernelSet> = KernelSet::all_for(*sm).collect();
        let names = KERNELS.iter().map(|kernel| (kernel.name, KernelSet::of(kernel)));
        let names = names.chain(check_kernels(*sm).map(|(name, _)| (name, KernelSet::BYTES)));
        let names = names.chain(LOOPS.iter().map(|spec| (spec.name, KernelSet::LOOPS)));
        let place = |(name, its)| Some((name, sets.iter().position(|&set| set == its)?));
        let set_of: HashMap<&str, usize> = names.filter_map(place).collect();
        let texts = divide(text, sets.len(), |name| set_of.get(name).copied());
        for (&set, text) in sets.iter().zip(texts) {
            let file = format!("{}.z", file_name(*sm).replace(".ptx", &format!("_{}.ptx", sets::name(set))));
            publish(&out_dir.join(&file), compress_to_vec(text.as_bytes(), COMPRESSION_LEVEL))?;
            let (major, minor, set) = (version / 10, version % 10, sets::code(set));
            writeln!(
                table,
                "    KernelPtx {{ sm: {sm}, version: ({major}, {minor}), set: {set}, compressed: include_bytes!({file:?}) }},"
            )
            .expect("a String takes any text");
        }
    }
    table.push_str("]\n");
    publish(&out_dir.join("kernels_ptx.rs"), &table)
}

fn variable(name: &str) -> Result<String, BuildError> {
    std::env::var(name)
        .map_err(|error| BuildError::message(format!("cargo sets {name} for build scripts: {error}")))
}
