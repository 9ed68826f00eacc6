//! Scratch folders for tests.

use std::path::{Path, PathBuf};

/// A folder of its own for one test, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("symmem-builder-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays behind in the temporary directory does not change what a test found.
        std::fs::remove_dir_all(&self.0).ok();
    }
}
