//! Checks of docs/fidelity.md: the page names claims, figures and commands that exist, and leaves
//! no figure of a paper and no claim with a paper's number out.

use super::paper::ScaledPaper;
use super::{AdmScale, ChimeScale, PulseScale};
use nearfield_hardware::dram::DramPreset;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/fidelity.md");

/// The figures that are in no paper.
const OWN: [&str; 7] = [
    "memories",
    "moved",
    "moving",
    "cxl",
    "tuning",
    "sensitivity",
    "in-flight",
];

/// The verdicts without a reason.
const VERDICTS: [&str; 4] = ["predicted", "calibrated", "input", "absent"];

/// Returns the cells of each row of a paper's table.
fn rows<'p>(page: &'p str, heading: &str) -> Vec<Vec<&'p str>> {
    let heading = format!("\n## {heading}\n");
    let after = page.split_once(heading.as_str());
    let section = after.and_then(|(_, after)| after.split("\n## ").next());
    let lines = section.unwrap_or_default().lines();
    // The first row is the head. The line below it begins with a bar and a dash.
    let lines = lines.filter(|line| line.starts_with("| ")).skip(1);
    let cells = |line: &'p str| -> Vec<&'p str> {
        let inner = line.trim().trim_matches('|');
        inner.split('|').map(str::trim).collect()
    };
    lines.map(cells).collect()
}

/// Returns the texts between back quotes.
fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns the figures that a command draws, or the reason for which it cannot be run.
fn figures_of<'c>(command: &'c str, paper: &dyn ScaledPaper) -> Result<Vec<&'c str>, String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words[..] {
        ["nearfield-bench", "figures", name, ref rest @ ..]
            if name.eq_ignore_ascii_case(paper.name()) =>
        {
            let titles = paper.titles();
            let named: Vec<&str> = rest.iter().copied().filter(|it| *it != "--quick").collect();
            let is_known = |name: &str| titles.iter().any(|title| title.name == name);
            match named.iter().find(|name| !is_known(name)) {
                Some(name) => Err(format!("{command}: there is no figure {name}")),
                None => Ok(named),
            }
        }
        [
            "nearfield-bench",
            "dram",
            "--preset",
            preset,
            "--trace",
            "FILE",
        ] if DramPreset::ALL.iter().any(|it| it.name() == preset) => Ok(Vec::new()),
        _ => Err(format!("{command}: no such command")),
    }
}

/// Returns all that is wrong with the table of a paper.
fn faults(page: &str, heading: &str, paper: &dyn ScaledPaper) -> Vec<String> {
    let claims = paper.claims(&[]);
    let known: BTreeSet<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
    let mut faults = Vec::new();
    let (mut named, mut drawn) = (BTreeSet::new(), BTreeSet::new());
    for cells in rows(page, heading) {
        let [statement, place, ours, verdict, commands] = cells[..] else {
            faults.push(format!("{} cells: {}", cells.len(), cells.join("; ")));
            continue;
        };
        if [statement, place, ours].contains(&"") {
            faults.push(format!("an empty cell: {statement}"));
        }
        let reason = verdict.strip_prefix("off: ");
        if reason.is_none_or(str::is_empty) && !VERDICTS.contains(&verdict) {
            faults.push(format!("the verdict {verdict:?} of: {statement}"));
        }
        // Only names of claims have dots.
        for claim in spans(ours).filter(|span| span.contains('.')) {
            if !known.contains(claim) {
                faults.push(format!("there is no claim {claim}"));
            }
            named.insert(claim);
        }
        for command in spans(commands) {
            match figures_of(command, paper) {
                Ok(figures) => drawn.extend(figures),
                Err(fault) => faults.push(fault),
            }
        }
        if ours.contains("by the command") && spans(commands).next().is_none() {
            faults.push(format!("no command for: {statement}"));
        }
    }
    let stated = claims.iter().filter(|claim| claim.paper.is_some());
    let missing_claims = stated.filter(|claim| !named.contains(claim.id.as_str()));
    faults.extend(missing_claims.map(|claim| format!("claim {} is in no row", claim.id)));
    let titles = paper.titles().into_iter().map(|title| title.name);
    let missing_figures = titles.filter(|name| !OWN.contains(name) && !drawn.contains(name));
    faults.extend(missing_figures.map(|name| format!("figure {name} is in no row")));
    faults
}

#[test]
fn the_page_names_what_exists_and_leaves_nothing_out() {
    let (adm, pulse, chime) = (AdmScale::tiny(), PulseScale::tiny(), ChimeScale::tiny());
    let papers: [(&str, &dyn ScaledPaper); 3] =
        [("ADM", &adm), ("pulse", &pulse), ("CHIME", &chime)];
    let of_paper = |(heading, paper)| faults(PAGE, heading, paper);
    let found: Vec<String> = papers.into_iter().flat_map(of_paper).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_wrong_page_is_seen() {
    let adm = AdmScale::tiny();
    let unknown = ("`adm.latency.dram`", "`adm.latency.drum`");
    let no_reason = ("off: as above; the order of the two is the paper's", "off");
    for ((text, other), fault) in [
        (unknown, "no claim adm.latency.drum"),
        (("(`adm.size.adm`)", ""), "claim adm.size.adm is in no row"),
        (("figures adm 8 ", "figures adm 88 "), "no figure 88"),
        (
            ("figures adm 9 ", "figures adm 8 "),
            "figure 9 is in no row",
        ),
        (("figures adm 7 ", "figures pulse 7 "), "no such command"),
        (("--preset hbm2 ", "--preset hbm9 "), "no such command"),
        (("| absent |", "| absent | |"), "6 cells"),
        (("| predicted |", "| right |"), "the verdict \"right\""),
        (no_reason, "the verdict \"off\""),
        (("\n## ADM\n", "\n## Adam\n"), "is in no row"),
    ] {
        assert!(PAGE.contains(text), "{text}");
        let page = PAGE.replace(text, other);
        let faults = faults(&page, "ADM", &adm);
        let is_seen = faults.iter().any(|found| found.contains(fault));
        assert!(is_seen, "{text}: {faults:?}");
    }
}
