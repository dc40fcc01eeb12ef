//! The command `nearfield-bench bench-pim`.

use std::process::{Command, Output};

fn nearfield(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nearfield-bench"))
        .arg("bench-pim")
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_workload_is_printed_and_written() {
    let file = format!("nearfield-bench-pim-{}.json", std::process::id());
    let file = std::env::temp_dir().join(file);
    let path = file.to_str().expect("a path");
    let output = nearfield(&[
        "--keys",
        "20k",
        "--batch",
        "1000",
        "--seconds",
        "0.05",
        "--rounds",
        "2",
        "--json",
        path,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = std::fs::read_to_string(&file).expect("a report");
    std::fs::remove_file(&file).expect("it was written");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["complete"], true);
    assert_eq!(report["keys"], 20_000);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 5);
    let printed = String::from_utf8_lossy(&output.stdout);
    for row in rows {
        let workload = row["workload"].as_str().expect("a name");
        assert!(printed.contains(workload), "{workload}: {printed}");
        let turns = if workload == "load" { 1 } else { 2 };
        for side in ["modules", "skip_list"] {
            let rates = row[side]["turns_mops"].as_array().expect("turns");
            assert_eq!(rates.len(), turns, "{workload}");
            assert!(rates.iter().all(|rate| rate.as_f64() > Some(0.0)));
        }
        assert!(row["ratio"].as_f64() > Some(0.0));
    }
}

#[test]
fn bad_flags_are_refused() {
    for (arguments, code, named) in [
        (&["--batch", "0"][..], 2, "--batch"),
        (&["--seconds=-1"][..], 2, "--seconds"),
        (&["--keys", "0"][..], 1, "keys is 0"),
        (&["--json", "/no/such/folder/a.json"][..], 1, "No such file"),
    ] {
        let output = nearfield(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
}
