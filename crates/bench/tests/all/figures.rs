//! The command `nearfield figures`.

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
fn what_cannot_be_drawn_is_refused() {
    for (arguments, named) in [
        (&["chime", "99"][..], "\"99\""),
        (&["chime", "--count", "5"][..], "--count is 5"),
        (&["chime", "--modules", "64"][..], "--modules is 64"),
        (&["chime", "--text", "a.txt"][..], "--text is a.txt"),
        (&["radar", "--modules", "5"][..], "--modules is 5"),
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
