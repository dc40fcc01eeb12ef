//! The command `nearfield-bench figures`.

use crate::program::{BenchTestFolder, check_refusals, json, output, stderr, stdout};

#[test]
fn figures_are_printed_and_written() {
    let folder = BenchTestFolder::new("figures");
    let (report, page) = (folder.file("a.json"), folder.file("a.html"));
    let arguments = [
        "chime", "16", "4", "--quick", "--count", "2k", "--json", &report, "--html", &page,
    ];
    let output = output("figures", &arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(printed.contains("CHIME, figure 4a") && printed.contains("modelled"));
    let report = json(&report);
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
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("<svg") && page.contains("(modelled)"));
}

#[test]
fn a_trace_of_ones_own_is_walked_and_a_wrong_line_is_named() {
    let folder = BenchTestFolder::new("trace");
    let (trace, report) = (folder.file("trace.txt"), folder.file("trace.json"));
    let walk = |text: &str| {
        std::fs::write(&trace, text).expect("a trace");
        let arguments = [
            "dcart", "3", "--quick", "--trace", &trace, "--json", &report,
        ];
        output("figures", &arguments)
    };
    let lines = (0..500).map(|number| format!("insert user:{number}\nget user:{number}\n"));
    let output = walk(&lines.collect::<String>());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&report);
    let rows = report["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row["key_source"] == trace.as_str()));
    let output = walk("get a\nforget b\n");
    assert!(!output.status.success());
    let refused = stderr(&output);
    assert!(
        refused.contains(&trace) && refused.contains("line 2"),
        "{refused}"
    );
}

#[test]
fn unknown_figures_and_bad_flags_are_refused() {
    let refusals: &[(&[&str], i32, &str)] = &[
        (&["chime", "99"], 2, "\"99\""),
        (&["chime", "--count", "5"], 2, "--count is 5"),
        (&["chime", "--modules", "64"], 2, "--modules is 64"),
        (&["chime", "--text", "a.txt"], 2, "--text is a.txt"),
        (&["radar", "--modules", "5"], 2, "--modules is 5"),
        (&["chime", "--capacity", "65"], 2, "--capacity is 65"),
        (&["adm", "--capacity", "200"], 2, "--capacity is 200"),
        (&["pulse", "--threshold-in", "6"], 2, "--threshold-in is 6"),
        (
            &["chime", "--json", "/no/such/folder/a.json"],
            2,
            "/no/such/folder",
        ),
        (&["sherman"], 2, "sherman"),
    ];
    check_refusals("figures", refusals);
}
