//! The conformance cases as a program of its own, for machines without Rust.

fn main() -> std::process::ExitCode {
    symmem_tests::main(symmem_tests::NoMatch::Fails)
}
