//! Stage one: makes the kernels' PTX and hands it to this crate.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
