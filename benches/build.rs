//! Tells the bench which compiler and which revision it was built from, for its JSON rows.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    export("SYMMEM_BENCH_RUSTC", output(Command::new(rustc).arg("--version")));
    let commit = output(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]));
    export("SYMMEM_BENCH_REVISION", commit);
    // The log of HEAD grows with every commit and every checkout.
    if let Some(log) = output(Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"]))
        && std::path::Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What a command prints, if it can be run and succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn export(name: &str, value: Option<String>) {
    if let Some(value) = value {
        println!("cargo::rustc-env={name}={value}");
    }
}
