//! The crate's kernels as PTX: compiled from the device crate, or ready in a folder, and checked in either case.
//!
//! Shared by the build script and by `cargo xtask`, which has no part of the crate itself, so that both hold the same
//! rules.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use symmem_builder::check::{KernelRule, Rules, check};
use symmem_builder::merge::merge;
use symmem_builder::output::publish;
use symmem_builder::select::{entry_names, for_older};
use symmem_builder::{BuildError, Builder, Lto};
use symmem_device::kernels::{KERNELS, LOOPS, Promise, THREADS_MAX, check_kernels};

/// The compute capabilities that the crate carries PTX for: 89 with only what 80 has not, 90 with all.
pub(crate) const SMS: [u32; 3] = [80, 89, 90];

/// Instructions of sm_90 that older devices do without: all that kernels for them lack, unless their source asks for the
/// device.
const OMITTED: [&str; 1] = ["griddepcontrol."];

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
/// It is compiled for sm_90. Kernels of older devices are taken from there, without what only sm_90 has, if their source
/// does not ask for the device; those of which it does are compiled for sm_80 too. `compiled_for` makes the same module
/// from the source alone.
///
/// # Errors
///
/// The crate does not compile, or its PTX breaks a rule.
pub(crate) fn compile(device_dir: &Path) -> Result<(Vec<Module>, Vec<PathBuf>), BuildError> {
    let newest = builder(device_dir).sm(90).build()?;
    let by_sm = builder(device_dir).sm(80).cfg("symmem_by_sm").build()?;
    let [newest_module, by_sm_module] = [&newest, &by_sm].map(|artifacts| &artifacts.modules[0]);
    let module = |sm: u32| {
        let path = newest_module.path.with_file_name(file_name(sm));
        let text = match sm {
            90 => newest_module.text.clone(),
            _ => older(sm, &newest_module.text, &by_sm_module.text),
        };
        publish(&path, &text)?;
        checked(sm, text, &path, "mend the device crate")
    };
    Ok((SMS.into_iter().map(module).collect::<Result<_, _>>()?, newest.inputs))
}

/// The module for `sm`, compiled for it alone.
///
/// # Errors
///
/// As [`compile`].
#[allow(dead_code, reason = "for xtask, which holds the two against each other")]
pub(crate) fn compiled_for(sm: u32, device_dir: &Path) -> Result<Module, BuildError> {
    let made = builder(device_dir).sm(sm).build()?.modules.remove(0);
    checked(sm, made.text, &made.path, "mend the device crate")
}

fn builder(device_dir: &Path) -> Builder {
    Builder::new(device_dir).lto(Lto::Off).threads_max(THREADS_MAX).incremental()
}

/// The module for `sm` out of those for sm_90 and for the kernels whose source asks for the device.
fn older(sm: u32, newest: &str, by_sm: &str) -> String {
    let wanted: HashSet<String> = rules(sm).kernels.into_iter().map(|rule| rule.name).collect();
    let own: HashSet<&str> = entry_names(by_sm).filter(|name| wanted.contains(*name)).collect();
    let own_module = for_older(by_sm, sm, &[], |name| own.contains(name));
    let rest = for_older(newest, sm, &OMITTED, |name| wanted.contains(name) && !own.contains(name));
    merge([own_module.as_str(), rest.as_str()])
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
    let rules = kernels.map(|kernel| rule(kernel.name, kernel.promises(sm).copied()));
    let rules = rules.chain(check_kernels(sm).map(|(name, promises)| rule(name, promises.copied())));
    let loops = LOOPS.iter().filter(|spec| spec.is_compiled_for(sm));
    let rules = rules.chain(loops.map(|spec| rule(spec.name, spec.promises(sm))));
    rules.fold(Rules::collective(), Rules::kernel)
}

fn rule(name: &str, promises: impl Iterator<Item = Promise>) -> KernelRule {
    promises.fold(KernelRule::new(name), |rule, promise| {
        rule.has(promise.instruction, promise.at_least, promise.at_most)
    })
}
