//! The command `nearfield-bench figures`.

use std::path::PathBuf;
use std::process::{Command, Output};

fn nearfield(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfield-bench"))
        .arg("figures")
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("nearfield-figures-{}-{name}", std::process::id()))
}

#[test]
fn figures_are_printed_and_written() {
    let (json, html) = (file("a.json"), file("a.html"));
    let paths = [&json, &html].map(|path| path.to_str().expect("a path"));
    let output = nearfield(&[
        "chime", "16", "4", "--quick", "--count", "2k", "--json", paths[0], "--html", paths[1],
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("CHIME, figure 4a") && printed.contains("modelled"));
    let report = std::fs::read_to_string(&json).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["complete"], true);
    assert_eq!(report["scale"]["keys"], 2000);
    let rows = report["rows"].as_array().expect("rows");
    assert!(
        rows.iter()
            .any(|row| row["figure"] == "4c" && row["kind"] == "modelled")
    );
    assert!(
        rows.iter()
            .any(|row| row["figure"] == "16" && row["kind"] == "counted")
    );
    let claims = report["claims"].as_array().expect("claims");
    assert!(
        claims
            .iter()
            .any(|claim| claim["id"] == "chime.near-optimal")
    );
    let page = std::fs::read_to_string(&html).expect("a page");
    assert!(page.contains("<svg") && page.contains("(modelled)"));
    for path in [json, html] {
        std::fs::remove_file(path).expect("it was written");
    }
}

#[test]
fn a_trace_of_ones_own_is_walked_and_a_wrong_line_is_named() {
    let (trace, json) = (file("trace.txt"), file("trace.json"));
    let paths = [&trace, &json].map(|path| path.to_str().expect("a path"));
    let arguments = |text: &str| {
        std::fs::write(&trace, text).expect("a trace");
        nearfield(&[
            "dcart", "3", "--quick", "--trace", paths[0], "--json", paths[1],
        ])
    };
    let lines = (0..500).map(|number| format!("insert user:{number}\nget user:{number}\n"));
    let output = arguments(&lines.collect::<String>());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = std::fs::read_to_string(&json).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let rows = report["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row["key_source"] == paths[0]));
    let output = arguments("get a\nforget b\n");
    assert!(!output.status.success());
    let refused = stderr(&output);
    assert!(
        refused.contains(paths[0]) && refused.contains("line 2"),
        "{refused}"
    );
    for path in [trace, json] {
        std::fs::remove_file(path).expect("it was written");
    }
}

#[test]
fn unknown_figures_and_bad_flags_are_refused() {
    for (arguments, named) in [
        (&["chime", "99"][..], "\"99\""),
        (&["chime", "--count", "5"][..], "--count is 5"),
        (&["chime", "--modules", "64"][..], "--modules is 64"),
        (&["chime", "--text", "a.txt"][..], "--text is a.txt"),
        (&["radar", "--modules", "5"][..], "--modules is 5"),
        (&["chime", "--capacity", "65"][..], "--capacity is 65"),
        (&["adm", "--capacity", "200"][..], "--capacity is 200"),
        (&["pulse", "--threshold-in", "6"][..], "--threshold-in is 6"),
        (
            &["chime", "--json", "/no/such/folder/a.json"][..],
            "/no/such/folder",
        ),
        (&["sherman"][..], "sherman"),
    ] {
        let output = nearfield(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
}
