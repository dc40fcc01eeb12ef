//! Runs of the program, and the files of their reports.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Creates a run of a subcommand.
pub fn command(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfield-bench"));
    command.arg(name).args(arguments);
    command
}

/// Runs a subcommand to its end.
pub fn output(name: &str, arguments: &[&str]) -> Output {
    let output = command(name, arguments).output();
    output.expect("the program starts")
}

/// Returns what a run has printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the errors of a run.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks that a subcommand refuses each list of arguments, with its exit code and an error that
/// contains its text.
pub fn check_refusals(name: &str, refusals: &[(&[&str], i32, &str)]) {
    for &(arguments, code, named) in refusals {
        let output = output(name, arguments);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(named), "{arguments:?}: {error}");
    }
}

/// Reads a report.
pub fn json(path: &str) -> Value {
    let text = std::fs::read_to_string(path).expect("the report was written");
    serde_json::from_str(&text).expect("the report is valid")
}

/// A folder that is removed with its content.
pub struct BenchTestFolder(pub PathBuf);

impl BenchTestFolder {
    /// Creates a folder in that of temporary files.
    pub fn new(name: &str) -> BenchTestFolder {
        let path = format!("nearfield-bench-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        BenchTestFolder(path)
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for BenchTestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
