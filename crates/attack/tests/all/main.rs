//! Tests of the command. The tests of attacks are in those of `nearfield-cli`, where the server's
//! program is built.

use std::process::{Command, Output};

fn attack(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfield-attack"))
        .args(arguments)
        .output()
        .expect("the program")
}

#[test]
fn a_program_that_is_no_server_is_named() {
    let output = attack(&["streams", "--server", "/bin/false", "--streams", "1"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("it does not start"), "{text}");
}

#[test]
fn words_that_it_does_not_know_are_refused() {
    assert_eq!(attack(&["streams", "--seed", "x"]).status.code(), Some(2));
    assert_eq!(attack(&["storm"]).status.code(), Some(2));
}
