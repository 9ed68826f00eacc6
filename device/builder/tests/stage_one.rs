//! Stage one on a crate of its own: no workspace around it, no lock file, a kernel that may panic.

use std::path::{Path, PathBuf};
use symmem_builder::check::{PtxText, Rules, golden, violations};
use symmem_builder::{Artifacts, Builder, Lto};

const MANIFEST: &str =
    "[package]\nname = \"tiny-kernels\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
const SOURCE: &str = r#"#![no_std]
#![feature(abi_ptx, stdarch_nvptx, asm_experimental_arch)]

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn store(address: u64, value: u64) {
    unsafe { core::arch::asm!("st.relaxed.sys.global.b64 [{a}], {v};", a = in(reg64) address, v = in(reg64) value) }
}

#[cfg(target_feature = "sm_90")]
#[unsafe(no_mangle)]
pub extern "ptx-kernel" fn new_only() {
    unsafe { core::arch::nvptx::_syncthreads() }
}

#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn index(words: *mut u32, len: usize, at: usize) {
    let words = unsafe { core::slice::from_raw_parts_mut(words, len) };
    words[at] = 1;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"#;

/// A folder below cargo's own scratch space for this test, made anew.
fn tiny_crate(source: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiny");
    std::fs::create_dir_all(dir.join("src")).unwrap();
    std::fs::write(dir.join("Cargo.toml"), MANIFEST).unwrap();
    std::fs::write(dir.join("src/lib.rs"), source).unwrap();
    dir
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
    assert!(error.contains("`cargo rustc") && error.contains("failed (exit status: 101)"), "{error}");
}
