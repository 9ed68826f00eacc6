//! The program as a person or a script meets it: exit status, what is said where, and that JSON is JSON. On the
//! simulated machine.
#![cfg(feature = "sim")]

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_symmem-bench"));
    // Settings of the caller's environment must not reach the tests.
    let ours = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with("SYMMEM_"));
    ours.for_each(|name| {
        command.env_remove(name);
    });
    command.args(["--device", "sim"]).args(args.split_whitespace()).output().expect("the bench starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn small_cases_are_right() {
    let good = [
        "--ranks 4 -b 8 -e 2K -f 16",
        "--ranks 3 -d all -o all --count 1 --count 67",
        "--ranks 2 --count 0",
        "--ranks 1 --count 5",
        "--ranks 2 -G 2 -n 3 -c 4 --count 33 -d f16",
        "--ranks 2 --algo two_shot_ld_st --count 4097",
        "--ranks 2 --algo st --count 4097 --check-bytes-max 1 -c 3",
    ];
    for args in good {
        let output = bench(args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args}: {err}{out}");
        assert!(out.contains(" 0 failed, 0 wrong") && err.is_empty(), "{args}: {err}{out}");
    }
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let bad = [
        ("--ranks 0", 2, "0 is not in 1.."),
        ("all_reduse", 2, "all_reduce"),
        ("-b 2K -e 1K", 2, "larger"),
        ("-f 1", 2, "1 is not in 2.."),
        ("-n 0", 2, "0 is not in 1.."),
        ("-d f64", 2, "bf16"),
        ("--count 4611686018427387904", 2, "do not fit"),
        ("all_gather --algo two_shot_ld_st", 2, "has no algorithm"),
        ("--ranks 2 -e 4G", 1, "bytes on each device"),
        ("--json /nowhere/at/all", 1, "/nowhere/at/all"),
    ];
    for (args, status, reason) in bad {
        let output = bench(args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args}: {err}");
        assert!(err.contains(reason), "{args}: {err}");
    }
}

#[test]
fn standard_output_can_be_json_alone() {
    let output = bench("--ranks 2 --count 3 --json - --seed 9");
    assert!(output.status.success());
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!((&row["mode"], &row["time_us"], &row["wrong"]), (&"sim".into(), &Value::Null, &0.into()));
        assert!(row["instructions"].as_u64() > Some(0) && row["link_bytes"].as_u64() > Some(0), "{row}");
        assert_eq!(row["seed"], 9);
    }
    assert!(text(&output.stderr).contains("# all_gather"));
}

/// The tools that the first argument names.
fn tool(args: &str) -> Output {
    let mut args = args.split_whitespace();
    let name = args.next().expect("a tool");
    let mut command = Command::new(env!("CARGO_BIN_EXE_symmem-bench"));
    command.args([name, "--device", "sim"]).args(args).output().expect("the bench starts")
}

#[test]
fn the_map_shows_what_lies_in_the_space() {
    let svg = std::env::temp_dir().join(format!("symmem-map-{}.svg", std::process::id()));
    let output = tool(&format!("map --ranks 3 --svg {}", svg.display()));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{err}");
    let drawn = std::fs::read_to_string(&svg).expect("it was drawn");
    std::fs::remove_file(&svg).expect("it was there");
    for needle in ["3 ranks", "rank 2", "DevBase", "window 0: 3 MiB", "window 2: 4 KiB", "rw 0 1 2"] {
        assert!(out.contains(needle) && drawn.contains(needle), "{needle} is not in\n{out}\n{drawn}");
    }
}

#[test]
fn tools_write_a_row_per_measurement() {
    let tools = [
        ("host-cost --calls 3 --bursts 3 --json -", 3, "host_ns_per_call"),
        ("registration --ranks 2 --windows 1,3 --bytes 4K --repetitions 2 --json -", 10, "time_us"),
    ];
    for (args, n_rows, key) in tools {
        let output = tool(args);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && err.is_empty(), "{args}: {err}");
        let rows = out.lines().filter(|line| line.starts_with('{'));
        let rows: Vec<Value> = rows.map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows.len(), n_rows, "{args}: {out}");
        assert!(rows.iter().all(|row| row[key].as_f64().is_some_and(|value| value > 0.0)), "{args}: {out}");
    }
    let output = tool("registration --windows none");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
