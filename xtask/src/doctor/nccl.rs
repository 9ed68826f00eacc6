//! NCCL, which the bench is compared with: looked for where the bench looks.

use super::Finding;

#[path = "../../../benches/src/nccl/find.rs"]
mod find;

/// The first NCCL that loads, and every place tried before.
pub(super) fn finding() -> Finding {
    let candidates = find::candidates(|name| std::env::var_os(name));
    let mut tried = Vec::new();
    match find::load(&candidates, &mut tried) {
        Some((library, version, candidate)) => {
            // Its threads may still run.
            std::mem::forget(library);
            let text = format!("{version} in {}, by {}", candidate.path.display(), candidate.origin);
            Finding::new("NCCL", text).tried(tried)
        }
        None => Finding::new("NCCL", "not found; only comparisons need it").tried(tried),
    }
}
