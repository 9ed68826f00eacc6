//! Stage one: makes the kernels' PTX, or takes it ready from `SYMMEM_PTX_DIR`, and hands it to `src/kernels_ptx.rs`.

#[cfg(feature = "cuda")]
#[path = "build/link.rs"]
mod link;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use symmem_builder::check::{KernelRule, Rules, check};
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

/// Checked PTX of one SM.
struct Module {
    sm: u32,
    /// PTX ISA version as major × 10 + minor.
    version: u32,
    text: String,
}

impl Module {
    fn checked(sm: u32, text: String, origin: &Path, remedy: &str) -> Result<Self, BuildError> {
        let fail = |what: String| BuildError::message(format!("{}: {what}\n{remedy}", origin.display()));
        let parsed = check(&text, &rules(sm)).map_err(|error| fail(error.to_string()))?;
        if parsed.sm != sm {
            return Err(fail(format!("made for sm_{}, and sm_{sm} is wanted", parsed.sm)));
        }
        Ok(Self { sm, version: parsed.version, text })
    }
}

fn compile() -> Result<Vec<Module>, BuildError> {
    let device = variable("DEP_SYMMEM_DEVICE_DIR")?;
    println!("cargo::rerun-if-changed={device}/src");
    let builder = SMS.iter().fold(Builder::new(&device).lto(Lto::Off), |builder, &sm| builder.sm(sm));
    let artifacts = builder.build()?;
    for input in &artifacts.inputs {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    let modules = artifacts.modules.into_iter();
    modules.map(|made| Module::checked(made.sm, made.text, &made.path, "mend the device crate")).collect()
}

fn ready(dir: &Path) -> Result<Vec<Module>, BuildError> {
    let remedy = format!("make it anew with `cargo xtask build --ptx {}`", dir.display());
    let read = |sm: u32| {
        let origin = dir.join(format!("symmem_sm{sm}.ptx"));
        println!("cargo::rerun-if-changed={}", origin.display());
        let text = std::fs::read_to_string(&origin).map_err(|error| {
            BuildError::message(format!("{READY_DIR}: cannot read {}: {error}; {remedy}", origin.display()))
        })?;
        Module::checked(sm, text, &origin, &remedy)
    };
    SMS.into_iter().map(read).collect()
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
        symmem_builder::output::publish(&out_dir.join(&file), &module.text)?;
        writeln!(
            table,
            "    KernelPtx {{ sm: {}, version: ({}, {}), text: include_str!({file:?}) }},",
            module.sm,
            module.version / 10,
            module.version % 10
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
