//! `nearfield-bench bench`, run as a user runs it.

use crate::program::{BenchTestFolder, command, json, output, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Operations of a thread in a slice, for `--slice`: the tests look at rows, not at rates.
const SLICE: &str = "10000";

/// Returns the `peer` fields of an array's elements.
fn peers(rows: &Value) -> Vec<&str> {
    let rows = rows.as_array().expect("an array");
    rows.iter()
        .map(|row| row["peer"].as_str().expect("a name"))
        .collect()
}

#[test]
fn bad_flags_are_refused_with_name_and_allowed_values() {
    let bad = [
        (["--threads", "0"], "--threads", "1 to 1024"),
        (["--batch", "0"], "--batch", "1 to 16777216"),
        (["--batch", "100M"], "--batch", "1 to 16777216"),
        (
            ["--peers", "redis"],
            "--peers",
            "nearfield-operation-centric, btreemap, brie-tree, congee",
        ),
        (["--count", "1000000000000000"], "--count", "1 to "),
        (["--count", "0"], "--count", "1 to "),
        (["--count", "many"], "--count", "k, M or G"),
        (["--keys", "spars"], "--keys", "sparse, dense"),
        (["--keys", ""], "--keys", "sparse, dense"),
        (
            ["--keys", "file:/no/such/file"],
            "/no/such/file",
            "No such file",
        ),
        (["--mix", "Z"], "--mix", "dcart-A"),
        (["--distribution", "zipf:-1"], "--distribution", "0 to 100"),
        (
            ["--json", "/no/such/folder/report.json"],
            "/no/such/folder",
            "No such file",
        ),
        (["--html", "/"], "/", "directory"),
    ];
    for (flags, name, allowed) in bad {
        let refused = output("bench", &flags);
        let message = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{flags:?}: {message}");
        assert!(
            message.contains(name) && message.contains(allowed),
            "{flags:?}: {message}"
        );
        assert!(refused.stdout.is_empty(), "{flags:?} measured something");
    }
}

#[test]
fn help_teaches_with_examples() {
    let help = stdout(&output("bench", &["--help"]));
    for part in [
        "--keys",
        "--peers",
        "Examples:",
        "--count 50M",
        "zipf:THETA",
        "[default: C]",
    ] {
        assert!(help.contains(part), "{part} in\n{help}");
    }
}

#[test]
fn a_sweep_fills_the_reports() {
    let folder = BenchTestFolder::new("sweep");
    let (report, page) = (folder.file("report.json"), folder.file("page.html"));
    let flags = [
        "--count", "2k", "--mix", "C,E,load", "--batch", "64", "--json", &report,
    ];
    let all = "nearfield,nearfield-operation-centric,btreemap,brie-tree,congee,blart,ferntree,\
               indexset,masstree,scc,crossbeam-skiplist,papaya,\
               dashmap";
    let mut command = command("bench", &flags);
    let done = command
        .args(["--html", &page, "--peers", all, "--slice", SLICE])
        .output()
        .expect("it starts");
    let text = stdout(&done);
    assert!(done.status.success(), "{text}");
    assert!(
        text.contains("skipped: papaya: a hash map has no scans"),
        "{text}"
    );

    let report = json(&report);
    assert_eq!(report["complete"], true);
    assert_eq!(report["failed"], Value::Array(Vec::new()), "{text}");
    // Thirteen contestants; two have no scans; gets have a limit.
    assert_eq!(peers(&report["rows"]).len(), 14 + 11 + 13, "{text}");
    assert!(text.contains("Nearfield executes "), "{text}");
    for row in report["rows"].as_array().expect("an array") {
        assert!(row["rate_mops"].as_f64().expect("a number") > 0.0);
        assert_eq!(row["count"], 2000);
    }
    assert!(
        fs::read_to_string(&page)
            .expect("the page")
            .contains("<svg")
    );
    assert_eq!(
        fs::read_dir(&folder.0).expect("the folder").count(),
        2,
        "drafts are left"
    );
}

#[test]
fn each_size_of_a_batch_has_rows() {
    let folder = BenchTestFolder::new("batches");
    let report = folder.file("report.json");
    let flags = [
        "--count",
        "2k",
        "--batch",
        "1,64",
        "--peers",
        "nearfield,btreemap",
    ];
    let done = command("bench", &flags)
        .args(["--json", &report, "--slice", SLICE])
        .output()
        .expect("it starts");
    let report = json(&report);
    assert_eq!(report["complete"], true, "{}", stdout(&done));
    let rows = ["nearfield", "btreemap", "limit"].repeat(2);
    assert_eq!(peers(&report["rows"]), rows);
}

#[test]
fn contestants_that_cannot_share_are_skipped_for_two_threads() {
    let all = "congee,blart,ferntree,masstree,scc,crossbeam-skiplist,papaya,dashmap";
    for (mixes, contestants, count) in [("A", all, 8), ("F,D", "congee,blart,scc", 2 * 3)] {
        let folder = BenchTestFolder::new("threads");
        let report = folder.file("report.json");
        let flags = ["--count", "5k", "--threads", "2", "--mix", mixes];
        let done = command("bench", &flags)
            .args(["--peers", contestants, "--json", &report])
            .args(["--slice", SLICE])
            .output()
            .expect("it starts");
        let report = json(&report);
        let failed = &report["failed"];
        assert_eq!(*failed, Value::Array(Vec::new()), "{}", stdout(&done));
        let skipped = vec!["blart"; mixes.split(',').count()];
        assert_eq!(peers(&report["skipped"]), skipped);
        assert_eq!(peers(&report["rows"]).len(), count, "{mixes}");
    }
}

#[test]
fn a_file_of_keys_that_one_peer_refuses_costs_one_row() {
    let folder = BenchTestFolder::new("file");
    let keys = folder.file("keys.txt");
    let long = "x".repeat(300);
    let lines: Vec<String> = (0..500)
        .map(|i| format!("{i}{}", if i % 100 == 7 { &long } else { "" }))
        .collect();
    fs::write(&keys, lines.join("\n")).expect("a key file");
    let report = folder.file("report.json");
    let set = format!("file:{keys}");
    let peers_flag = ["--peers", "btreemap,masstree,congee"];
    let flags = ["--keys", &set, "--mix", "C", "--json", &report];
    let mut command = command("bench", &flags);
    command.args(peers_flag).args(["--slice", SLICE]);
    let done = command.output().expect("it starts");
    assert!(done.status.success(), "{}", stdout(&done));
    let report = json(&report);
    assert_eq!(peers(&report["rows"]), ["btreemap", "limit"]);
    assert_eq!(peers(&report["failed"]), ["masstree", "congee"]);
    let error = report["failed"][0]["error"].as_str().expect("text");
    assert!(error.contains("256 bytes"), "{error}");
}

#[test]
fn counters_stand_in_rows_of_their_own() {
    let folder = BenchTestFolder::new("counters");
    let report = folder.file("report.json");
    let flags = [
        "--count",
        "5k",
        "--counters",
        "--batch",
        "64",
        "--json",
        &report,
    ];
    let done = command("bench", &flags)
        .args(["--peers", "nearfield,btreemap", "--slice", SLICE])
        .output();
    let text = stdout(&done.expect("it starts"));
    assert!(
        text.contains("counted for each operation: nearfield: partial key matches "),
        "{text}"
    );
    let report = json(&report);
    assert_eq!(
        peers(&report["rows"]),
        ["nearfield", "btreemap", "limit", "nearfield"]
    );
    let counted = &report["rows"][3];
    assert_eq!(counted["kind"], "counted");
    assert!(counted["rate_mops"].is_null());
    let counters = &counted["counters"];
    assert!(counters["cache_lines"].as_u64() >= counters["leaves"].as_u64());
    assert_eq!(counters["operations"], 10_000);
}

/// Waits until `is_so` returns true, for at most half a minute.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "the wait timed out"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_run_leaves_a_valid_report_of_the_finished_measurements() {
    let folder = BenchTestFolder::new("interrupt");
    let path = folder.file("report.json");
    let flags = ["--count", "1k,2M", "--peers", "btreemap", "--json", &path];
    let child = command("bench", &flags)
        .args(["--slice", SLICE])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.expect("it starts");
    wait_until(|| Path::new(&path).exists() && !peers(&json(&path)["rows"]).is_empty());
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.expect("kill runs").success());
    let ended = child.wait_with_output().expect("it ends");
    let message = stderr(&ended);
    assert_eq!(ended.status.code(), Some(130), "{message}");
    assert!(message.contains("interrupted"), "{message}");
    let report = json(&path);
    assert_eq!(report["complete"], false);
    assert_eq!(peers(&report["rows"]), ["btreemap", "limit"]);
    assert_eq!(report["failed"], Value::Array(Vec::new()));
}
