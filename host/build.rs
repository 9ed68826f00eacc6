//! Stage one: makes the kernels' PTX, or takes it ready from `SYMMEM_PTX_DIR`, and hands it to `src/kernels_ptx.rs`.

#[cfg(feature = "cuda")]
#[path = "build/link.rs"]
mod link;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use symmem_builder::check::{KernelRule, PtxText, Rules, check};
use symmem_builder::{BuildError, Builder, Lto};
use symmem_device::kernels::KERNELS;

/// The modules that the crate carries: unicast kernels for sm_80, all for sm_90.
const SMS: [u32; 2] = [80, 90];
const READY_DIR: &str = "SYMMEM_PTX_DIR";

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

/// PTX of one SM, with what errors call it.
struct Module {
    sm: u32,
    origin: PathBuf,
    text: String,
}

fn compile() -> Result<Vec<Module>, BuildError> {
    let device = variable("DEP_SYMMEM_DEVICE_DIR")?;
    println!("cargo::rerun-if-changed={device}/src");
    let artifacts =
        SMS.iter().fold(Builder::new(&device).lto(Lto::Off), |builder, &sm| builder.sm(sm)).build()?;
    for input in &artifacts.inputs {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    let modules: Vec<Module> = artifacts
        .modules
        .into_iter()
        .map(|module| Module { sm: module.sm, origin: module.path, text: module.text })
        .collect();
    modules.iter().try_for_each(|module| checked(module, "mend the device crate"))?;
    Ok(modules)
}

fn ready(dir: &Path) -> Result<Vec<Module>, BuildError> {
    let remedy = format!("make it anew with `cargo xtask build --ptx {}`", dir.display());
    let read = |sm: u32| {
        let origin = dir.join(format!("symmem_sm{sm}.ptx"));
        println!("cargo::rerun-if-changed={}", origin.display());
        let text = std::fs::read_to_string(&origin).map_err(|error| {
            BuildError::message(format!("{READY_DIR}: cannot read {}: {error}; {remedy}", origin.display()))
        })?;
        let module = Module { sm, origin, text };
        checked(&module, &remedy).map(|()| module)
    };
    SMS.into_iter().map(read).collect()
}

fn checked(module: &Module, remedy: &str) -> Result<(), BuildError> {
    let fail = |what: String| BuildError::message(format!("{}: {what}\n{remedy}", module.origin.display()));
    let sm = PtxText::parse(&module.text).sm;
    check(&module.text, &rules(module.sm)).map_err(|error| fail(error.to_string()))?;
    if sm == module.sm {
        Ok(())
    } else {
        Err(fail(format!("made for sm_{sm}, and sm_{} is wanted", module.sm)))
    }
}

/// Every kernel of the table that runs on `sm` is there and keeps its promises.
fn rules(sm: u32) -> Rules {
    let kernels = KERNELS.iter().filter(|kernel| kernel.sm_min <= sm);
    kernels.fold(Rules::collective(), |rules, kernel| {
        let promises = kernel.promises().iter();
        rules.kernel(promises.fold(KernelRule::new(kernel.name), |rule, promise| {
            rule.has(promise.instruction, promise.at_least, promise.at_most)
        }))
    })
}

/// Writes the modules and the table that includes them into `OUT_DIR`.
fn embed(modules: &[Module], out_dir: &Path) -> Result<(), BuildError> {
    let mut table = String::from("&[\n");
    for module in modules {
        let file = format!("symmem_sm{}.ptx", module.sm);
        let version = PtxText::parse(&module.text).version;
        symmem_builder::output::publish(&out_dir.join(&file), &module.text)?;
        writeln!(
            table,
            "    KernelPtx {{ sm: {}, version: ({}, {}), text: include_str!({file:?}) }},",
            module.sm,
            version / 10,
            version % 10
        )
        .expect("a String takes any text");
    }
    table.push_str("]\n");
    symmem_builder::output::publish(&out_dir.join("kernels_ptx.rs"), &table)
}

fn variable(name: &str) -> Result<String, BuildError> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var(name)
        .map_err(|error| BuildError::message(format!("cargo sets {name} for build scripts: {error}")))
}
