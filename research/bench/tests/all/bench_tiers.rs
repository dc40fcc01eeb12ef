//! The command `nearfield-bench bench-tiers`.

use crate::program::{BenchTestFolder, check_refusals, json, output, stderr, stdout};

#[test]
fn all_tables_are_printed_and_written() {
    let folder = BenchTestFolder::new("tiers");
    let path = folder.file("report.json");
    let arguments = [
        "--records",
        "3k",
        "--file-bytes",
        "4mb",
        "--seconds",
        "0.05",
        "--rounds",
        "2",
        "--depth",
        "4",
        "--writes",
        "0.4",
        "--json",
        &path,
    ];
    let output = output("bench-tiers", &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&path);
    assert_eq!(report["complete"], true);
    let printed = stdout(&output);
    let tables = ["compressed", "files", "hot", "cold"];
    for table in tables {
        let rows = report[table].as_array().expect("rows");
        assert_eq!(rows.len(), 1, "{table}");
        let name = rows[0]["values"].as_str().expect("a name");
        // The table of writes is another one.
        assert_eq!(printed.matches(name).count(), tables.len() + 1, "{printed}");
    }
    let writes = report["writes"].as_array().expect("rows");
    let names: Vec<&str> = writes.iter().filter_map(|it| it["tier"].as_str()).collect();
    assert_eq!(names, ["compressed", "file"]);
    for row in writes {
        assert_eq!(row["windows"].as_array().map(Vec::len), Some(8), "{row}");
        for number in ["cpu_ratio", "rate_ratio", "drift"] {
            assert!(row[number].as_f64() > Some(0.0), "{number}: {row}");
        }
        assert!(
            row["steady"]["tiered"]["kops"].as_f64() > Some(0.0),
            "{row}"
        );
    }
    // Values were in the tier. Beside its dictionaries they are few here.
    assert!(writes[0]["steady"]["compression"].as_f64() > Some(0.0));
    assert!(report["compressed"][0]["ratio"].as_f64() > Some(1.0));
    assert!(report["files"][0]["rate_ratio"].as_f64() > Some(0.0));
}

#[test]
fn bad_flags_are_refused() {
    // A folder is used after the compressed values have been measured, so these are few.
    let folder = [
        "--folder",
        "/no/such/folder",
        "--records",
        "3k",
        "--rounds",
        "1",
        "--seconds",
        "0.05",
    ];
    let refusals: &[(&[&str], i32, &str)] = &[
        (&["--depth", "0"], 2, "--depth"),
        (&["--writes", "long"], 2, "--writes"),
        (&["--values", "/no/such/file"], 1, "/no/such/file"),
        (&folder, 1, "/no/such/folder"),
    ];
    check_refusals("bench-tiers", refusals);
}
