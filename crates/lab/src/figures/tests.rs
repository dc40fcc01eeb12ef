//! All figures, very small: that each has its points, and the same ones again.

use super::chime::FIGURES;
use super::row::FigureReport;
use super::{FigureSession, Request, Scale};
use crate::bench::{Completion, Interrupt};
use crate::report::Kind;
use std::collections::BTreeSet;

fn run(figures: &[&str], interrupt: &Interrupt) -> (FigureReport, Completion, String) {
    let names: Vec<String> = figures.iter().map(|name| (*name).to_owned()).collect();
    let request = Request::new(&names, Scale::tiny()).unwrap();
    let session = FigureSession::open(None, None).unwrap();
    let mut printed = String::new();
    let mut print = |text: &str| printed += text;
    let (report, completion) = session.run(&request, interrupt, &mut print).unwrap();
    (report, completion, printed)
}

#[test]
fn every_figure_has_points_or_says_why_not() {
    let (report, completion, printed) = run(&[], &Interrupt::default());
    assert_eq!(completion, Completion::Finished);
    assert!(
        report.complete && report.failed.is_empty(),
        "{:?}",
        report.failed
    );
    for figure in FIGURES {
        let rows = || report.rows.iter().filter(|row| row.figure == figure.name);
        let skipped = report.skipped.iter();
        let reasons = skipped.filter(|entry| entry.figure == figure.name).count();
        assert!(rows().count() + reasons > 0, "{}", figure.name);
        for row in rows() {
            let numbers = [row.x.value, row.y.value, row.rate_mops.unwrap_or(1.0)];
            assert!(numbers.iter().all(|number| number.is_finite()), "{row:?}");
            assert!(row.rate_mops.is_none_or(|rate| rate > 0.0), "{row:?}");
            // What comes from a model of hardware says so.
            assert_eq!(row.rate_mops.is_some(), row.kind == Kind::Modelled);
        }
    }
    assert!(printed.contains("figure 12") && printed.contains("modelled"));
    let ids: BTreeSet<&str> = report.claims.iter().map(|claim| &*claim.id).collect();
    assert_eq!(ids.len(), report.claims.len());
    // All claims follow from all figures.
    for claim in &report.claims {
        assert!(claim.ours.is_some_and(f64::is_finite), "{claim:?}");
        assert_eq!(claim.kind, Kind::Modelled);
    }
    of_the_schema(&report);
}

/// The names of fields in files.
fn of_the_schema(report: &FigureReport) {
    let json = serde_json::to_value(report).unwrap();
    for field in [
        "commit", "machine", "scale", "networks", "rows", "claims", "failed", "skipped",
    ] {
        assert!(!json[field].is_null(), "{field}");
    }
    let is_simulated = |row: &&serde_json::Value| row["figure"] == "12";
    let row = json["rows"].as_array().unwrap().iter().find(is_simulated);
    let row = row.unwrap();
    // As those of `nearfield bench`.
    for field in [
        "keys",
        "count",
        "mix",
        "distribution",
        "threads",
        "batch",
        "peer",
        "rate_mops",
    ] {
        assert!(!row[field].is_null(), "{field} of {row}");
    }
    assert!(row["latency_ns"]["p99"].as_u64() > Some(0));
    assert_eq!(row["kind"], "modelled");
    let claim = json["claims"][0].as_object().unwrap();
    let fields: BTreeSet<&str> = claim.keys().map(String::as_str).collect();
    let stated = ["id", "text", "paper", "ours", "unit", "kind"];
    assert_eq!(fields, BTreeSet::from(stated));
    assert_eq!(
        &serde_json::from_value::<FigureReport>(json).unwrap(),
        report
    );
}

#[test]
fn a_seed_gives_the_same_points_again() {
    let again = |figures: &[&str]| run(figures, &Interrupt::default()).0.rows;
    let figures = ["18a", "4a", "19b"];
    let rows = again(&figures);
    assert!(rows.len() > 10);
    assert_eq!(rows, again(&figures));
}

#[test]
fn an_interrupt_leaves_what_is_there() {
    let interrupt = Interrupt::default();
    interrupt.raise();
    let (report, completion, _) = run(&["12"], &interrupt);
    assert_eq!(completion, Completion::Interrupted);
    assert!(!report.complete && report.rows.is_empty() && report.failed.is_empty());
}

#[test]
fn figures_are_named_alone_or_by_their_number() {
    let names = |given: &str| {
        let request = Request::new(&[given.to_owned()], Scale::tiny());
        request.map(|request| request.names().join(" "))
    };
    assert_eq!(names("3").unwrap(), "3a 3b 3c 3d");
    assert_eq!(names("18f").unwrap(), "18f");
    assert_eq!(
        names("1").map_err(|error| error.to_string().len() > 40),
        Err(true)
    );
    assert!(names("").is_err() && names("3e").is_err());
}
