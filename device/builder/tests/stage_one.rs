//! Stage one on crates of its own: no workspace around them, no lock file, a kernel that may panic.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use symmem_builder::check::{Entry, PtxText, Rules, golden, violations};
use symmem_builder::output::Lock;
use symmem_builder::{Artifacts, Builder, Lto};

const MANIFEST: &str =
    "[package]\nname = \"NAME-kernels\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
const SOURCE: &str = r#"#![no_std]
#![feature(abi_ptx, stdarch_nvptx, asm_experimental_arch)]

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn store(address: u64, value: u64) {
    // SAFETY: the caller gives an address in global memory.
    unsafe { core::arch::asm!("st.relaxed.sys.global.b64 [{a}], {v};", a = in(reg64) address, v = in(reg64) value) }
}

#[cfg(target_feature = "sm_90")]
#[unsafe(no_mangle)]
pub extern "ptx-kernel" fn new_only() {
    // SAFETY: every thread of the block is here.
    unsafe { core::arch::nvptx::_syncthreads() }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn index(words: *mut u32, len: usize, at: usize) {
    // SAFETY: the caller gives `len` words.
    let words = unsafe { core::slice::from_raw_parts_mut(words, len) };
    words[at] = 1;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

/// Two kernels in modules of their own, and what both use, which is not `#[inline]`.
const MODULES: &str = r#"#![no_std]
#![feature(abi_ptx)]

mod shared {
    pub fn plus(value: u32) -> u32 {
        value.rotate_left(3).wrapping_mul(value) + 1
    }
}

mod first {
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn first(word: *mut u32, value: u32) {
        // SAFETY: the caller gives a word.
        unsafe { word.write(crate::shared::plus(value) ^ 7) }
    }
}

mod second {
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn second(word: *mut u32, value: u32) {
        // SAFETY: the caller gives a word.
        unsafe { word.write(crate::shared::plus(value) ^ 9) }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

/// A crate in a folder below cargo's own scratch space for this test, made anew.
fn new_crate(name: &str, source: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(dir.join("src")).unwrap();
    std::fs::write(dir.join("Cargo.toml"), MANIFEST.replace("NAME", name)).unwrap();
    std::fs::write(dir.join("src/lib.rs"), source).unwrap();
    dir
}

fn tiny_crate(source: &str) -> PathBuf {
    new_crate("tiny", source)
}

fn build(dir: &Path) -> Artifacts {
    Builder::new(dir).sm(80).sm(90).lto(Lto::Off).build().unwrap()
}

fn entries(ptx: &str) -> Vec<&str> {
    PtxText::parse(ptx).entries.iter().map(|entry| entry.name).collect()
}

#[test]
fn a_crate_becomes_one_checked_module_per_sm() {
    let dir = tiny_crate(SOURCE);
    let artifacts = build(&dir);
    let [old, new] = &artifacts.modules[..] else { panic!("two modules were asked for: {artifacts:?}") };

    assert_eq!(entries(&old.text), ["index", "store"]);
    assert_eq!(entries(&new.text), ["index", "new_only", "store"]);
    for module in [old, new] {
        let text = PtxText::parse(&module.text);
        assert_eq!((text.sm, text.version), (module.sm, 84));
        let stores = golden(&module.text, "store");
        assert!(
            matches!(stores[..], [store] if store.starts_with("st.relaxed.sys.global.b64 [")),
            "{stores:?}"
        );
        // The only breach is the bounds check, and it names the Rust line: in the crate or in `core`, never a full path.
        let found = violations(&text, &Rules::collective());
        let places: Vec<_> = found.iter().map(|v| (v.kernel.as_deref(), v.text.as_str())).collect();
        assert_eq!(places, [(Some("index"), "trap;")], "{found:?}");
        let source = found[0].source.as_deref().unwrap();
        assert!(source.starts_with("src/lib.rs:") || source.starts_with("rust/library/"), "{source}");
    }
    assert!(artifacts.inputs.contains(&dir.canonicalize().unwrap().join("src")), "{:?}", artifacts.inputs);
    assert!(!dir.join("Cargo.lock").exists(), "the crate's folder is only read");

    // What the compiler wrote is lost: it is made again, though cargo sees nothing to do.
    let asm = new.path.ancestors().nth(2).unwrap().join("asm");
    for file in std::fs::read_dir(&asm).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().unwrap().to_str().unwrap().starts_with("tiny_kernels") {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert_eq!(build(&dir), artifacts);

    // An edit arrives, and what does not compile is an error.
    let edited = build(&tiny_crate(&SOURCE.replace("fn store", "fn renamed")));
    assert_eq!(entries(&edited.modules[0].text), ["index", "renamed"]);
    let error =
        Builder::new(tiny_crate("compile error")).sm(90).lto(Lto::Off).build().unwrap_err().to_string();
    for part in ["`cargo rustc", "failed (exit status: 101)", "src/lib.rs:1:9"] {
        assert!(error.contains(part), "{error}");
    }
}

/// The kernels of a module, by name, each as its lines.
fn kernels(ptx: &str) -> BTreeMap<String, Vec<String>> {
    let lines = |entry: &Entry<'_>| entry.lines.iter().map(|line| line.text.to_owned()).collect();
    PtxText::parse(ptx).entries.iter().map(|entry| (entry.name.to_owned(), lines(entry))).collect()
}

#[test]
fn with_a_state_the_code_is_what_it_is_without() {
    for (step, source) in [
        ("first", MODULES.to_owned()),
        ("one kernel edited", MODULES.replace("^ 9", "^ 11")),
        ("what both use edited", MODULES.replace(" + 1", " + 2")),
        ("back", MODULES.to_owned()),
    ] {
        let builder = Builder::new(new_crate("modules", &source)).sm(90).lto(Lto::Off);
        let anew = builder.clone().build().unwrap();
        let by_state = builder.incremental().build().unwrap();
        let [anew, by_state] = [anew, by_state].map(|artifacts| artifacts.modules[0].text.clone());
        assert_eq!(kernels(&by_state), kernels(&anew), "{step}");
        assert_eq!(kernels(&anew).len(), 2, "{step}");
        assert!(!by_state.contains(".extern"), "{step}: {by_state}");
    }
}

/// The third time cargo finds that it has compiled the crate so, and compiles nothing.
#[test]
fn a_crate_that_was_changed_and_changed_back_is_what_it_was() {
    let source = MODULES.replace("^ 9", "^ if cfg!(feature = \"other\") { 11 } else { 9 }");
    let dir = new_crate("changed", &source);
    let [first, other, again] = ["[]", "[\"other\"]", "[]"].map(|features| {
        let manifest = MANIFEST.replace("NAME", "changed");
        let manifest = format!("{manifest}[features]\ndefault = {features}\nother = []\n");
        std::fs::write(dir.join("Cargo.toml"), manifest).unwrap();
        Builder::new(&dir).sm(90).lto(Lto::Off).build().unwrap().modules.remove(0).text
    });
    assert_ne!(first, other);
    assert_eq!(first, again);
}

/// Makes a process of this test a builder of the crate in this folder.
const BUILDER_OF: &str = "SYMMEM_TEST_BUILDER_OF";

/// A cargo in `dir` whose compiler runs until there is a file `go`, at most a minute, and says by a file `compiles` that it
/// does.
fn slow_cargo(dir: &Path) {
    let path = dir.join("cargo");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = rustc ] || exec '{}' \"$@\"\ncd '{}' && touch compiles\n\
         n=0; while [ ! -e go ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done\n",
        env!("CARGO"),
        dir.display(),
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What it compiles lies where the next builder looks for its own.
#[test]
fn a_builder_that_is_killed_leaves_the_lock_to_its_cargo() {
    if let Some(dir) = std::env::var_os(BUILDER_OF) {
        let built = Builder::new(&dir).sm(90).lto(Lto::Off).target_dir(&dir).build();
        panic!("it was to be killed, and: {built:?}");
    }
    let dir = new_crate("killed", SOURCE);
    for sign in ["compiles", "go"] {
        std::fs::remove_file(dir.join(sign)).ok();
    }
    slow_cargo(&dir);
    let path = std::env::join_paths(
        std::iter::once(dir.clone()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut builder = Command::new(std::env::current_exe().unwrap());
    builder.args(["a_builder_that_is_killed_leaves_the_lock_to_its_cargo", "--exact"]);
    builder.env(BUILDER_OF, &dir).env("PATH", path.unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut builder = builder.spawn().unwrap();
    let started = Instant::now();
    while !dir.join("compiles").exists() {
        assert!(started.elapsed() < Duration::from_secs(60) && builder.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    builder.kill().unwrap();
    builder.wait().unwrap();
    let stage = dir.join("stage1");
    let error = Lock::take(&stage, Duration::from_millis(100)).unwrap_err().to_string();
    assert!(error.contains("another build has held"), "{error}");
    std::fs::write(dir.join("go"), "").unwrap();
    Lock::take(&stage, Duration::from_secs(60)).unwrap();
}
