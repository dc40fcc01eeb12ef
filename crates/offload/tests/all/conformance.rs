//! The program that public conformance suites run.

use crate::examples::example;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(example("conformance"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input may have ended, so ignore the error.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn printed(arguments: &[&str], input: &str) -> String {
    let output = run(arguments, input);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const EXIT: &str = "95 00 00 00 00 00 00 00";

#[test]
fn memory_and_program_are_hexadecimal() {
    let length = format!("bf 20 00 00 00 00 00 00  {EXIT}\n");
    let first = format!("71 10 00 00 00 00 00 00\n{EXIT}");
    let joined = first.replace([' ', '\n'], "");
    for options in [&[][..], &["--native"]] {
        let with = |memory: &'static str| [&[memory], options].concat();
        assert_eq!(printed(&with("aa bb  CC"), &length), "3\n");
        assert_eq!(printed(&with("aabbcc"), &first), "aa\n");
        assert_eq!(printed(&with(" aa "), &joined), "aa\n");
        assert_eq!(printed(&with(""), &length), "0\n");
        // A run without memory, and with the program as an argument.
        assert_eq!(printed(options, &length), "0\n");
        let by_option = [&["aa", "--program", first.as_str()], options].concat();
        assert_eq!(printed(&by_option, ""), "aa\n");
        let negative = format!("b7 00 00 00 ff ff ff ff {EXIT}");
        assert_eq!(printed(options, &negative), "ffffffffffffffff\n");
    }
    // Suites pass an empty argument if they have no option.
    assert_eq!(printed(&["aabb", ""], &length), "2\n");
}

#[test]
fn what_is_malformed_or_faults_fails() {
    for options in [&[][..], &["--native"]] {
        for (input, message) in [
            ("", "there are no instructions"),
            ("95", "1 bytes are not a multiple of 8"),
            ("9", "1 hexadecimal digits are odd"),
            ("zz", "'z' is not a hexadecimal digit"),
            ("ff 00 00 00 00 00 00 00", "slot 0: there is no opcode 0xff"),
            (
                "b7 00 00 00 00 00 00 00",
                "slot 0: the last instruction does not exit or jump",
            ),
            (
                "71 10 00 00 00 00 00 00 95 00 00 00 00 00 00 00",
                "slot 0: 1 bytes at 0x0 are not in memory",
            ),
        ] {
            let output = run(options, input);
            assert!(!output.status.success(), "{input}");
            assert_eq!(output.stdout, b"");
            assert_eq!(
                String::from_utf8(output.stderr).unwrap(),
                format!("{message}\n")
            );
        }
    }
    assert!(!run(&["--nativ"], EXIT).status.success());
    assert!(!run(&["aa", "bb"], EXIT).status.success());
}
