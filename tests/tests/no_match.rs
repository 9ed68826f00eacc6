//! A filter that no case matches is a mistake, not a success.

use std::process::Command;

#[test]
fn a_filter_that_matches_nothing_fails() {
    for (words, code, said) in [
        (&["no::such_case", "--device", "sim"][..], 2, "no case matches Some(\"no::such_case\")"),
        (&["bad_input::device_counts", "--device", "sim"], 0, ""),
        (&["no::such_case", "--device", "sim", "--list"], 0, ""),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_symmem-cases")).args(words).output().expect("it starts");
        let errors = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains(said), "{words:?}: {errors}");
    }
}
