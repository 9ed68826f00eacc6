//! The crate's kernels as PTX: compiled from the device crate, or ready in a folder, and checked in either case.
//!
//! Shared by the build script and by `cargo xtask`, which has no part of the crate itself, so that both hold the same
//! rules.

use std::path::{Path, PathBuf};
use symmem_builder::check::{KernelRule, Rules, check};
use symmem_builder::{BuildError, Builder, Lto};
use symmem_device::kernels::{KERNELS, LOOPS, Promise, THREADS_MAX, check_kernels};

/// The compute capabilities that the crate carries PTX for: 89 with only what 80 has not, 90 with all.
pub(crate) const SMS: [u32; 3] = [80, 89, 90];

/// Checked PTX of one SM.
pub(crate) struct Module {
    /// Compute capability as major × 10 + minor.
    pub(crate) sm: u32,
    /// PTX ISA version as major × 10 + minor.
    pub(crate) version: u32,
    /// The text.
    pub(crate) text: String,
}

/// The name of a module's file.
pub(crate) fn file_name(sm: u32) -> String {
    format!("symmem_sm{sm}.ptx")
}

/// Compiles the device crate in `device_dir`. Beside the modules, the files and folders that they were made from.
///
/// # Errors
///
/// The crate does not compile, or its PTX breaks a rule.
pub(crate) fn compile(device_dir: &Path) -> Result<(Vec<Module>, Vec<PathBuf>), BuildError> {
    let builder = SMS
        .iter()
        .fold(Builder::new(device_dir).lto(Lto::Off).threads_max(THREADS_MAX), |builder, &sm| builder.sm(sm));
    let artifacts = builder.build()?;
    let modules = artifacts.modules.into_iter();
    let modules = modules.map(|made| checked(made.sm, made.text, &made.path, "mend the device crate"));
    Ok((modules.collect::<Result<_, _>>()?, artifacts.inputs))
}

/// Reads the modules from `dir`.
///
/// # Errors
///
/// A file is missing, damaged, or breaks a rule; the error names it and says how to make it.
pub(crate) fn ready(dir: &Path) -> Result<Vec<Module>, BuildError> {
    let remedy = format!("make it anew with `cargo xtask build --ptx {}`", dir.display());
    let read = |sm: u32| {
        let origin = dir.join(file_name(sm));
        let text = std::fs::read_to_string(&origin);
        let text = text.map_err(|error| {
            BuildError::message(format!("cannot read PTX {}: {error}; {remedy}", origin.display()))
        })?;
        checked(sm, text, &origin, &remedy)
    };
    SMS.into_iter().map(read).collect()
}

fn checked(sm: u32, text: String, origin: &Path, remedy: &str) -> Result<Module, BuildError> {
    let fail = |what: String| BuildError::message(format!("{}: {what}\n{remedy}", origin.display()));
    let parsed = check(&text, &rules(sm)).map_err(|error| fail(error.to_string()))?;
    if parsed.sm != sm {
        return Err(fail(format!("made for sm_{}, and sm_{sm} is wanted", parsed.sm)));
    }
    Ok(Module { sm, version: parsed.version, text })
}

/// Every kernel that is compiled for `sm` is there and keeps its promises.
fn rules(sm: u32) -> Rules {
    let kernels = KERNELS.iter().filter(|kernel| kernel.is_compiled_for(sm));
    let rules = kernels.map(|kernel| rule(kernel.name, kernel.promises(sm)));
    let rules = rules.chain(check_kernels(sm).map(|(name, promises)| rule(name, promises)));
    let loops = LOOPS.iter().filter(|spec| spec.is_compiled_for(sm));
    let rules = rules.chain(loops.map(|spec| rule(spec.name, spec.kernel().promises(sm))));
    rules.fold(Rules::collective(), Rules::kernel)
}

fn rule(name: &str, promises: impl Iterator<Item = &'static Promise>) -> KernelRule {
    promises.fold(KernelRule::new(name), |rule, promise| {
        rule.has(promise.instruction, promise.at_least, promise.at_most)
    })
}
