//! The compiler, its release against the pinned one, and the source of `core`.

use super::Finding;
use crate::shell;
use symmem_builder::PINNED_RUST;
use symmem_builder::rust_src::{self, Compiler};

/// Compiler and rust-src.
pub(super) fn findings() -> Vec<Finding> {
    let device = shell::device_dir();
    match Compiler::find(&device) {
        Ok(compiler) => vec![release(&compiler), source(&compiler)],
        Err(error) => vec![Finding::new("toolchain", format!("NOT FOUND: {error}"))],
    }
}

fn release(compiler: &Compiler) -> Finding {
    let verdict = match compiler.release == PINNED_RUST {
        true => "the pinned release".to_owned(),
        false => format!("NOT the pinned release {PINNED_RUST}, whose flags may not fit"),
    };
    let text = format!("rustc {}, {verdict}, in {}", compiler.release, compiler.sysroot.display());
    Finding::new("toolchain", text)
}

fn source(compiler: &Compiler) -> Finding {
    let stage = match shell::target_dir() {
        Ok(target) => target.join("stage1"),
        Err(error) => return Finding::new("rust-src", format!("{error:#}")),
    };
    let (found, places) = rust_src::look(compiler, &shell::device_dir(), &stage);
    let text = match found {
        Some(source) => source.library().display().to_string(),
        None => "not here yet: the next build gets it from rustup or from the distribution".into(),
    };
    Finding::new("rust-src", text).tried(places.map(|place| place.display().to_string()).into())
}
