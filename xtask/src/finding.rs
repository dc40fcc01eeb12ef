//! The findings that checks report.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in the tree and the fault there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TidyFinding {
    /// Path relative to the root of the repository.
    path: PathBuf,
    /// Line number, counted from 1.
    line: usize,
    reason: String,
}

impl TidyFinding {
    pub fn new(path: &Path, line: usize, reason: impl Into<String>) -> Self {
        debug_assert!(
            path.is_relative(),
            "a path begins at the root of the repository"
        );
        debug_assert!(line > 0, "lines are counted from 1");
        TidyFinding {
            path: path.to_owned(),
            line,
            reason: reason.into(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TidyFinding { path, line, reason } = self;
        write!(formatter, "{}:{line}: {reason}", path.display())
    }
}
