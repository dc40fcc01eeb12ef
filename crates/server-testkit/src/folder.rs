//! Folders for the files of tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A separate folder that is deleted when this is dropped.
#[derive(Debug)]
pub struct TestkitFolder(pub PathBuf);

impl Default for TestkitFolder {
    fn default() -> TestkitFolder {
        TestkitFolder::new()
    }
}

impl TestkitFolder {
    /// Creates a new, empty folder.
    pub fn new() -> TestkitFolder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Several test processes run at the same time.
        let name = format!("nearfield-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a new folder");
        TestkitFolder(path)
    }

    /// Returns the path of a file in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestkitFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
