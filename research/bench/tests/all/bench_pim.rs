//! The command `nearfield-bench bench-pim`.

use crate::program::{BenchTestFolder, check_refusals, json, output, stderr, stdout};

#[test]
fn every_workload_is_printed_and_written() {
    let folder = BenchTestFolder::new("pim");
    let path = folder.file("report.json");
    let arguments = [
        "--keys",
        "20k",
        "--batch",
        "1000",
        "--seconds",
        "0.05",
        "--rounds",
        "2",
        "--json",
        &path,
    ];
    let output = output("bench-pim", &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&path);
    assert_eq!(report["complete"], true);
    assert_eq!(report["keys"], 20_000);
    let rows = report["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 5);
    let printed = stdout(&output);
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
    let refusals: &[(&[&str], i32, &str)] = &[
        (&["--batch", "0"], 2, "--batch"),
        (&["--seconds=-1"], 2, "--seconds"),
        (&["--keys", "0"], 1, "keys is 0"),
        (&["--json", "/no/such/folder/a.json"], 1, "No such file"),
    ];
    check_refusals("bench-pim", refusals);
}
