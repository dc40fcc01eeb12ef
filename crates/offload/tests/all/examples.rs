//! The examples, run as programs.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of an example. Cargo builds the examples of a package with its tests.
pub fn example(name: &str) -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(
        path.exists(),
        "{path:?} is not built: run cargo test without --test"
    );
    path
}

/// The example compares its results with those of a `BTreeMap`.
#[test]
fn a_structure_of_ones_own_takes_less_than_a_hundred_lines() {
    let output = Command::new(example("skip_list")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = include_str!("../../examples/skip_list.rs").lines().count();
    assert!(lines < 100, "{lines}");
}
