//! The driver's functions without a GPU: no driver, an old one, one with a few functions.
//!
//! What a process knows of its driver is decided once, so each case runs in a child process of its own, which loads a
//! fake `libcuda.so.1` made from `fake_driver.rs`.

mod cases;
mod elf;
mod fake;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

/// Names the case that a child process runs.
const CASE_VARIABLE: &str = "SYMMEM_TEST_CASE";
const CHILD_TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(CASE_VARIABLE) {
        let case = cases::ALL.iter().find(|case| case.name == name).expect("a case of this name");
        (case.run)();
        return ExitCode::SUCCESS;
    }
    let library = fake::build();
    let trial = |case: &'static cases::Case| {
        let library = library.clone();
        Trial::test(case.name, move || run_in_child(case, &library?))
    };
    let mut trials: Vec<_> = cases::ALL.iter().map(trial).collect();
    trials.push(Trial::test("no_libcuda_in_the_needed_list", no_libcuda_in_the_needed_list));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn no_libcuda_in_the_needed_list() -> Result<(), Failed> {
    let needed =
        elf::needed(&std::fs::read(std::env::current_exe()?)?).ok_or("not an ELF file of 64 bits")?;
    if !needed.iter().any(|name| name.starts_with("libc.so")) {
        return Err(format!("the list is not read right: {needed:?}").into());
    }
    if needed.iter().any(|name| name.contains("cuda")) {
        return Err(format!("the program needs CUDA to start: {needed:?}").into());
    }
    Ok(())
}

fn run_in_child(case: &cases::Case, library: &str) -> Result<(), Failed> {
    let mut command = Command::new(std::env::current_exe()?);
    for name in cases::CLEARED {
        command.env_remove(name);
    }
    command.env("SYMMEM_LIBCUDA", library).envs(case.environment.iter().copied());
    let output = output_within(command.env(CASE_VARIABLE, case.name), CHILD_TIMEOUT)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

fn output_within(command: &mut Command, timeout: Duration) -> Result<Output, Failed> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let end = Instant::now() + timeout;
    while child.try_wait()?.is_none() {
        if Instant::now() > end {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(child.wait_with_output()?)
}
