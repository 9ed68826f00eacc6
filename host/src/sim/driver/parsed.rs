//! Texts that this process has parsed: every rank of every machine loads the same few.

use crate::sim::ptx::{self, Module, PtxError};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// So many are kept at most, for programs that load ever new ones.
const KEPT_MAX: usize = 256;

/// Modules by their texts, which the kernels hold as well.
static PARSED: LazyLock<Mutex<HashMap<String, Module>>> = LazyLock::new(Mutex::default);

/// As [`ptx::parse`]. The kernels are shared with whoever loaded the same text.
pub(super) fn parse(text: &str) -> Result<Module, PtxError> {
    let lock = || PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(module) = lock().get(text) {
        return Ok(module.clone());
    }
    let module = ptx::parse(text)?;
    let mut parsed = lock();
    if parsed.len() >= KEPT_MAX {
        parsed.clear();
    }
    parsed.insert(text.to_owned(), module.clone());
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_text_is_parsed_once() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";
        let [first, second] = [(); 2].map(|()| parse(text).expect("PTX"));
        assert!(Arc::ptr_eq(&first.kernels[0], &second.kernels[0]));
        parse("no PTX").expect_err("refused every time");
    }
}
