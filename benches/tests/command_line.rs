//! The program as a person or a script meets it: exit status, what is said where, and that JSON is JSON. On the
//! simulated machine.
#![cfg(feature = "sim")]

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn bench(args: &str) -> Output {
    command(args).output().expect("the bench starts")
}

/// With a path as the last argument.
fn started(args: &[&str], last: &std::path::Path) -> Output {
    bare().args(args).arg(last).output().expect("the bench starts")
}

fn command(args: &str) -> Command {
    let mut command = bare();
    command.args(["--device", "sim"]).args(args.split_whitespace());
    command
}

fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_symmem-bench"));
    // Settings of the caller's environment must not reach the tests.
    let ours = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.to_string_lossy().starts_with("SYMMEM_"));
    ours.for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Without time there is nothing to tune for; that is a wrong command line, not a failure.
#[test]
fn the_simulated_machine_cannot_be_tuned_for() {
    for (args, words) in [
        (&["tune", "--device", "sim"][..], "has no time"),
        (&["tune", "--device", "sim", "--shapes", "ll"], "has no time"),
        (&["tune", "--device", "sim", "--ranks", "1"], "2.."),
        (&["tune", "--device", "sim", "--shapes", "ring"], "two_shot_push"),
        (&["tune", "--device", "sim", "--shapes", "ll", "--write", "x"], "cannot be used"),
    ] {
        let output = bare().args(args).output().expect("the bench starts");
        let (said, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!((output.status.code(), said.as_str()), (Some(2), ""), "{args:?}: {error}");
        assert!(error.contains(words), "{args:?}: {error}");
    }
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
        "--ranks 3 --count 67 --buffers register",
        "--ranks 2 --count 5 --timing graph -n 2",
        "--procs 2 --count 1 --count 67",
        "--procs 2 --count 5 --buffers register",
        "--procs 3 -n 3 -c 4 --count 33 -d f16 --algo ll",
        "--procs 1 --count 5",
        "--ranks 3 --timing device -n 5 -c 3 --count 1 --count 4097",
        "--ranks 2 --timing device --count 0",
        "--procs 2 --timing device --count 67",
        "--ranks 6 --ranks-per-gpu 3 --count 67",
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
        ("-d f128", 2, "bf16"),
        ("--count 4611686018427387904", 2, "do not fit"),
        ("all_gather --algo two_shot_ld_st", 2, "has no algorithm"),
        ("--ranks 2 -e 4G", 1, "bytes on each device"),
        ("--json /nowhere/at/all", 1, "/nowhere/at/all"),
        ("--procs 2 --ranks 2", 2, "cannot be used"),
        ("--procs 2 --vs nccl", 2, "cannot be used"),
        ("--timing host", 2, "has no time"),
        ("--timing graph -G 0", 2, "needs replays"),
        ("--timing device -d bf16", 2, "f32 by sum"),
        ("--timing device --vs nccl", 2, "NCCL has none"),
        ("--plot /tmp/none.svg", 2, "has no time"),
        ("--procs 2 -b 2K -e 1K", 2, "larger"),
        ("--procs 2 -e 4G", 1, "bytes on each device"),
        ("--procs 2 --json /nowhere/at/all", 1, "/nowhere/at/all"),
        ("--procs 2 -e 32K -c 100000 --timeout-s 1", 1, "too long"),
    ];
    for (args, status, reason) in bad {
        let output = bench(args);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args}: {err}");
        assert!(err.contains(reason), "{args}: {err}");
    }
}

#[test]
fn growth_tells_peak_and_copies_of_both_vectors() {
    let svg = std::env::temp_dir().join(format!("symmem-growth-{}.svg", std::process::id()));
    let output =
        started(&["growth", "--device", "sim", "-b", "3M", "-e", "24M", "--json", "-", "--svg"], &svg);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (page, mut before) = (2 << 20, 0);
    for row in &rows[..4] {
        let size = row["bytes"].as_u64().expect("a number");
        assert_eq!((&row["vector"], &row["copied_bytes"]), (&"VmmVec".into(), &0.into()));
        assert_eq!(row["peak_bytes"], u64::next_multiple_of(size, page));
        assert_eq!(row["time_us"], Value::Null);
    }
    for row in &rows[4..] {
        let size = row["bytes"].as_u64().expect("a number");
        assert_eq!((&row["vector"], &row["copied_bytes"]), (&"CopyVec".into(), &before.into()));
        assert_eq!(
            row["peak_bytes"],
            u64::next_multiple_of(size, page) + u64::next_multiple_of(before, page)
        );
        before = size;
    }
    assert_eq!(rows.len(), 8);
    assert!(err.contains("simulated: no time") && err.contains("24 MiB"), "{err}");
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    std::fs::remove_file(&svg).expect("it was there");
    for words in ["VmmVec", "CopyVec", "peak device memory (bytes)", "copied in the step (bytes)", "4 MiB"] {
        assert!(picture.contains(words), "{words}");
    }
}

#[test]
fn growth_past_the_memory_is_a_failure() {
    let nowhere = std::path::Path::new("/dev/null");
    let output = started(&["growth", "--device", "sim", "-b", "512M", "-e", "1G", "--svg"], nowhere);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("CopyVec") && err.contains("CUDA_ERROR_OUT_OF_MEMORY"), "{err}");
    let output = started(&["growth", "--factor", "1", "--svg"], nowhere);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn standard_output_can_be_json_alone() {
    let output = bench("--ranks 2 --count 3 --json - --seed 9");
    assert!(output.status.success());
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // All-to-all has none in place.
    assert_eq!(rows.len(), 2 * symmem::Collective::ALL.len() - 1);
    for row in &rows {
        assert_eq!((&row["mode"], &row["time_us"], &row["wrong"]), (&"sim".into(), &Value::Null, &0.into()));
        assert!(row["instructions"].as_u64() > Some(0) && row["link_bytes"].as_u64() > Some(0), "{row}");
        assert_eq!(row["seed"], 9);
    }
    assert!(text(&output.stderr).contains("# all_gather"));
}

/// The simulated machine has no NCCL: that is said, and ours is measured.
#[test]
fn without_nccl_ours_is_measured_alone() {
    let output = bench("all_reduce --ranks 2 --count 3 --vs nccl --json -");
    assert!(output.status.success());
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!(row["wrong"], 0);
        for key in ["nccl_version", "nccl_r0_us", "nccl_r2_us", "ratio_to_nccl"] {
            assert_eq!(row.get(key), Some(&Value::Null), "{key}");
        }
    }
    let table = text(&output.stderr);
    assert!(table.contains("# vs: without NCCL: it needs GPUs") && !table.contains("NCCL R0"), "{table}");
}

/// Processes that `parent` started.
fn children(parent: u32) -> Vec<u32> {
    let stat = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let its_parent: u32 = fields.nth(1)?.parse().ok()?;
        (its_parent == parent).then_some(pid)
    };
    let mut found: Vec<_> = std::fs::read_dir("/proc").expect("Linux").flatten().filter_map(stat).collect();
    found.sort();
    found
}

/// A bench of two processes that would run for long, and has printed its first line of results.
fn long_run() -> (Child, Vec<u32>) {
    let mut command = command("all_reduce --procs 2 --count 33 --count 34 --count 35 -c 1000000");
    let mut bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the bench starts");
    let mut line = String::new();
    // The header is printed once both ranks are there.
    BufReader::new(bench.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let ranks = children(bench.id());
    assert_eq!(ranks.len(), 2);
    (bench, ranks)
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::KILL).expect("it runs");
}

#[test]
fn a_rank_that_is_killed_fails_all() {
    let start = Instant::now();
    let (bench, ranks) = long_run();
    kill(ranks[1]);
    let output = bench.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let err = text(&output.stderr);
    assert!(err.contains("rank 1 failed"), "{err}");
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn ranks_end_with_the_program() {
    let (mut bench, ranks) = long_run();
    kill(bench.id());
    bench.wait().expect("it was killed");
    let is_gone = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |text| text.contains(") Z"))
    };
    let end = Instant::now() + Duration::from_secs(20);
    while !ranks.iter().all(|pid| is_gone(*pid)) {
        assert!(Instant::now() < end, "a rank outlives the program");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn rows_say_how_many_processes_there_were() {
    let output = bench("all_reduce --procs 2 --count 3 --json -");
    for line in text(&output.stdout).lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&row["procs"], &row["ranks"], &row["hops"]), (&2.into(), &2.into(), &Value::Null));
        assert!(row["link_bytes"].as_u64() > Some(0), "{row}");
    }
    assert!(output.status.success());
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
        ("timer --ranks 2 --json -", 4, "spun_us"),
        ("registration --ranks 2 --windows 1,3 --bytes 4K --repetitions 2 --json -", 11, "time_us"),
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
