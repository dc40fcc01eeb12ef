//! The commands that measure run another program.

use std::path::Path;
use std::process::Command;

#[test]
fn without_its_program_a_command_that_measures_says_how_to_get_it() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-alone", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let alone = folder.join("nearfield");
    // A link, not a copy: a process that another test starts meanwhile could hold the copy open for
    // writing, and a program that is open for writing cannot be started.
    std::fs::hard_link(env!("CARGO_BIN_EXE_nearfield"), &alone).expect("a link");
    for command in ["bench", "bench-server", "figures"] {
        let output = Command::new(&alone).args([command, "--help"]).output();
        let output = output.expect("the program");
        let error = String::from_utf8_lossy(&output.stderr);
        let how = format!("cargo run --release -p nearfield-bench -- {command}\n");
        assert!(!output.status.success() && error.contains(&how), "{error}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder is there");
}
