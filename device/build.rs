//! Tells dependent build scripts where this crate lies.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(symmem_mutant, values(any()))");
    println!("cargo::rustc-check-cfg=cfg(symmem_by_sm)");
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::metadata=dir={dir}");
}
