//! `nearfield-bench dram`: its results, its errors.

use crate::program::{self, BenchTestFolder, stderr, stdout};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::Output;

/// Writes a file into a folder.
fn file(folder: &BenchTestFolder, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.0.join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn dram(arguments: &[&str], trace: &PathBuf) -> Output {
    let mut command = program::command("dram", &["--trace"]);
    let output = command.arg(trace).args(arguments).output();
    output.expect("the program starts")
}

fn json(arguments: &[&str], trace: &PathBuf) -> Value {
    let output = dram(&[arguments, &["--json", "-"]].concat(), trace);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

const TWO: &[u8] = b"0x0 READ 0\n0x40 READ 0\n";

#[test]
fn results_are_in_the_table_and_in_json() {
    let folder = BenchTestFolder::new("dram-results");
    let trace = file(&folder, "two.trace", TWO);
    let output = dram(&["--preset", "ddr4-3200-x8"], &trace);
    let table = stdout(&output);
    assert!(
        table.contains("modelled") && table.contains("mean 33.12 ns"),
        "{table}"
    );
    let path = folder.file("result.json");
    let arguments = ["--preset", "ddr4-3200-x8", "--json", &path];
    assert!(dram(&arguments, &trace).status.success());
    let result = program::json(&path);
    assert_eq!(result["latency_ns"]["mean"], 33.125);
    assert_eq!(result["latency_ns"]["p99"], 57.0 * 0.625);
    assert_eq!(result["row_hit_rate"], 0.5);
    assert_eq!(result["commands"]["act"], 1);
    assert_eq!(result["commands"]["read"], 2);
    assert_eq!(result["commands"]["pre"], 0);
    assert_eq!(result["time_us"], 57.0 * 0.625 / 1000.0);
    assert!(result["bandwidth_gbps"].as_f64().is_some_and(|it| it > 3.0));
    for part in ["activate", "read", "write", "refresh", "background"] {
        assert!(result["energy_uj"][part].is_number(), "{part}");
    }
}

#[test]
fn a_trace_may_be_compressed() {
    let folder = BenchTestFolder::new("dram-compressed");
    let plain = file(&folder, "two.trace", TWO);
    // Two gzip members, as `cat` of two files makes.
    let mut compressed = Vec::new();
    for line in TWO.split_inclusive(|byte| *byte == b'\n') {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(line).expect("memory");
        compressed.extend(encoder.finish().expect("memory"));
    }
    let compressed = file(&folder, "two.gz", &compressed);
    let preset = ["--preset", "hbm2"];
    assert_eq!(json(&preset, &plain), json(&preset, &compressed));
}

#[test]
fn options_change_the_results() {
    let folder = BenchTestFolder::new("dram-options");
    let trace = file(&folder, "two.trace", TWO);
    let mean = |arguments: &[&str]| {
        let result = json(&[&["--preset", "ddr4-3200-x8"], arguments].concat(), &trace);
        result["latency_ns"]["mean"].as_f64().expect("a number")
    };
    // The second line is in another channel, or enters a clock later, or after the first.
    assert_eq!(mean(&["--map", "ro-ba-ra-co-bg-ch"]), 30.625);
    assert_eq!(mean(&["--inject", "1"]), (49.0 + 56.0) / 2.0 * 0.625);
    assert_eq!(mean(&["--closed"]), (49.0 + 27.0) / 2.0 * 0.625);
    let closed = |option: &str| json(&["--preset", "ddr4-3200-x8", option], &trace);
    for (option, think) in [("--closed", 0), ("--closed=1", 1), ("--closed=1000", 1000)] {
        let result = closed(option);
        assert_eq!(result["pace"]["closed"], think);
        assert!(result["pace"]["inject"].is_null());
        let clocks = result["time_us"].as_f64().expect("a number") * 1000.0 / 0.625;
        // The next request leaves this much later, and its latency is the same.
        assert!(
            (clocks - (49.0 + f64::from(think) + 27.0)).abs() < 1e-6,
            "{clocks}"
        );
        assert_eq!(result["latency_ns"]["mean"], (49.0 + 27.0) / 2.0 * 0.625);
    }
    assert_eq!(json(&["--preset", "hbm2"], &trace)["pace"]["inject"], 8);
    let faster = mean(&["--parameter", "tRCD=12", "CL=12", "--parameter", "tCK=0.5"]);
    assert_eq!(faster, (29.0 + 37.0) / 2.0 * 0.5);
}

#[test]
fn errors_name_the_wrong_line_or_parameter() {
    let folder = BenchTestFolder::new("dram-wrong");
    let fails = |trace: &[u8], arguments: &[&str]| {
        let trace = file(&folder, "a.trace", trace);
        let output = dram(&[&["--preset", "hbm2"], arguments].concat(), &trace);
        assert!(!output.status.success() && output.stdout.is_empty());
        stderr(&output)
    };
    let error = fails(b"0x0 READ 0\n0x40 LOAD 5\n", &[]);
    assert!(
        error.contains("a.trace: line 2 of the trace: access \"LOAD\""),
        "{error}"
    );
    assert!(fails(b"\x1f\x8bnot gzip", &[]).contains("line 1 of the trace cannot be read"));
    let error = fails(TWO, &["--parameter", "tXY=1"]);
    assert!(
        error.contains("no parameter \"tXY\"; the names are"),
        "{error}"
    );
    assert!(fails(TWO, &["--parameter", "tRP=x"]).contains("parameter tRP cannot be \"x\""));
    assert!(fails(TWO, &["--parameter", "tRP"]).contains("NAME=VALUE"));
    assert!(fails(TWO, &["--parameter", "tREFI=9"]).contains("parameter tREFI cannot be 9"));
    let far: &[u8] = b"0x0 READ 0\n\n0xffffffffffffffff READ 5\n";
    let error = fails(far, &[]);
    assert!(
        error.contains("line 3 of the trace: address 0xffffffffffffffff is past the end")
            && error.contains("0x200000000 bytes")
            && error.contains("--wrap"),
        "{error}"
    );
    let trace = file(&folder, "far.trace", far);
    let wrapped = json(&["--preset", "hbm2", "--wrap"], &trace);
    assert_eq!(wrapped["commands"]["read"], 2);
    assert!(fails(TWO, &["--closed=x"]).contains("--closed"));
    assert!(fails(TWO, &["--map", "ro-ch"]).contains("ra is missing"));
    assert!(fails(TWO, &["--inject", "0"]).contains("--inject"));
    assert!(fails(TWO, &["--json", "/nowhere/x"]).contains("/nowhere/x: "));
    let output = dram(&["--preset", "hbm2"], &folder.0.join("absent"));
    let error = stderr(&output);
    assert!(error.contains("absent: No such file"), "{error}");
    let output = dram(&["--preset", "hbm9"], &folder.0.join("absent"));
    let error = stderr(&output);
    assert!(error.contains("hbm2-paper"), "{error}");
}

#[test]
fn accesses_to_objects_of_a_tier_are_replayed_through_caches() {
    let folder = BenchTestFolder::new("dram-objects");
    let trace = b"a 0 640 0 640 READ 0\na 0 640 0 640 READ 1000000\nb 1 64 0 64 READ 2000000\n";
    let trace = file(&folder, "objects.trace", trace);
    let replayed = |arguments: &[&str]| json(&[&["--preset", "hbm2"], arguments].concat(), &trace);
    let reads = |arguments: &[&str]| replayed(arguments)["requests"]["reads"].as_u64();
    assert_eq!(reads(&["--tier", "0"]), Some(20));
    assert_eq!(reads(&["--tier", "1"]), Some(1));
    // The second read of the object finds it in the first level.
    assert_eq!(reads(&["--tier", "0", "--caches"]), Some(10));
    let cached = replayed(&["--tier", "0", "--caches"]);
    let hits = cached["cache_hits"][0].as_f64().expect("a share");
    assert!((hits - 10.0 / 21.0).abs() < 1e-9, "{hits}");
    assert!(replayed(&["--tier", "0"])["cache_hits"].is_null());
    // A trace of objects is none of addresses, and caches are for objects.
    let output = dram(&["--preset", "hbm2"], &trace);
    assert!(stderr(&output).contains("line 1 of the trace"));
    assert!(
        !dram(&["--preset", "hbm2", "--caches"], &trace)
            .status
            .success()
    );
}
