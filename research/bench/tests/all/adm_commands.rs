//! The command `nearfield-bench adm-commands`.

use std::process::{Command, Output};

fn commands(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfield-bench"))
        .arg("adm-commands")
        .args(arguments)
        .output()
        .expect("the program starts")
}

#[test]
fn commands_are_in_the_protocol_of_redis_and_bad_flags_are_refused() {
    let arguments = ["--type", "list", "--count", "1k", "--requests", "1"];
    let output = commands(&arguments);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with('*') && text.ends_with("\r\n"));
    let count = |name: &str| text.matches(&format!("\r\n{name}\r\n")).count();
    assert_eq!(
        (count("RPUSH"), count("LRANGE"), count("LSET")),
        (1000, 900, 100)
    );
    for (arguments, named) in [
        (["--bench", "6"], "--bench is 6"),
        (["--type", "stream"], "stream"),
        (["--count", "5"], "5"),
    ] {
        let output = commands(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(named), "{error}");
    }
}
