//! Tests of all figures at a very small size: each has its points, and a second run repeats them.

use super::paper::ScaledPaper;
use super::report::FigureReport;
use super::{
    AdmScale, ChimeScale, DcartScale, FigureRequest, FigureSession, PaperClaim, PaperScale,
    PulseScale, RadarScale, Row,
};
use crate::harness::{Completion, Interrupt};
use crate::report::NumberOrigin;
use std::collections::BTreeSet;
use std::sync::OnceLock;

fn tiny() -> PaperScale {
    PaperScale::Chime(ChimeScale::tiny())
}

fn run(figures: &[&str], interrupt: &Interrupt) -> (FigureReport, Completion, String) {
    run_at(tiny(), figures, interrupt)
}

fn run_at(
    scale: PaperScale,
    figures: &[&str],
    interrupt: &Interrupt,
) -> (FigureReport, Completion, String) {
    let names: Vec<String> = figures.iter().map(|name| (*name).to_owned()).collect();
    let request = FigureRequest::new(&names, scale).unwrap();
    let session = FigureSession::open(None, None).unwrap();
    let mut printed = String::new();
    let mut print = |text: &str| printed += text;
    let (report, completion) = session.run(&request, interrupt, &mut print).unwrap();
    (report, completion, printed)
}

/// Returns the rows of a figure, which has some or a reason for their absence.
fn rows_of<'r>(report: &'r FigureReport, figure: &str) -> Vec<&'r Row> {
    let rows = report.rows.iter();
    let rows: Vec<&Row> = rows.filter(|row| row.detail.figure == figure).collect();
    let mut skipped = report.skipped.iter();
    let is_skipped = skipped.any(|entry| entry.figure == figure);
    assert!(!rows.is_empty() || is_skipped, "{figure}");
    rows
}

/// Returns the rows of some figures, in the order of the report.
fn rows_of_some<'r>(report: &'r FigureReport, figures: &[&str]) -> Vec<&'r Row> {
    let is_of_one = |row: &&Row| figures.contains(&&*row.detail.figure);
    report.rows.iter().filter(is_of_one).collect()
}

/// Runs all figures of a paper, and returns the report with the text that was printed.
fn run_all(scale: PaperScale) -> (FigureReport, String) {
    let (report, completion, printed) = run_at(scale, &[], &Interrupt::default());
    assert_eq!(completion, Completion::Finished);
    assert!(report.failed.is_empty(), "{:?}", report.failed);
    (report, printed)
}

// Several tests read the same run of all figures, because it takes long.

/// Returns the run of all figures of the pool.
fn run_of_pool() -> &'static (FigureReport, String) {
    static RUN: OnceLock<(FigureReport, String)> = OnceLock::new();
    RUN.get_or_init(|| run_all(tiny()))
}

/// Returns the run of all figures of modules.
fn run_of_modules() -> &'static (FigureReport, String) {
    static RUN: OnceLock<(FigureReport, String)> = OnceLock::new();
    RUN.get_or_init(|| run_all(tiny_radar()))
}

/// Returns the run of all figures of tiers.
fn run_of_tiers() -> &'static (FigureReport, String) {
    static RUN: OnceLock<(FigureReport, String)> = OnceLock::new();
    RUN.get_or_init(|| run_all(PaperScale::Adm(AdmScale::tiny())))
}

/// Returns the run of all figures of traversals.
fn run_of_traversals() -> &'static (FigureReport, String) {
    static RUN: OnceLock<(FigureReport, String)> = OnceLock::new();
    RUN.get_or_init(|| run_all(PaperScale::Pulse(PulseScale::tiny())))
}

/// Returns the report of all figures of tiers.
pub(super) fn all_of_tiers() -> &'static FigureReport {
    &run_of_tiers().0
}

/// Returns the report of all figures of traversals.
pub(super) fn all_of_traversals() -> &'static FigureReport {
    &run_of_traversals().0
}

#[test]
fn every_figure_has_points_or_a_reason_for_their_absence() {
    let (report, printed) = run_of_pool();
    assert!(report.complete);
    for figure in ChimeScale::tiny().titles() {
        for row in rows_of(report, figure.name) {
            let numbers = [
                row.detail.x.value,
                row.detail.y.value,
                row.rate_mops.unwrap_or(1.0),
            ];
            assert!(numbers.iter().all(|number| number.is_finite()), "{row:?}");
            assert!(row.rate_mops.is_none_or(|rate| rate > 0.0), "{row:?}");
            // Rates that come from a model of hardware are labelled as modelled.
            assert_eq!(row.rate_mops.is_some(), row.kind == NumberOrigin::Modelled);
        }
    }
    assert!(printed.contains("figure 12") && printed.contains("modelled"));
    let ids: BTreeSet<&str> = report.claims.iter().map(|claim| &*claim.id).collect();
    assert_eq!(ids.len(), report.claims.len());
    // All claims follow from all figures.
    for claim in &report.claims {
        assert!(claim.ours.is_some_and(f64::is_finite), "{claim:?}");
        assert_eq!(claim.kind, NumberOrigin::Modelled);
    }
    of_the_schema(report);
}

/// Checks the names of fields in the JSON report.
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
    // The same names as in the report of `nearfield-bench bench`.
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
    let stated = [
        "id",
        "text",
        "paper",
        "ours",
        "unit",
        "kind",
        "direction",
        "basis",
    ];
    assert_eq!(fields, BTreeSet::from(stated));
    assert_eq!(
        &serde_json::from_value::<FigureReport>(json).unwrap(),
        report
    );
}

fn tiny_radar() -> PaperScale {
    PaperScale::Radar(RadarScale::tiny())
}

#[test]
fn every_figure_of_modules_has_points_or_a_reason_for_their_absence() {
    let (report, printed) = run_of_modules();
    for figure in RadarScale::tiny().titles() {
        for row in rows_of(report, figure.name) {
            assert!(
                row.detail.y.value.is_finite() && row.detail.y.value >= 0.0,
                "{row:?}"
            );
            let expected: &[NumberOrigin] = match figure.name {
                "cpu" => &[NumberOrigin::Measured],
                "8" | "15" => &[NumberOrigin::Counted],
                // Figures 7 and 9 measure training on this machine. Figure 14 measures servers,
                // next to indexes in modelled modules.
                "7" | "9" | "14" => &[NumberOrigin::Modelled, NumberOrigin::Measured],
                _ => &[NumberOrigin::Modelled],
            };
            assert!(expected.contains(&row.kind), "{row:?}");
            let is_modelled = row.kind == NumberOrigin::Modelled;
            assert_eq!(row.detail.device.is_some(), is_modelled, "{row:?}");
        }
    }
    assert!(printed.contains("RADAR, figure 10:") && printed.contains("measured"));
    let presets: BTreeSet<&str> = report.devices.iter().map(|device| &*device.name).collect();
    assert_eq!(presets.len(), 2);
    let used = report
        .rows
        .iter()
        .filter_map(|row| row.detail.device.as_deref());
    assert_eq!(used.collect::<BTreeSet<&str>>(), presets);
    // Each contender that takes part has each operation at each degree of skew.
    let of_ten = report.rows.iter().filter(|row| row.detail.figure == "10");
    let (long, of_ten): (Vec<_>, Vec<_>) =
        of_ten.partition(|row| row.detail.panel.starts_with("Get, "));
    assert_eq!(long.len(), 6);
    let mut points = BTreeSet::new();
    for row in of_ten {
        let point = (
            row.peer.clone(),
            row.detail.panel.clone(),
            row.detail.x.value.to_bits(),
        );
        assert!(points.insert(point), "{row:?}");
    }
    let peers: BTreeSet<&str> = points.iter().map(|(peer, ..)| &**peer).collect();
    assert!(peers.contains("radar") && peers.contains("range-partition"));
    // This contender differs from another only in its gets, so it runs nothing else.
    let operations = |peer: &&str| if *peer == "pim-tree, table" { 1 } else { 6 };
    let operations: usize = peers.iter().map(operations).sum();
    assert_eq!(points.len(), operations * 4);
    let claim = |id: &str| report.claims.iter().find(|claim| claim.id == id).unwrap();
    for id in [
        "radar.throughput.range-partition",
        "radar.worst",
        "radar.gru.accuracy",
        "radar.gru.gain",
        "radar.gru.point-uniform",
        "radar.gru.point-1.2",
        "radar.gru.hidden",
        "ours.worst",
    ] {
        assert!(claim(id).ours.is_some_and(|ours| ours > 0.0), "{id}");
    }
    let saved = ["radar.gru.hops", "ours.heights"].map(|id| claim(id).ours);
    assert!(
        saved
            .iter()
            .all(|saved| saved < &Some(1.0) && saved.is_some()),
        "{saved:?}"
    );
    assert!(claim("radar.rounds").ours <= Some(2.0) && claim("ours.rounds").ours <= Some(2.0));
    // The load of Range-partition's fullest module is the one computed from the distribution.
    let closed = claim("radar.imbalance.range-partition").ours.unwrap();
    assert!((0.8..1.25).contains(&closed), "{closed}");
    of_the_schema_of_modules(report);
}

fn of_the_schema_of_modules(report: &FigureReport) {
    let json = serde_json::to_value(report).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["figure"] == "10").unwrap();
    for field in [
        "keys",
        "count",
        "mix",
        "distribution",
        "batch",
        "device",
        "modules",
    ] {
        assert!(!row[field].is_null(), "{field} of {row}");
    }
    assert!(row["network"].is_null() && row["messages_per_operation"].is_null());
    let documented = include_str!("../../../../docs/pim-figures.md");
    for field in row["work"].as_object().unwrap().keys() {
        assert!(
            documented.contains(&format!("`{field}`")),
            "docs/pim-figures.md lacks {field}"
        );
    }
    // The same fields as in the rows of CHIME.
    let (other, ..) = run(&["16"], &Interrupt::default());
    let other = serde_json::to_value(&other.rows[0]).unwrap();
    let of_setting = ["keys", "count", "mix", "distribution", "threads", "batch"];
    let fields = |row: &serde_json::Value| -> BTreeSet<String> {
        let fields = row.as_object().unwrap().keys();
        let fields = fields.filter(|field| !of_setting.contains(&field.as_str()));
        fields.cloned().collect()
    };
    assert_eq!(fields(row), fields(&other));
    let again: FigureReport = serde_json::from_value(json).unwrap();
    assert_eq!(&again, report);
}

#[test]
fn a_seed_gives_the_same_points_of_modules_again() {
    let figures = ["load", "8", "13"];
    let rows = rows_of_some(&run_of_modules().0, &figures);
    assert!(rows.len() > 10);
    let (again, ..) = run_at(tiny_radar(), &figures, &Interrupt::default());
    assert_eq!(rows, again.rows.iter().collect::<Vec<_>>());
}

#[test]
fn an_interrupt_before_the_first_job_leaves_an_empty_report_of_modules() {
    interrupted(tiny_radar(), &["10", "cpu"]);
}

#[test]
fn a_seed_gives_the_same_points_again() {
    let figures = ["18a", "4a", "19b"];
    let rows = rows_of_some(&run_of_pool().0, &figures);
    assert!(rows.len() > 10);
    let (again, ..) = run(&figures, &Interrupt::default());
    assert_eq!(rows, again.rows.iter().collect::<Vec<_>>());
}

#[test]
fn an_interrupt_before_the_first_job_leaves_an_empty_report() {
    interrupted(tiny(), &["12"]);
}

/// Runs figures that are interrupted before they begin.
fn interrupted(scale: PaperScale, figures: &[&str]) {
    let interrupt = Interrupt::default();
    interrupt.raise();
    let (report, completion, _) = run_at(scale, figures, &interrupt);
    assert_eq!(completion, Completion::Interrupted);
    assert!(!report.complete && report.rows.is_empty() && report.failed.is_empty());
}

#[test]
fn figures_are_named_alone_or_by_their_number() {
    let names = |given: &str| {
        let request = FigureRequest::new(&[given.to_owned()], tiny());
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

/// The figures that measure, which small runs leave out. Claims about them are named so, too.
const MEASURED: [&str; 1] = ["server"];

/// Checks the run of all figures of a paper whose rows are all modelled. Each has rows, each claim
/// has a number, a second run of the figures `again` repeats their rows, and a report read from a
/// file is the same.
fn all_modelled(scale: impl Fn() -> PaperScale, report: &FigureReport, again: &[&str]) {
    let titles = scale().paper().titles();
    for figure in titles.iter().filter(|it| !MEASURED.contains(&it.name)) {
        let rows = rows_of(report, figure.name);
        assert!(!rows.is_empty(), "{}", figure.name);
        for row in rows {
            assert!(row.detail.y.value.is_finite(), "{row:?}");
            assert_eq!(row.kind, NumberOrigin::Modelled);
        }
    }
    let is_modelled = |claim: &&PaperClaim| !claim.id.contains(".server.");
    for claim in report.claims.iter().filter(is_modelled) {
        assert!(claim.ours.is_some_and(f64::is_finite), "{claim:?}");
    }
    let (second, _, _) = run_at(scale(), again, &Interrupt::default());
    let rows = rows_of_some(report, again);
    assert_eq!(rows, second.rows.iter().collect::<Vec<_>>());
    let json = serde_json::to_value(report).unwrap();
    let read: FigureReport = serde_json::from_value(json).unwrap();
    assert_eq!(&read, report);
}

#[test]
fn every_figure_of_tiers_has_points_and_every_claim_a_number() {
    let scale = || PaperScale::Adm(AdmScale::tiny());
    let (report, printed) = run_of_tiers();
    all_modelled(scale, report, &["6a", "moved"]);
    assert!(printed.contains("ADM, figure 6a:") && printed.contains("modelled"));
    // With everything in one memory, the share that it serves is known.
    let shares = |peer: &str| {
        let of_peer = move |row: &&Row| row.peer == peer && row.detail.figure == "6a";
        let rows: Vec<&Row> = report.rows.iter().filter(of_peer).collect();
        assert_eq!(rows.len(), 20);
        rows.iter().map(|row| row.detail.y.value).sum::<f64>() / 20.0
    };
    assert_eq!((shares("DRAM"), shares("HBM")), (0.0, 100.0));
    // First come serves its capacity's part of the requests. The ideal placement serves the part
    // that the keys' distribution gives the hottest 30 %: 86.6 %.
    assert!(
        (shares("first come") - 30.0).abs() < 5.0,
        "{}",
        shares("first come")
    );
    assert!((shares("ideal") - 86.6).abs() < 3.0, "{}", shares("ideal"));
}

#[test]
fn every_figure_of_traversals_has_points_and_every_claim_a_number() {
    let scale = || PaperScale::Pulse(PulseScale::tiny());
    let (report, printed) = run_of_traversals();
    all_modelled(scale, report, &["table4", "2b"]);
    assert!(printed.contains("pulse, TABLE4:") && printed.contains("modelled"));
    // Both systems are the same on one node.
    let latency = |peer: &str| {
        let is_it = |row: &&Row| {
            let detail = &row.detail;
            row.peer == peer
                && (&*detail.figure, &*detail.y.name) == ("9", "latency")
                && detail.memory_nodes == Some(1)
        };
        let rows = report.rows.iter().filter(is_it);
        rows.map(|row| row.detail.y.value).collect::<Vec<f64>>()
    };
    assert_eq!(latency("pulse"), latency("pulse-acc"));
    assert_eq!(latency("pulse").len(), 6);
}

#[test]
fn an_interrupt_before_the_first_job_leaves_an_empty_report_of_traversals() {
    let scale = PaperScale::Pulse(PulseScale::tiny());
    interrupted(scale, &["7", "table4"]);
}

/// Some claims of papers.
const CLAIMS: [(&str, &str); 2] = [
    (
        "CHIME",
        "chime.throughput.sherman chime.throughput.rolex chime.throughput.smart \
         chime.cache.smart-opt chime.near-optimal ours.ycsb-a ours.load ours.worst ours.cxl-c \
         ours.cxl-e",
    ),
    (
        "RADAR",
        "radar.throughput.range-partition radar.scan-uniform radar.rounds radar.pim-pim-uniform \
         radar.memory.pim-tree radar.idle.host radar.gru.accuracy radar.worst radar.load.16.0.99 \
         ours.imbalance ours.rounds ours.point-0.99 ours.point-1.2 ours.worst",
    ),
];

#[test]
fn each_claim_is_present_once_without_rows() {
    let scales = [
        tiny(),
        tiny_radar(),
        PaperScale::Adm(AdmScale::tiny()),
        PaperScale::Pulse(PulseScale::tiny()),
        PaperScale::Dcart(DcartScale::tiny()),
    ];
    for paper in scales.iter().map(PaperScale::paper) {
        let claims = paper.claims(&[]);
        let ids: BTreeSet<&str> = claims.iter().map(|claim| &*claim.id).collect();
        assert_eq!(ids.len(), claims.len());
        let expected = CLAIMS.iter().filter(|(name, _)| *name == paper.name());
        for id in expected.flat_map(|(_, ids)| ids.split(' ')) {
            assert!(ids.contains(id), "{id}");
        }
        assert!(claims.iter().all(|claim| claim.ours.is_none()));
    }
}
