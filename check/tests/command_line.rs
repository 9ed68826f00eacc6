//! The program as a person or a script meets it: exit status, what is said, and that a finding can be repeated.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn check(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    Command::new(env!("CARGO_BIN_EXE_symmem-check")).args(args).current_dir(root).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Runs a line of arguments, which must end with that status; gives what is said.
fn said(line: &str, status: i32) -> String {
    let output = check(&line.split_whitespace().collect::<Vec<_>>());
    let all = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{line}: {all}");
    all
}

#[test]
fn kernels_are_clean_under_every_kind_of_schedule() {
    for kind in ["round-robin", "random", "pct", "unfair"] {
        let said = said(&format!("check symmem_all_gather --ranks 2,3 --seeds 5 --schedule {kind}"), 0);
        assert!(said.contains("7 kernels, 70 runs, 0 findings") && said.contains(kind), "{said}");
        assert_eq!(said.matches("clean").count(), 7, "{said}");
    }
}

#[test]
fn kernels_are_listed() {
    let all = said("check --list", 0);
    assert!(all.lines().count() >= 600 && all.contains("symmem_all_reduce_ll_bf16_avg"), "{all}");
    assert_eq!(said("check --list *_ll_f32_*", 0).lines().count(), 12);
    let mutants = said("check --mutants --list all_gather_st", 0);
    for needle in ["st.release.sys.global.b32", "ld.acquire.sys.global.b32", "source without barrier_on_exit"]
    {
        assert!(mutants.contains(needle), "{needle}: {mutants}");
    }
}

#[test]
fn a_run_is_repeated_by_its_name() {
    let run = "symmem_all_gather_st_any_any@3/chain/none/unfair:17";
    assert_eq!(said(&format!("check --replay {run}"), 0), format!("{run}: clean\n"));
    let run = "symmem_all_gather_ll_any_any@2/wrap/races/pct:1:d3:n5000";
    assert_eq!(said(&format!("check --replay {run}"), 0), format!("{run}: clean\n"));
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let bad = [
        ("check nothing", "no kernel's name"),
        ("check --ranks 0", "0 is not in 1..=64"),
        ("check --seeds 0", "0 is not in 1.."),
        ("check --schedule fair", "round-robin"),
        ("check --replay x", "is no run"),
        ("check --replay symmem_all_gather_st_any_any@3/chain/none/fair:1", "is no schedule"),
        ("check --replay symmem_all_gather_st_any_any@3/song/none/random:1", "no such program"),
        ("check --replay a@3/chain/none/random:1", "no kernel `a`"),
        ("check --launch /nowhere", "cannot read /nowhere"),
        ("trace", "required"),
        ("trace all_reduce --ranks 2 --schedule fair", "is no schedule"),
        ("trace all_reduce --svg /nowhere/at/all", "cannot write /nowhere/at/all"),
    ];
    for (line, reason) in bad {
        let said = said(line, 2);
        assert!(said.contains(reason), "{line}: {said}");
    }
}

fn example(name: &str) -> String {
    format!("examples/exchange/{name}.json")
}

/// The worked example of docs/checking.md.
#[test]
fn a_missing_release_is_found_and_repeated() {
    let good = said(&format!("check --launch {} --seeds 6", example("right")), 0);
    assert!(good.contains("clean"), "{good}");
    let found = said(&format!("check --launch {} --seeds 6", example("wrong")), 1);
    for needle in ["data race", "exchange_without_release", "a release at .sys"] {
        assert!(found.contains(needle), "{needle}: {found}");
    }
    let (_, again) = found.split_once("again: cargo xtask ").expect("the command that repeats it");
    let again = said(again.replace('\'', "").trim(), 1);
    assert!(again.contains("data race"), "{again}");
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("symmem-check-{name}-{}.svg", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_trace_is_text_and_picture() {
    let cases = [
        ("trace all_reduce --ranks 3", ["begin symmem_all_reduce_ll_f32_sum", "LL slots, bank 1", "rank 2"]),
        (
            "trace two_shot_ld_st_f32_sum --ctas 2 --count 300",
            ["barrier inbox", "ld.acquire.sys.b32", "block 1"],
        ),
        (
            "trace all_gather --ops 2 --schedule unfair:3",
            ["LL slots, bank 0", "LL slots, bank 1", "LL epoch"],
        ),
    ];
    for (n, (line, needles)) in cases.into_iter().enumerate() {
        let svg = Scratch::new(&n.to_string());
        let said = said(&format!("{line} --svg {}", svg.0.display()), 0);
        let drawn = std::fs::read_to_string(&svg.0).expect("it was drawn");
        for needle in needles {
            assert!(said.contains(needle) && drawn.contains(needle), "{line}: {needle} is not in {said}");
        }
        assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
        assert_eq!(drawn.matches("<text").count(), drawn.matches("</text>").count());
    }
    let own = said(&format!("trace --launch {}", example("right")), 0);
    assert!(own.contains("store inbox: 32 × 4 B") && own.contains("flag"), "{own}");
}

/// One of the mutants, as a whole run would treat it.
#[test]
fn a_kernel_without_its_orders_is_caught() {
    let said = said("check --mutants all_gather_st --ranks 2 --seeds 1 --only *st.release*for_my_peers*", 0);
    assert!(said.contains("caught      all_gather_st: st.release.sys.global.b32"), "{said}");
}
