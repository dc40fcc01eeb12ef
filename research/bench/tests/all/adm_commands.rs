//! The command `nearfield-bench adm-commands`.

use crate::program::{check_refusals, output};

#[test]
fn commands_are_in_the_protocol_of_redis_and_bad_flags_are_refused() {
    let arguments = ["--type", "list", "--count", "1k", "--requests", "1"];
    let output = output("adm-commands", &arguments);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with('*') && text.ends_with("\r\n"));
    let count = |name: &str| text.matches(&format!("\r\n{name}\r\n")).count();
    assert_eq!(
        (count("RPUSH"), count("LRANGE"), count("LSET")),
        (1000, 900, 100)
    );
    let refusals: &[(&[&str], i32, &str)] = &[
        (&["--bench", "6"], 2, "--bench is 6"),
        (&["--type", "stream"], 2, "stream"),
        (&["--count", "5"], 2, "5"),
    ];
    check_refusals("adm-commands", refusals);
}
