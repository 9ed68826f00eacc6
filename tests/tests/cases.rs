//! The conformance cases under `cargo test`.

fn main() -> std::process::ExitCode {
    symmem_tests::main(symmem_tests::NoMatch::Passes)
}
